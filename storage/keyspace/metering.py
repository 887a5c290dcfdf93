"""The size of each key and how often it is used, kept only while a memory limit or a policy asks for it.

A database has no meter until ``switch_on``; from then on it calls the meter wherever a key is looked up or changes. A
key whose value may have changed is *touched*, and measured (``weights.key_bytes``) before the next command asks for the
sum. Keys that were there before the meter are measured a few at a time; until then they count as the mean of the
known ones.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from ..collections.base import SLOT_BYTES
from ..value_types import TYPES
from . import frequency
from .weights import EXPIRY_ENTRY, all_key_bytes, key_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..value_types import Value
    from .database import Database
    from .keyspace import Keyspace

_PIECE: Final = 64  # keys that are measured at once
_FIRST: Final = 512  # keys that are measured as soon as the meter is on, so that there is a mean
_MOST_TOUCHED: Final = 256
_LOOKED_AT: Final = 20_000  # above this many keys the first ones serve as a sample
_METER_ENTRY: Final = SLOT_BYTES + 32  # what the meter itself takes for a key


class Meter:
    """The sizes of the keys of one database.

    Attributes:
        sizes: key to its bytes as last measured.
        total: the sum of ``sizes``.
        touched: keys that may have changed since they were measured.
        unseen: the keys of values that change without a command: old chunks of streams are packed.
    """

    __slots__ = ("_left", "sizes", "total", "touched", "unseen")

    def __init__(self) -> None:
        self.sizes: dict[bytes, int] = {}
        self.total = 0
        self.touched: set[bytes] = set()
        self.unseen: dict[bytes, None] = {}
        self._left: Iterator[bytes] | None = None

    def clear(self) -> None:
        """Forget all keys."""
        self.sizes = {}
        self.total = 0
        self.touched = set()
        self.unseen = {}
        self._left = None

    def note_size(self, key: bytes, value: Value, size: int) -> None:
        """Record the size of a key that was measured."""
        self.total += size - self.sizes.get(key, 0)
        self.sizes[key] = size
        if TYPES[type(value)].changes_unseen:
            self.unseen[key] = None
        elif self.unseen:
            self.unseen.pop(key, None)

    def forget(self, key: bytes) -> int:
        """A key is gone; returns its size."""
        self.touched.discard(key)
        self.unseen.pop(key, None)
        size = self.sizes.pop(key, 0)
        self.total -= size
        return size

    def measure_touched(self, entries: dict[bytes, Value]) -> None:
        """Measure the touched keys."""
        for key in self.touched:
            value = entries.get(key)
            if value is not None:
                self.note_size(key, value, key_bytes(key, value))
        self.touched.clear()

    def measure_some(self, entries: dict[bytes, Value], limit: int = _PIECE) -> bool:
        """Measure keys that were never measured; False when there are none."""
        if len(self.sizes) >= len(entries):
            self._left = None
            return False
        if self._left is None:
            self._left = iter(list(entries))
        piece = list(islice(self._left, limit))
        found = [(key, entries[key]) for key in piece if key not in self.sizes and key in entries]
        for (key, value), size in zip(found, all_key_bytes(found), strict=True):
            self.note_size(key, value, size)
        if len(piece) == limit:
            return True
        self._left = None
        return len(self.sizes) < len(entries)

    def measure_unseen(self, entries: dict[bytes, Value], limit: int = _PIECE) -> None:
        """Measure some of ``unseen`` again; each has its turn."""
        for key in list(islice(self.unseen, limit)):
            del self.unseen[key]
            if (value := entries.get(key)) is not None:
                self.note_size(key, value, key_bytes(key, value))

    def bytes_of(self, db: Database) -> int:
        """About the bytes that a database takes, the meter included."""
        entries = db.entries
        if self.touched:
            self.measure_touched(entries)
        known, count = len(self.sizes), len(entries)
        total = self.total
        if known < count:
            if not known:
                self.measure_some(entries, _FIRST)
                known, total = len(self.sizes), self.total
            total = total * count // max(known, 1)
        return (
            total + count * _METER_ENTRY + len(db.expires) * EXPIRY_ENTRY + len(db.frequencies) * SLOT_BYTES
        )

    # What a database says of its keys

    def note_read(self, db: Database, key: bytes, value: Value) -> None:
        """A key was looked up. A stream may grow even so: a group reads it, or packed chunks are opened."""
        if TYPES[type(value)].changes_unseen:
            self._touch(db, key)
        if db.keyspace.touching:
            self.count(db, key)

    def note_write(self, db: Database, key: bytes, value: Value) -> None:
        """A key was looked up, and its value may change."""
        if type(value) is not bytes:
            self._touch(db, key)
        if db.keyspace.touching:
            self.count(db, key)

    def note_new(self, db: Database, key: bytes, value: Value) -> None:
        """A key was added."""
        keyspace = db.keyspace
        if keyspace.usage is not None:
            db.frequencies[key] = frequency.stored(frequency.NEW, keyspace.now)
        self.note_value(db, key, value)

    def note_value(self, db: Database, key: bytes, value: Value) -> None:
        """A key has another value, which is complete if it is a string."""
        if type(value) is bytes:
            self.note_size(key, value, key_bytes(key, value))
        else:
            self._touch(db, key)

    def note_modified(self, db: Database, key: bytes) -> None:
        """A value changed; under LRM this, and no access, is what a key is kept for."""
        self._touch(db, key)
        if db.keyspace.by_modification:
            db.accessed[key] = db.keyspace.now

    def note_gone(self, db: Database, key: bytes, value: Value) -> None:
        """A key was removed, and its value waits to be freed."""
        size = self.forget(key)
        db.frequencies.pop(key, None)
        if type(value) is not bytes:
            db.keyspace.lazyfree.weigh(size)

    def count(self, db: Database, key: bytes) -> None:
        """Count an access, which matters under LFU only."""
        keyspace = db.keyspace
        if keyspace.usage is not None:
            counter = frequency.after_access(db.frequency(key), keyspace.usage.log_factor)
            db.frequencies[key] = frequency.stored(counter, keyspace.now)

    def _touch(self, db: Database, key: bytes) -> None:
        """The value of a key may change until the next look at the sum."""
        if key not in self.touched:
            if len(self.touched) >= _MOST_TOUCHED:
                self.measure_touched(db.entries)
            self.touched.add(key)


def switch_on(keyspace: Keyspace) -> None:
    """Meter all databases from now on."""
    for db in keyspace.databases:
        if db.meter is None:
            db.meter = Meter()


def switch_off(keyspace: Keyspace) -> None:
    """Meter nothing any more."""
    for db in keyspace.databases:
        if db.meter is not None:
            db.meter = None
            db.frequencies = {}


def measure_some(keyspace: Keyspace) -> bool:
    """Measure some keys that were there before the meter; False when all are known."""
    return any(db.meter is not None and db.meter.measure_some(db.entries) for db in keyspace.databases)


def measure_unseen(keyspace: Keyspace) -> None:
    """Measure some values again that change without a command."""
    for db in keyspace.databases:
        if db.meter is not None and db.meter.unseen:
            db.meter.measure_unseen(db.entries)


def estimated_bytes(db: Database) -> int:
    """Estimate the bytes of all keys of a database; a large one by its first keys."""
    count = len(db.entries)
    looked_at = min(count, _LOOKED_AT)
    if not looked_at:
        return 0
    size = sum(all_key_bytes(islice(db.entries.items(), looked_at)))
    return size * count // looked_at + len(db.expires) * EXPIRY_ENTRY
