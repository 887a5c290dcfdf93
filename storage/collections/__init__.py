"""The values of keys but for streams: lists, hashes, sets, sorted sets."""
