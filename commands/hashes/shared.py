"""Find hashes and fields, and signal changes of fields, for all hash commands."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final

from ...storage.collections.hash import Hash
from ...storage.keyspace import notifications as events
from ...storage.keyspace.field_expiry import after_drops, drop, is_due
from ..runtime.client import Client
from ..runtime.downgrades import needs_downgrade, where_known_of_many


def make_hash(client: Client, key: bytes) -> Hash:
    """Store a new, empty hash at a missing key and return it; the caller must add a field at once."""
    value = Hash()
    client.db.add(key, value)
    return value


class FieldLookups:
    """Finds several fields of one hash and deletes the expired ones; ``finish`` then signals these together."""

    __slots__ = ("_client", "_hash", "_key", "dropped")

    def __init__(self, client: Client, key: bytes, value: Hash) -> None:
        self._client = client
        self._key = key
        self._hash = value
        self.dropped: list[bytes] = []  # the deleted fields

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

    def finish(self, *, names_last: bool = True) -> None:
        """Signal the fields that ``find`` deleted, and delete the hash if it has no fields left.

        ``names_last`` is explained in ``after_drops``.
        """
        if self.dropped:
            after_drops(self._client.db, self._key, self._hash, self.dropped, names_last=names_last)

    def finish_before_set(self) -> None:
        """Signal the fields that ``find`` deleted. The caller sets others at once, so an empty hash stays."""
        if self.dropped:
            db = self._client.db
            db.keyspace.notify(events.HASH, b"hexpired", self._key, db, self.dropped)
            db.modified(self._key)


def changed(
    client: Client, key: bytes, event: bytes, fields: Sequence[bytes], *, event_first: bool = False
) -> None:
    """Signal a change of fields to watchers and subscribers (``event``), and count it. The caller propagates."""
    db = client.db
    db.keyspace.dirty += len(fields)
    db.announce(key, events.HASH, event, fields=fields, event_first=event_first)


FIELD_TIMES_SINCE: Final = (7, 4)


def propagate_with_times(client: Client, words: Sequence[bytes], value: Hash, pairs: Sequence[bytes]) -> None:
    """Propagate a command that set fields and kept or set their expiries.

    Replicas that may not know field expiry get HSET, then an HPEXPIREAT that does nothing where it is unknown.

    Args:
        words: the command, with an absolute time.
        value: the hash after the command.
        pairs: the fields and values that it set.
    """
    if not needs_downgrade(client, FIELD_TIMES_SINCE):
        client.propagate(words)
        return
    older: list[Sequence[bytes]] = [(b"HSET", words[1], *pairs)]
    times = {} if value.times is None else value.times.when
    fields = sorted((times[field], field) for field in dict.fromkeys(pairs[::2]) if field in times)
    for when, group in groupby(fields, itemgetter(0)):
        names = [field for _, field in group]
        older += where_known_of_many((b"HPEXPIREAT", words[1], b"%d" % when, b"FIELDS"), names)
    client.propagate_with_downgrade(words, older)


def remove_if_empty(client: Client, key: bytes, value: Hash) -> None:
    """Delete a hash that has no fields left, and send the event ``del``."""
    if not value.fields:
        db = client.db
        db.remove(key)
        db.keyspace.notify(events.GENERIC, b"del", key, db)
