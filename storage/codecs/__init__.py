"""Encode and decode values: the RDB form of each data type, its packed lists and numbers, and streams as commands."""
