"""``rillet pipeline``: its verbs, and the words, times and progress lines that they share."""
