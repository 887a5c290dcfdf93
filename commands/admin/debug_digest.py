"""Digests of data for DEBUG DIGEST: equal for equal data, independent of the order of keys."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from ...storage.collections.base import Collection
from ...storage.streams.stream import Stream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...storage.groups.group import Group
    from ...storage.keyspace.database import Database, Value
    from ...storage.keyspace.keyspace import Keyspace

_SIZE: Final = 20
_EMPTY: Final = bytes(_SIZE).hex().encode()


def keyspace_digest(keyspace: Keyspace) -> bytes:
    """Return 40 hex digits for all keys of all databases with values and expiry; zeros if there are none."""
    total = 0
    for db in keyspace.databases:
        for key in db.visible_keys():
            parts = [b"%d" % db.index, key, value_digest(db, key), b"%d" % db.expires.get(key, -1)]
            total ^= int.from_bytes(_hash(iter(parts)))
    return total.to_bytes(_SIZE).hex().encode()


def value_digest(db: Database, key: bytes) -> bytes:
    """Return 40 hex digits for a key's value, without name and expiry; zeros if the key is missing."""
    value = db.peek(key)
    return _EMPTY if value is None else _hash(_parts(value)).hex().encode()


def _hash(parts: Iterator[bytes]) -> bytes:
    hashed = hashlib.sha1(usedforsecurity=False)
    for part in parts:
        hashed.update(b"%d:" % len(part))
        hashed.update(part)
    return hashed.digest()


def _parts(value: Value) -> Iterator[bytes]:
    if isinstance(value, Collection):
        yield value.TYPE
        yield from value.parts()
        return
    if type(value) is not Stream:
        assert type(value) is bytes
        yield b"string"
        yield value
        return
    yield b"stream"
    yield b"%d %d %d %d" % (value.length, value.last_id, value.max_deleted_id, value.entries_added)
    for _, text, fields in value.iter_entries():
        yield text
        yield fields
    for name in sorted(value.groups):
        yield name
        yield from _group_parts(value.groups[name])


def _group_parts(group: Group) -> Iterator[bytes]:
    """Yield the parts of a group, without the seen-times of consumers, which the AOF does not hold."""
    yield b"%d %d" % (group.last_id, -1 if group.entries_read is None else group.entries_read)
    yield from sorted(group.consumers)
    for stream_id, consumer, ms, count in group:
        yield b"%d %d %d" % (stream_id, ms, count)
        yield consumer.name
