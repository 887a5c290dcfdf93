"""Lists: LPUSH, LMOVE, BLPOP."""
