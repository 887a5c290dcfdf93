"""Names of streams: keys are bytes, and options, offsets and rows have text."""

from __future__ import annotations


def key_of(name: str) -> bytes:
    """Return the key of a stream's name; bytes that are no UTF-8 survive as surrogates."""
    return name.encode("utf-8", "surrogateescape")


def name_of(key: bytes) -> str:
    """Return the name of a stream's key, which ``key_of`` leads back from."""
    return key.decode("utf-8", "surrogateescape")


def printable_name(name: str) -> str:
    r"""Return a name as rows, logs and scrapers have it: bytes that are no UTF-8 are spelled ``\xNN``."""
    return key_of(name).decode("utf-8", "backslashreplace")
