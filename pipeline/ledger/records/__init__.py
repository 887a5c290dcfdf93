"""Turn the bytes of a file into records, their ordinals, and their rows."""
