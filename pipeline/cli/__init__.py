"""``rillet pipeline``: its verbs, and the arguments, times and progress lines that they share."""
