"""Delete, test and rename keys of any type."""

from __future__ import annotations

from ...protocol import replies
from ...protocol.errors import NO_SUCH_KEY, ReplyError
from ...storage.keyspace import notifications as events
from ...storage.keyspace.database import Database
from ...storage.value_types import type_name
from ..runtime.client import Client
from ..spec.command import handles
from . import specs
from .object import keep_encoding


def delete(client: Client, name: bytes) -> None:
    """Delete an existing key for a command, signal watchers and subscribers, and count one change.

    The caller propagates.
    """
    delete_from(client.db, name)


def delete_from(db: Database, name: bytes) -> None:
    """Delete an existing key like ``delete``, but in any database."""
    keyspace = db.keyspace
    db.remove(name)
    db.modified(name)
    if keyspace.notify_mask:
        keyspace.notify(events.GENERIC, b"del", name, db)
    keyspace.dirty += 1


@handles(specs.DEL, specs.UNLINK)
def del_(client: Client, args: list[bytes]) -> bytes:
    """Delete keys and reply with their number; large values are freed in the background (``storage.keyspace.lazyfree``)."""
    deleted = 0
    for name in args[1:]:
        client.db.peek(name)
        if name in client.db.entries:  # also where a replica only hides an expired key
            delete(client, name)
            deleted += 1
    if deleted:
        client.propagate(args)
    return replies.integer(deleted)


@handles(specs.EXISTS)
def exists(client: Client, args: list[bytes]) -> bytes:
    """Reply with the number of the named keys that exist; a key named twice counts twice."""
    return replies.integer(sum([client.db.look(name) is not None for name in args[1:]]))


@handles(specs.TOUCH)
def touch(client: Client, args: list[bytes]) -> bytes:
    """Count an access to each existing key, even under CLIENT NO-TOUCH; reply with the number of existing keys."""
    db = client.db
    found = [name for name in args[1:] if db.look(name) is not None]
    for name in found:
        db.touch(name)
    return replies.integer(len(found))


@handles(specs.TYPE)
def type_(client: Client, args: list[bytes]) -> bytes:
    """Reply with the type: ``+stream``, ``+string``, … or ``+none``."""
    return replies.simple(type_name(client.db.look(args[1])))


def _rename(client: Client, args: list[bytes], *, overwrite: bool) -> bool:
    db = client.db
    source, target = args[1], args[2]
    value = db.write(source)
    if value is None:
        raise ReplyError(NO_SUCH_KEY)
    if source == target:
        return False
    before = db.write(target)
    if before is not None and not overwrite:
        return False
    expiry, frequency = db.expires.get(source), db.frequencies.get(source)
    db.replace(target, value)
    if frequency is not None and client.server.compat.renames_keep_frequency:
        db.frequencies[target] = frequency
    keep_encoding(db, source, db, target, client.server.compat)
    if expiry is not None:
        db.set_expiry(target, expiry)
    db.remove(source)
    db.modified(source)
    db.modified(target)
    db.keyspace.notify(events.GENERIC, b"rename_from", source, db)
    db.keyspace.notify(events.GENERIC, b"rename_to", target, db)
    db.notify_overwritten(target, before)
    db.keyspace.dirty += 1
    client.propagate(args)
    return True


@handles(specs.RENAME)
def rename(client: Client, args: list[bytes]) -> bytes:
    """Rename a key together with its expiry, in place of a key with the new name; reply OK."""
    _rename(client, args, overwrite=True)
    return replies.OK


@handles(specs.RENAMENX)
def renamenx(client: Client, args: list[bytes]) -> bytes:
    """Rename a key unless the new name is taken; reply 1 if it was renamed, else 0."""
    return replies.ONE if _rename(client, args, overwrite=False) else replies.ZERO
