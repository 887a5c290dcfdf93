"""The append-only file: its manifest, writing, loading, rewriting and checking."""
