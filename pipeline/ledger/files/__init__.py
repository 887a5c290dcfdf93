"""Which files a ledger has, the pieces they are cut into, and following a server that writes."""
