"""Estimate the memory of a key with its value, for MEMORY USAGE and ``maxmemory``.

The constants are for CPython on 64-bit systems, measured with tracemalloc over many keys of each type. A table grows by
doubling, so the size of a slot is the mean of a full table and a new one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..collections.base import OBJECT_BYTES
from ..value_types import TYPES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..value_types import Value

KEY_ENTRY: Final = 90  # in `entries` and in `accessed`
EXPIRY_ENTRY: Final = 130  # a slot in `expires`, the time, and the pair in the heap
SAMPLES: Final = 5  # nested values to measure, by default


def key_bytes(name: bytes, value: Value, samples: int = SAMPLES) -> int:
    """Estimate the bytes of one key with its value, without its expiry.

    Args:
        value: its value. Packed chunks of a stream count with their packed size.
        samples: how many chunks of a stream are measured; 0 for all.
    """
    return KEY_ENTRY + OBJECT_BYTES + len(name) + TYPES[type(value)].memory(value, samples)


def all_key_bytes(pairs: Iterable[tuple[bytes, Value]]) -> list[int]:
    """Estimate the bytes of many keys with their values, as ``key_bytes`` does."""
    own = KEY_ENTRY + OBJECT_BYTES
    return [own + len(name) + TYPES[type(value)].memory(value, SAMPLES) for name, value in pairs]
