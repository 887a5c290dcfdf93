"""Estimate the memory of keys with their values in bytes, for MEMORY USAGE and ``maxmemory``.

The constants are for CPython on 64-bit systems, measured with tracemalloc over many keys of each type. A table grows by
doubling, so the size of a slot is the mean of a full table and a new one.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

from ..collections.base import OBJECT_BYTES
from ..value_types import TYPES, Value
from .database import Database

KEY_ENTRY: Final = 90  # in `entries` and in `accessed`
EXPIRY_ENTRY: Final = 130  # a slot in `expires`, the time, and the pair in the heap
SAMPLES: Final = 5  # nested values to measure, by default
_LOOKED_AT: Final = 20_000  # in a larger database, the first keys serve as a sample


def memory_of_key(name: bytes, value: Value, samples: int = SAMPLES) -> int:
    """Estimate the bytes of one key with its value, without its expiry.

    Args:
        value: its value. Packed chunks of a stream count with their packed size.
        samples: how many chunks of a stream are measured; 0 for all.
    """
    return KEY_ENTRY + OBJECT_BYTES + len(name) + TYPES[type(value)].memory(value, samples)


def memory_of_keys(pairs: Iterable[tuple[bytes, Value]]) -> list[int]:
    """Estimate the bytes of many keys with their values, as ``memory_of_key`` does."""
    own = KEY_ENTRY + OBJECT_BYTES
    return [own + len(name) + TYPES[type(value)].memory(value, SAMPLES) for name, value in pairs]


def memory_of_database(db: Database) -> int:
    """Estimate the bytes of all keys of a database; extrapolate from the first keys if it is large."""
    count = len(db.entries)
    looked_at = min(count, _LOOKED_AT)
    if not looked_at:
        return 0
    size = sum(memory_of_keys(islice(db.entries.items(), looked_at)))
    return size * count // looked_at + len(db.expires) * EXPIRY_ENTRY
