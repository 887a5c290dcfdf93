"""Range mode: streams read by ranges of ids, without a group."""
