"""The files of a running server: AOF and RDB."""
