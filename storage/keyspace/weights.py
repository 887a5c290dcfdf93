"""Estimate the memory of a key with its value, for MEMORY USAGE and ``maxmemory``.

The numbers are those of CPython on 64-bit systems, measured with tracemalloc over many keys of each type. A table
grows by doubling, so the size of one of its slots is the mean between a full table and a new one.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from ..collections.base import OBJECT_BYTES, Collection
from ..streams.stream import Stream

if TYPE_CHECKING:
    from ..groups.group import Group
    from .database import Database, Value

KEY_ENTRY: Final = 90  # in `entries` and in `accessed`
EXPIRY_ENTRY: Final = 130  # a slot in `expires`, the time, the pair in the heap
SAMPLES: Final = 5  # of nested values, by default
_STREAM: Final = 1000
_GROUP: Final = 2300
_CONSUMER: Final = 700
_PENDING: Final = (
    8 + 16 + 2
)  # the reference to its block, its ID if not shared with the stream, its part of a page
_GROUPS: Final = 64  # above this many groups the first ones serve as a sample
_LOOKED_AT: Final = 20_000  # above this many keys the first ones serve as a sample


def key_bytes(name: bytes, value: Value, samples: int = SAMPLES) -> int:
    """Estimate the bytes of one key with its value, without its expiry.

    Args:
        name: the key.
        value: its value. Packed chunks of a stream count with their packed size.
        samples: how many chunks of a stream are measured; 0 for all.
    """
    size = KEY_ENTRY + OBJECT_BYTES + len(name)
    if type(value) is bytes:
        return size + OBJECT_BYTES + len(value)
    if type(value) is Stream:
        return size + _STREAM + value.estimated_bytes(samples) + _groups_bytes(value.groups, samples)
    assert isinstance(value, Collection)
    return size + value.OWN_BYTES + value.ELEMENT_BYTES * len(value) + value.payload_bytes


def _groups_bytes(groups: dict[bytes, Group], samples: int) -> int:
    if not samples or len(groups) <= _GROUPS:
        return sum(map(_group_bytes, groups.values()))
    return sum(map(_group_bytes, islice(groups.values(), _GROUPS))) * len(groups) // _GROUPS


def _group_bytes(group: Group) -> int:
    consumers, pending = group.weight
    return _GROUP + consumers * _CONSUMER + pending * _PENDING


def estimated_bytes(db: Database) -> int:
    """Estimate the bytes of all keys of a database; a large one by its first keys."""
    count = len(db.entries)
    looked_at = min(count, _LOOKED_AT)
    if not looked_at:
        return 0
    size = sum(key_bytes(name, value) for name, value in islice(db.entries.items(), looked_at))
    return size * count // looked_at + len(db.expires) * EXPIRY_ENTRY
