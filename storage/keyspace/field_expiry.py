"""Fields of hashes past their time: whether clients see them, and when they are deleted.

Like keys, they are deleted at a lookup or by the active cycle; a replica only hides them until its master deletes
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..collections.hash import Hash
from . import notifications as events

if TYPE_CHECKING:
    from .database import Database
    from .keyspace import Keyspace


def is_due(value: Hash, field: bytes, keyspace: Keyspace) -> bool:
    """Whether a field is past its time, so that clients do not see it."""
    if value.times is None:
        return False
    when = value.times.when.get(field)
    return when is not None and when < keyspace.now and keyspace.expiring and not keyspace.shows_expired


def due_fields(value: Hash, keyspace: Keyspace) -> set[bytes]:
    """Return all fields past their time."""
    if value.times is None or not keyspace.expiring or keyspace.shows_expired:
        return set()
    first = value.times.first()
    if first is None or first[0] >= keyspace.now:
        return set()
    return {field for field, when in value.times.when.items() if when < keyspace.now}


def let_expire(db: Database, key: bytes, value: Hash, field: bytes, when: int) -> None:
    """Set the expiry of a field of the hash at a key, and schedule it for the active cycle."""
    if not when:
        # A time for Redis that means none; only a replica, which deletes nothing past its time, gets here.
        value.persist(field)
        return
    value.expire(field, when)
    db.field_due.bring_forward(key, when)


def drop(db: Database, key: bytes, value: Hash, field: bytes) -> None:
    """Delete and propagate a field past its time. The caller continues with ``after_drops``."""
    value.discard(field)
    db.keyspace.expired_fields += 1
    if db.keyspace.on_field_expired is not None:
        db.keyspace.on_field_expired(db, key, field)


def after_drops(
    db: Database, key: bytes, value: Hash, fields: list[bytes], *, names_last: bool = True
) -> None:
    """Notify watchers and subscribers that fields expired; delete a hash without fields.

    Without ``names_last`` the event ``hexpired`` leaves out the field with which the hash goes.
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
    """Return the value of a field of the hash at a key, or None; an expired field is deleted."""
    content = value.fields.get(field)
    if content is None or value.times is None or not is_due(value, field, db.keyspace):
        return content
    if not db.keyspace.hides_expired:
        drop(db, key, value, field)
        after_drops(db, key, value, [field], names_last=db.keyspace.names_last_expired)
    return None


def drop_all_due(db: Database, key: bytes, value: Hash, limit: int | None = None) -> int:
    """Delete the fields of one hash past their time, earliest first; return how many."""
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
    if dropped:
        after_drops(db, key, value, dropped)
    return len(dropped)


def expire_fields(db: Database, limit: int) -> int:
    """Delete at most ``limit`` expired fields in a database; return how many (active cycle)."""
    keyspace = db.keyspace
    if not keyspace.expiring or keyspace.hides_expired:
        return 0
    dropped = 0
    while dropped < limit and (first := db.field_due.first()) is not None and first[0] < keyspace.now:
        key = first[1]
        value = db.entries.get(key)
        if type(value) is Hash:
            dropped += drop_all_due(db, key, value, limit - dropped)
            note(db, key, value)
        else:
            db.field_due.forget(key)
    return dropped


def note(db: Database, key: bytes, value: Hash) -> None:
    """Update when the next field of a hash is due, after the hash was stored or lost fields."""
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
