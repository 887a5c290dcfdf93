"""The values of keys other than streams and strings: lists, hashes, sets, sorted sets."""
