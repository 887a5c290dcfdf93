"""Find the files of a ledger, cut them into pieces, and follow a server that writes them."""
