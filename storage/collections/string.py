"""Functions for strings, which are plain bytes in the keyspace: encoding, sizes, digest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .base import OBJECT_BYTES
from .set import is_integer

if TYPE_CHECKING:
    from collections.abc import Iterator

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
    """Return the value itself, because bytes never change."""
    return value


def digest_parts(value: bytes) -> Iterator[bytes]:
    """Yield the content for a digest: the value itself."""
    yield value


def memory(value: bytes, _samples: int) -> int:
    """Return the memory of a value in bytes; the second argument is only for the interface of data types."""
    return OBJECT_BYTES + len(value)


def serialized_bytes(value: bytes) -> int:
    """Return the approximate bytes of its serialized form (DEBUG OBJECT)."""
    return len(value) + (encoding(value) is not INTEGER)


def rewritten_bytes(value: bytes, key: bytes) -> int:
    """Return the approximate bytes of its command in a rewritten AOF."""
    return len(key) + len(value) + 40
