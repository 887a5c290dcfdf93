"""The memory of each key and its access frequency, kept only while a memory limit or a policy needs them.

A database has no meter until ``switch_on``; from then on it calls the meter for each lookup and change of a key. A key
whose value may have changed is *touched*: it is measured (``memory_of_key``) before the next use of the total. Keys
that existed before the meter are measured a few at a time; until then each counts as the mean of the measured keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from ..collections.base import SLOT_BYTES
from ..value_types import TYPES, Value
from . import frequency
from .database import Database
from .keyspace import Keyspace
from .memory import EXPIRY_ENTRY, memory_of_key, memory_of_keys

_PIECE: Final = 64  # keys per step of measuring
_FIRST: Final = 512  # keys that are measured as soon as the meter is on, for a first mean
_MOST_TOUCHED: Final = 256
_METER_ENTRY: Final = SLOT_BYTES + 32  # memory of the meter itself per key


class Meter:
    """The memory of each key of one database."""

    __slots__ = ("_left", "memory", "total", "touched", "unseen")

    def __init__(self) -> None:
        self.memory: dict[bytes, int] = {}  # key to its bytes at the last measurement
        self.total = 0  # the sum of ``memory``
        self.touched: set[bytes] = set()  # keys that may have changed since they were measured
        # Keys whose values change without a command: old chunks of streams are packed.
        self.unseen: dict[bytes, None] = {}
        self._left: Iterator[bytes] | None = None

    def clear(self) -> None:
        """Forget all keys and their sizes."""
        self.memory = {}
        self.total = 0
        self.touched = set()
        self.unseen = {}
        self._left = None

    def note_memory(self, key: bytes, value: Value, size: int) -> None:
        """Record the measured bytes of a key with its value."""
        self.total += size - self.memory.get(key, 0)
        self.memory[key] = size
        if TYPES[type(value)].changes_unseen:
            self.unseen[key] = None
        elif self.unseen:
            self.unseen.pop(key, None)

    def forget(self, key: bytes) -> int:
        """Forget a key's size; return the bytes at its last measurement."""
        self.touched.discard(key)
        self.unseen.pop(key, None)
        size = self.memory.pop(key, 0)
        self.total -= size
        return size

    def measure_touched(self, entries: dict[bytes, Value]) -> None:
        """Measure the keys whose value may have changed since the last measurement."""
        for key in self.touched:
            value = entries.get(key)
            if value is not None:
                self.note_memory(key, value, memory_of_key(key, value))
        self.touched.clear()

    def measure_some(self, entries: dict[bytes, Value], limit: int = _PIECE) -> bool:
        """Measure up to ``limit`` keys that existed before the meter; return False if all are measured."""
        if len(self.memory) >= len(entries):
            self._left = None
            return False
        if self._left is None:
            self._left = iter(list(entries))
        piece = list(islice(self._left, limit))
        found = [(key, entries[key]) for key in piece if key not in self.memory and key in entries]
        for (key, value), size in zip(found, memory_of_keys(found), strict=True):
            self.note_memory(key, value, size)
        if len(piece) == limit:
            return True
        self._left = None
        return len(self.memory) < len(entries)

    def measure_unseen(self, entries: dict[bytes, Value]) -> None:
        """Measure some keys of ``unseen`` again: values that may grow without a command.

        Each call takes the next ones.
        """
        for key in list(islice(self.unseen, _PIECE)):
            del self.unseen[key]
            if (value := entries.get(key)) is not None:
                self.note_memory(key, value, memory_of_key(key, value))

    def memory_of(self, db: Database) -> int:
        """Return the approximate memory of a database in bytes, including the meter."""
        entries = db.entries
        if self.touched:
            self.measure_touched(entries)
        known, count = len(self.memory), len(entries)
        total = self.total
        if known < count:
            if not known:
                self.measure_some(entries, _FIRST)
                known, total = len(self.memory), self.total
            total = total * count // max(known, 1)
        return (
            total + count * _METER_ENTRY + len(db.expires) * EXPIRY_ENTRY + len(db.frequencies) * SLOT_BYTES
        )

    # Calls from a database

    def note_read(self, db: Database, key: bytes, value: Value) -> None:
        """Record a lookup of a key for reading. A stream counts as touched: a read may change a group or unpack a chunk."""
        if TYPES[type(value)].changes_unseen:
            self._touch(db, key)
        if db.keyspace.touching:
            self.count(db, key)

    def note_write(self, db: Database, key: bytes, value: Value) -> None:
        """Record that a command looked a key up and may change its value: it must be measured again."""
        if type(value) is not bytes:
            self._touch(db, key)
        if db.keyspace.touching:
            self.count(db, key)

    def note_new(self, db: Database, key: bytes, value: Value) -> None:
        """Record that a key was added, with the LFU counter of a new key."""
        keyspace = db.keyspace
        if keyspace.usage is not None:
            db.frequencies[key] = frequency.stored(frequency.NEW, keyspace.now)
        self.note_value(db, key, value)

    def note_value(self, db: Database, key: bytes, value: Value) -> None:
        """Record that a key got a new value; a string is measured now, any other value later."""
        if type(value) is bytes:
            self.note_memory(key, value, memory_of_key(key, value))
        else:
            self._touch(db, key)

    def note_modified(self, db: Database, key: bytes) -> None:
        """Record that a value changed; under LRM this updates the access time."""
        self._touch(db, key)
        if db.keyspace.by_modification:
            db.accessed[key] = db.keyspace.now

    def note_gone(self, db: Database, key: bytes, value: Value) -> None:
        """Record that a key was removed; if lazyfree frees its value, add its bytes there."""
        size = self.forget(key)
        db.frequencies.pop(key, None)
        if type(value) is not bytes:
            db.keyspace.lazyfree.add_memory(size)

    def count(self, db: Database, key: bytes) -> None:
        """Count an access in the key's LFU counter, if the policy is LFU."""
        keyspace = db.keyspace
        if keyspace.usage is not None:
            counter = frequency.after_access(db.frequency(key), keyspace.usage.log_factor)
            db.frequencies[key] = frequency.stored(counter, keyspace.now)

    def _touch(self, db: Database, key: bytes) -> None:
        """Record that the value of a key may change before the total is used next."""
        if key not in self.touched:
            if len(self.touched) >= _MOST_TOUCHED:
                self.measure_touched(db.entries)
            self.touched.add(key)


def switch_on(keyspace: Keyspace) -> None:
    """Begin to measure the memory of keys: give each database a meter."""
    for db in keyspace.databases:
        if db.meter is None:
            db.meter = Meter()


def switch_off(keyspace: Keyspace) -> None:
    """Remove the meters and the LFU counters of all databases."""
    for db in keyspace.databases:
        if db.meter is not None:
            db.meter = None
            db.frequencies = {}


def measure_some(keyspace: Keyspace) -> bool:
    """Measure some keys of one database that existed before its meter; return False if all keys are measured."""
    return any(db.meter is not None and db.meter.measure_some(db.entries) for db in keyspace.databases)


def measure_unseen(keyspace: Keyspace) -> None:
    """Measure again some values that may grow without a command, in all databases."""
    for db in keyspace.databases:
        if db.meter is not None and db.meter.unseen:
            db.meter.measure_unseen(db.entries)
