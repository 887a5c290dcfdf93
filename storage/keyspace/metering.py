"""What each key takes and how often it is used, kept only while a memory limit or a policy asks for it.

A database without a meter pays nothing for it: ``switch_on`` gives the database another class, whose methods note
which keys were touched, and ``switch_off`` gives the old one back. A touched key is measured (``weights.key_bytes``)
before the next command looks at the sum. Keys that were there before the meter are measured bit by bit; until then
they count as the mean of those that are known.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from ..streams.stream import Stream
from . import frequency
from .database import Database
from .weights import EXPIRY_ENTRY, SLOT, key_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .database import Value
    from .keyspace import Keyspace

_PIECE: Final = 64  # keys that are measured at once
_FIRST: Final = 512  # keys that are measured as soon as the meter is on, so that there is a mean
_MOST_TOUCHED: Final = 256
_METER_ENTRY: Final = SLOT + 32  # what the meter itself takes for a key


class Meter:
    """The sizes of the keys of one database.

    Attributes:
        sizes: key to its bytes as last measured.
        total: the sum of ``sizes``.
        touched: keys that may have changed since they were measured.
        streams: the keys of streams, which change without a command when old chunks are packed.
    """

    __slots__ = ("_left", "sizes", "streams", "total", "touched")

    def __init__(self) -> None:
        self.sizes: dict[bytes, int] = {}
        self.total = 0
        self.touched: set[bytes] = set()
        self.streams: dict[bytes, None] = {}
        self._left: Iterator[bytes] | None = None

    def clear(self) -> None:
        """Forget all keys."""
        self.sizes = {}
        self.total = 0
        self.touched = set()
        self.streams = {}
        self._left = None

    def measure(self, key: bytes, value: Value) -> None:
        """Take the size of a key as it is now."""
        size = key_bytes(key, value)
        self.total += size - self.sizes.get(key, 0)
        self.sizes[key] = size
        if type(value) is Stream:
            self.streams[key] = None
        elif self.streams:
            self.streams.pop(key, None)

    def forget(self, key: bytes) -> int:
        """A key is gone; returns its size."""
        self.touched.discard(key)
        self.streams.pop(key, None)
        size = self.sizes.pop(key, 0)
        self.total -= size
        return size

    def settle(self, entries: dict[bytes, Value]) -> None:
        """Measure what was touched."""
        for key in self.touched:
            value = entries.get(key)
            if value is not None:
                self.measure(key, value)
        self.touched.clear()

    def measure_some(self, entries: dict[bytes, Value], limit: int = _PIECE) -> bool:
        """Measure keys that were never measured; False when there are none."""
        if len(self.sizes) >= len(entries):
            self._left = None
            return False
        if self._left is None:
            self._left = iter(list(entries))
        for key in self._left:
            if key not in self.sizes and (value := entries.get(key)) is not None:
                self.measure(key, value)
            limit -= 1
            if not limit:
                return True
        self._left = None
        return len(self.sizes) < len(entries)

    def measure_streams(self, entries: dict[bytes, Value], limit: int = _PIECE) -> None:
        """Measure some streams again; each has its turn."""
        for key in list(islice(self.streams, limit)):
            del self.streams[key]
            if (value := entries.get(key)) is not None:
                self.measure(key, value)

    def bytes_of(self, db: Database) -> int:
        """About the bytes that a database takes, the meter included."""
        entries = db.entries
        if self.touched:
            self.settle(entries)
        known, count = len(self.sizes), len(entries)
        total = self.total
        if known < count:
            if not known:
                self.measure_some(entries, _FIRST)
                known, total = len(self.sizes), self.total
            total = total * count // max(known, 1)
        return total + count * _METER_ENTRY + len(db.expires) * EXPIRY_ENTRY + len(db.frequencies) * SLOT


class MeteredDatabase(Database):
    """A database whose keys are measured, and whose accesses are counted while the policy is LFU."""

    __slots__ = ()

    meter: Meter

    def read(self, key: bytes) -> Value | None:
        """As ``Database.read``; an access. A stream may grow even so: a group reads it, or packed chunks are opened."""
        value = super().read(key)
        if value is not None:
            if type(value) is Stream:
                self._note(key)
            if self.keyspace.touching:
                self._count(key)
        return value

    def write(self, key: bytes) -> Value | None:
        """As ``Database.write``; an access, and the value may change."""
        value = super().write(key)
        if value is not None:
            if type(value) is not bytes:
                self._note(key)
            if self.keyspace.touching:
                self._count(key)
        return value

    def touch(self, key: bytes) -> None:
        """As ``Database.touch``."""
        if not self.keyspace.by_modification:
            super().touch(key)
        self._count(key)

    def add(self, key: bytes, value: Value) -> None:
        """As ``Database.add``."""
        if self.keyspace.usage is not None:
            self.frequencies[key] = frequency.stored(frequency.NEW, self.keyspace.now)
        super().add(key, value)
        self._changed(key, value)

    def put(self, key: bytes, value: Value, *, keep_ttl: bool = False) -> None:
        """As ``Database.put``."""
        fading = self._size_of_buried(key)
        super().put(key, value, keep_ttl=keep_ttl)
        self.keyspace.graveyard.weigh(fading)
        self._changed(key, value)

    def remove(self, key: bytes) -> Value | None:
        """As ``Database.remove``."""
        value = super().remove(key)
        size = self.meter.forget(key)
        self.frequencies.pop(key, None)
        if type(value) is not bytes:
            self.keyspace.graveyard.weigh(size)
        return value

    def modified(self, key: bytes) -> None:
        """As ``Database.modified``; under LRM this, and no access, is what a key is kept for."""
        if key in self.entries:
            self._note(key)
            if self.keyspace.by_modification:
                self.accessed[key] = self.keyspace.now
        super().modified(key)

    def clear(self) -> int:
        """As ``Database.clear``."""
        fading = self.meter.total
        self.meter.clear()
        self.frequencies = {}
        count = super().clear()
        self.keyspace.graveyard.weigh(fading)
        return count

    def _size_of_buried(self, key: bytes) -> int:
        before = self.entries.get(key)
        return 0 if before is None or type(before) is bytes else self.meter.sizes.get(key, 0)

    def _changed(self, key: bytes, value: Value) -> None:
        """A key has another value, which is complete if it is a string."""
        if type(value) is bytes:
            self.meter.measure(key, value)
        else:
            self._note(key)

    def _note(self, key: bytes) -> None:
        """The value of a key may change until the next look at the sum."""
        meter = self.meter
        if key not in meter.touched:
            if len(meter.touched) >= _MOST_TOUCHED:
                meter.settle(self.entries)
            meter.touched.add(key)

    def _count(self, key: bytes) -> None:
        """An access, which matters under LFU only."""
        keyspace = self.keyspace
        if keyspace.usage is not None:
            counter = frequency.after_access(self.frequency(key), keyspace.usage.log_factor)
            self.frequencies[key] = frequency.stored(counter, keyspace.now)


def switch_on(keyspace: Keyspace) -> None:
    """Meter all databases from now on."""
    for db in keyspace.databases:
        if type(db) is Database:
            db.meter = Meter()
            db.__class__ = MeteredDatabase


def switch_off(keyspace: Keyspace) -> None:
    """Meter nothing any more."""
    for db in keyspace.databases:
        if type(db) is MeteredDatabase:
            db.__class__ = Database  # type: ignore[assignment]
            db.meter = None  # type: ignore[assignment]
            db.frequencies = {}


def measure_some(keyspace: Keyspace) -> bool:
    """Measure some keys that were there before the meter; False when all are known."""
    return any(db.meter is not None and db.meter.measure_some(db.entries) for db in keyspace.databases)


def measure_streams(keyspace: Keyspace) -> None:
    """Look at some streams again, whose old chunks may have been packed since."""
    for db in keyspace.databases:
        if db.meter is not None and db.meter.streams:
            db.meter.measure_streams(db.entries)


def note_modified(db: Database, key: bytes) -> None:
    """Under LRM: the key is being changed by a command that does not say so to WATCH."""
    if key in db.accessed:
        db.accessed[key] = db.keyspace.now
