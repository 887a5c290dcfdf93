"""Find hashes and fields, and signal changes of fields, for all hash commands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...storage.collections.hash import Hash
from ...storage.keyspace import notifications as events
from ...storage.keyspace.field_expiry import after_drops, drop, is_due

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..runtime.client import Client


def make_hash(client: Client, key: bytes) -> Hash:
    """Return a new, empty hash at a missing key; the caller fills it."""
    value = Hash()
    client.db.add(key, value)
    return value


class Looks:
    """Look up several fields of one hash; expired fields are deleted, and signalled once at the end.

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
        """Return the value of a field that has not expired, else None."""
        value, db = self._hash, self._client.db
        content = value.fields.get(field)
        if content is not None and value.times is not None and is_due(value, field, db.keyspace):
            if not db.keyspace.hides_expired:
                drop(db, self._key, value, field)
                self.dropped.append(field)
            return None
        return content

    def finish(self) -> None:
        """Signal the deleted fields; a hash without fields is deleted, too."""
        if self.dropped:
            after_drops(self._client.db, self._key, self._hash, self.dropped)


def changed(client: Client, key: bytes, event: bytes, fields: Sequence[bytes]) -> None:
    """Signal changed fields to watchers and subscribers, count the changes. The caller propagates."""
    db = client.db
    keyspace = db.keyspace
    db.modified(key)
    keyspace.dirty += len(fields)
    if keyspace.notify_mask & events.HASH:
        keyspace.notify(events.HASH, event, key, db, fields)


def remove_if_empty(client: Client, key: bytes, value: Hash) -> None:
    """Delete a hash that has lost its last field."""
    if not value.fields:
        db = client.db
        db.remove(key)
        db.keyspace.notify(events.GENERIC, b"del", key, db)
