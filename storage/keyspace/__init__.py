"""The keys of all databases, their expiry, and the freeing of big values."""
