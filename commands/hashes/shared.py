"""What the hash commands share: finding hashes and fields, and what follows when fields come and go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...storage.collections.hash import Hash
from ...storage.keyspace import notifications as events
from ...storage.keyspace.field_expiry import after_drops, drop, is_due

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..runtime.client import Client


def make_hash(client: Client, key: bytes) -> Hash:
    """A new, empty hash at a key that is missing; the command fills it."""
    value = Hash()
    client.db.add(key, value)
    return value


class Looks:
    """Several fields of one hash are looked at; those past their time go, which is told once, at the end.

    Attributes:
        dropped: those that went.
    """

    __slots__ = ("_client", "_hash", "_key", "dropped")

    def __init__(self, client: Client, key: bytes, value: Hash) -> None:
        self._client = client
        self._key = key
        self._hash = value
        self.dropped: list[bytes] = []

    def find(self, field: bytes) -> bytes | None:
        """The value of a field that is not past its time."""
        value, db = self._hash, self._client.db
        content = value.fields.get(field)
        if content is not None and value.times is not None and is_due(value, field, db.keyspace):
            if not db.keyspace.hides_expired:
                drop(db, self._key, value, field)
                self.dropped.append(field)
            return None
        return content

    def finish(self) -> None:
        """Tell of the fields that went; without fields the hash goes too."""
        if self.dropped:
            after_drops(self._client.db, self._key, self._hash, self.dropped)


def changed(client: Client, key: bytes, event: bytes, fields: Sequence[bytes]) -> None:
    """Tell watchers and subscribers that fields of a hash changed, count the changes. The caller propagates."""
    db = client.db
    keyspace = db.keyspace
    db.modified(key)
    keyspace.dirty += len(fields)
    if keyspace.notify_mask & events.HASH:
        keyspace.notify(events.HASH, event, key, db, fields)


def remove_if_empty(client: Client, key: bytes, value: Hash) -> None:
    """A hash that lost fields goes with the last of them."""
    if not value.fields:
        db = client.db
        db.remove(key)
        db.keyspace.notify(events.GENERIC, b"del", key, db)
