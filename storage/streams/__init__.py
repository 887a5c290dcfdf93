"""Streams: entries in chunks, their IDs, trimming, and Redis' macro nodes."""
