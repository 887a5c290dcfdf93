"""The keys of all databases, their expiry, and freeing what is big in the background."""
