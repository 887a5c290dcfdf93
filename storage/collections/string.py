"""Functions for strings, which are plain bytes in the keyspace: encoding, sizes, digest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from .base import OBJECT_BYTES
from .set import is_integer

INTEGER: Final = b"int"
EMBEDDED: Final = b"embstr"
RAW: Final = b"raw"
_EMBEDDED_BYTES: Final = 44


def encoding(value: bytes) -> bytes:
    """Return OBJECT ENCODING of a string; one that was changed in place is ``raw`` instead (``Database.encodings``)."""
    if is_integer(value):
        return INTEGER
    return EMBEDDED if len(value) <= _EMBEDDED_BYTES else RAW


def copy(value: bytes) -> bytes:
    """Return the string itself: bytes never change, so COPY may share them."""
    return value


def digest_parts(value: bytes) -> Iterator[bytes]:
    """Yield a string's content for a digest: the string itself."""
    yield value


def memory(value: bytes, _samples: int) -> int:
    """Return the memory of a string in bytes; ``_samples`` is there because other data types need it."""
    return OBJECT_BYTES + len(value)


def serialized_bytes(value: bytes) -> int:
    """Return the approximate bytes of the string's serialized form (DEBUG OBJECT)."""
    return len(value) + (encoding(value) is not INTEGER)


def rewritten_bytes(value: bytes, key: bytes) -> int:
    """Return the approximate bytes of the SET command for this string in a rewritten AOF."""
    return len(key) + len(value) + 40
