"""Digests for DEBUG DIGEST: equal data has equal digests, independent of the order of keys."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final

from ...storage.keyspace.database import Database
from ...storage.keyspace.keyspace import Keyspace
from ...storage.value_types import TYPES, Value

_SIZE: Final = 20
_EMPTY: Final = bytes(_SIZE).hex().encode()


def keyspace_digest(keyspace: Keyspace) -> bytes:
    """Return 40 hex digits for all keys of all databases, with values and expiry; zeros if there are no keys."""
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
    kind = TYPES[type(value)]
    yield kind.name
    yield from kind.digest(value)
