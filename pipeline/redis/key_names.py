"""Convert between keys, which are bytes, and stream names in options, offsets and rows, which are text."""

from __future__ import annotations


def key_of(name: str) -> bytes:
    """Return the key of a stream's name; surrogates become bytes that are not UTF-8."""
    return name.encode("utf-8", "surrogateescape")


def name_of(key: bytes) -> str:
    """Return the name of a stream's key; ``key_of`` converts it back."""
    return key.decode("utf-8", "surrogateescape")


def printable_name(name: str) -> str:
    r"""Return a name for rows, logs and scrapers: bytes that are not UTF-8 are spelled ``\xNN``."""
    return key_of(name).decode("utf-8", "backslashreplace")
