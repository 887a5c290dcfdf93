"""Expiry of hash fields: when clients stop seeing a field, and when it is deleted.

A lookup or the active cycle deletes expired fields, as it does keys; a replica only hides them until its master
deletes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..collections.hash import Hash
from . import notifications as events
from .database import RETRY, Database

if TYPE_CHECKING:
    from .keyspace import Keyspace


def is_due(value: Hash, field: bytes, keyspace: Keyspace) -> bool:
    """Return True if a field has expired, so that clients do not see it."""
    if value.times is None:
        return False
    when = value.times.when.get(field)
    return when is not None and when < keyspace.now and keyspace.expiring and not keyspace.shows_expired


def due_fields(value: Hash, keyspace: Keyspace) -> set[bytes]:
    """Return all expired fields of a hash that are still stored."""
    if value.times is None or not keyspace.expiring or keyspace.shows_expired:
        return set()
    first = value.times.first()
    if first is None or first[0] >= keyspace.now:
        return set()
    return {field for field, when in value.times.when.items() if when < keyspace.now}


def let_expire(db: Database, key: bytes, value: Hash, field: bytes, when: int) -> None:
    """Set the expiry of a field of the hash at a key, and schedule it for the active cycle."""
    if not when:
        # Redis treats 0 as no expiry. Only a replica gets here, because it does not delete on a past time.
        value.persist(field)
        return
    value.expire(field, when)
    db.field_due.bring_forward(key, when)


def drop(db: Database, key: bytes, value: Hash, field: bytes) -> None:
    """Delete an expired field of the hash at a key, and propagate it.

    The caller must call ``after_drops`` once for all dropped fields.
    """
    value.discard(field)
    db.keyspace.expired_fields += 1
    if db.keyspace.on_field_expired is not None:
        db.keyspace.on_field_expired(db, key, field)


def after_drops(
    db: Database, key: bytes, value: Hash, fields: list[bytes], *, names_last: bool = True
) -> None:
    """Send events for dropped fields, signal the change to WATCH and tracking, and delete the hash if no field is left.

    Without ``names_last`` the event ``hexpired`` does not name the last field of a deleted hash.
    """
    keyspace = db.keyspace
    named = fields if names_last or value.fields else fields[:-1]
    if named:
        keyspace.notify(events.HASH, b"hexpired", key, db, named)
    if not value.fields:
        db.remove(key)
        keyspace.notify(events.GENERIC, b"del", key, db)
    db.modified(key, by_time=True)


def find_field(db: Database, key: bytes, value: Hash, field: bytes) -> bytes | None:
    """Return the value of a field of the hash at a key, None if it is missing.

    An expired field is deleted first.
    """
    content = value.fields.get(field)
    if content is None or value.times is None or not is_due(value, field, db.keyspace):
        return content
    if not db.keyspace.hides_expired:
        drop(db, key, value, field)
        after_drops(db, key, value, [field], names_last=db.keyspace.names_last_expired)
    return None


def drop_all_due(db: Database, key: bytes, value: Hash, limit: int | None = None) -> int:
    """Delete at most ``limit`` (None: all) expired fields of one hash, earliest first; return their number."""
    keyspace = db.keyspace
    if not keyspace.expiring or keyspace.hides_expired:
        return 0
    dropped: list[bytes] = []
    while value.times is not None and (limit is None or len(dropped) < limit):
        first = value.times.first()
        if first is None or first[0] >= keyspace.now:
            break
        drop(db, key, value, first[1])
        dropped.append(first[1])
    if dropped or not value.fields:  # an interrupted cycle has dropped the last field
        after_drops(db, key, value, dropped)
    return len(dropped)


def expire_fields(db: Database, limit: int) -> int:
    """Delete at most ``limit`` expired fields in a database (active cycle); return their number.

    A hash where this fails is tried again after ``RETRY``; the others lose their fields, then the error is raised.
    """
    keyspace = db.keyspace
    if not keyspace.expiring or keyspace.hides_expired:
        return 0
    dropped, error = 0, None
    while dropped < limit and (first := db.field_due.first()) is not None and first[0] < keyspace.now:
        key = first[1]
        value = db.entries.get(key)
        if type(value) is Hash:
            try:
                dropped += drop_all_due(db, key, value, limit - dropped)
                note(db, key, value)
            except Exception as failure:  # noqa: BLE001 - raised below, after the hashes behind this one
                error = failure
                dropped += 1  # bounds the number of failures, too
                db.field_due.set(key, keyspace.now + RETRY)
        else:
            db.field_due.forget(key)
    if error is not None:
        raise error
    return dropped


def note(db: Database, key: bytes, value: Hash) -> None:
    """Record when the next field of the hash at a key expires, after the hash was stored or lost fields."""
    first = value.times.first() if value.times is not None and db.entries.get(key) is value else None
    if first is None:
        db.field_due.forget(key)
    else:
        db.field_due.set(key, first[0])


def expiring_hashes(db: Database) -> int:
    """Count the hashes with fields that expire (INFO's subexpiry)."""
    entries = db.entries
    found = [entries.get(key) for key in db.field_due.when]
    return sum(type(value) is Hash and value.times is not None for value in found)
