"""Sorted sets: ZADD, ZRANGE, ZUNION, ZPOPMIN."""
