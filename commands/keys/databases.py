"""Whole databases, and keys between databases: DBSIZE, FLUSHDB, FLUSHALL, SWAPDB, MOVE, COPY."""

from __future__ import annotations

from typing import Final

from ...protocol import replies
from ...protocol.errors import INDEX_OUT_OF_RANGE, SAME_OBJECT, SYNTAX, ReplyError
from ...storage.collections.set import is_integer
from ...storage.collections.string import INTEGER
from ...storage.keyspace import notifications as events
from ...storage.keyspace.database import Database
from ...storage.value_types import TYPES
from ..runtime.arguments import Arguments, parse_integer
from ..runtime.client import Client
from ..spec.command import handles
from . import specs
from . import specs as keys_specs
from .object import keep_encoding

_INT_MIN: Final = -(1 << 31)
_INT_MAX: Final = (1 << 31) - 1
_BEYOND_INT: Final = b"ERR value is out of range, value must between -2147483648 and 2147483647"


def _parse_index(word: bytes, error: bytes | None = None) -> int:
    """Parse a database index as a C int; ``error`` is the text for any other word, None for the standard texts."""
    index = parse_integer(word) if error is None else parse_integer(word, error)
    if not _INT_MIN <= index <= _INT_MAX:
        raise ReplyError(_BEYOND_INT if error is None else error)
    return index


def _database(client: Client, index: int) -> Database:
    databases = client.server.keyspace.databases
    if not 0 <= index < len(databases):
        raise ReplyError(INDEX_OUT_OF_RANGE)
    return databases[index]


@handles(specs.DBSIZE)
def dbsize(client: Client, _args: list[bytes]) -> bytes:
    """Reply with the number of keys, including expired keys that are not deleted yet."""
    return replies.integer(len(client.db))


def _check_flush(args: list[bytes]) -> None:
    """Accept ASYNC or SYNC; both free in the background here."""
    if len(args) > 2 or (len(args) == 2 and args[1].upper() not in {b"ASYNC", b"SYNC"}):
        raise ReplyError(SYNTAX)


def _is_async(client: Client, args: list[bytes]) -> bool:
    if len(args) == 1:
        return client.server.config.lazyfree_lazy_user_flush
    return args[1].upper() == b"ASYNC"


def _waits(client: Client, args: list[bytes]) -> bool:
    """Return True if the client waits while another thread flushes: not with ASYNC, nor in MULTI and scripts."""
    return client.server.compat.flushes_before_reply and not (client.in_exec or _is_async(client, args))


def _flush(client: Client, args: list[bytes], databases: list[Database]) -> None:
    counted = _is_async(client, args) or _waits(client, args)
    keyspace = client.server.keyspace
    keyspace.dirty += keyspace.flush(databases, counted=counted)


def _flushed(client: Client, args: list[bytes]) -> bytes:
    """Return OK, after the invalidation messages if the client waits for the flush."""
    if not _waits(client, args) or client.reply_mode != "on":  # without a reply they are sent as usual
        return replies.OK
    pushes = b"".join(client.deferred)
    client.deferred.clear()
    return pushes + replies.OK


@handles(specs.FLUSHDB)
def flushdb(client: Client, args: list[bytes]) -> bytes:
    """Delete all keys of the selected database and reply OK; propagate that even if it is empty."""
    _check_flush(args)
    _flush(client, args, [client.db])
    client.propagate(args)
    return _flushed(client, args)


@handles(specs.FLUSHALL)
def flushall(client: Client, args: list[bytes]) -> bytes:
    """Delete all keys of all databases and reply OK; propagate that even if they are empty."""
    _check_flush(args)
    _flush(client, args, client.server.keyspace.databases)
    client.propagate(args)
    client.server.snapshots.after_flushall()
    return _flushed(client, args)


@handles(specs.SWAPDB)
def swapdb(client: Client, args: list[bytes]) -> bytes:
    """Exchange the data of two databases and reply OK; clients of either one see the change immediately."""
    if client.server.config.cluster_enabled:
        raise ReplyError(b"ERR SWAPDB is not allowed in cluster mode")
    first = _parse_index(args[1], b"ERR invalid first DB index")
    second = _parse_index(args[2], b"ERR invalid second DB index")
    keyspace = client.server.keyspace
    one, other = _database(client, first), _database(client, second)
    keyspace.dirty += 1
    entries = one.entries
    try:
        keyspace.swap(one, other)
        client.propagate(args)
    except Exception:
        if one.entries is not entries:  # the databases are already swapped: propagate despite the error
            client.propagate(args)
        raise
    return replies.OK


@handles(keys_specs.MOVE)
def move(client: Client, args: list[bytes]) -> bytes:
    """Move a key to another database; reply 1, or 0 if it is missing or the other database has it already."""
    if client.server.config.cluster_enabled:
        raise ReplyError(b"ERR MOVE is not allowed in cluster mode")
    name, db = args[1], client.db
    target = _database(client, _parse_index(args[2]))
    if target is db:
        raise ReplyError(SAME_OBJECT)
    value = db.write(name)
    if value is None or target.write(name) is not None:
        return replies.ZERO
    expiry, frequency = db.expires.get(name), db.frequencies.get(name)
    target.add(name, value)
    if frequency is not None and client.server.compat.renames_keep_frequency:
        target.frequencies[name] = frequency
    keep_encoding(db, name, target, name, client.server.compat)
    if expiry is not None:
        target.set_expiry(name, expiry)
    db.remove(name)
    db.modified(name)
    target.modified(name)
    db.keyspace.notify(events.GENERIC, b"move_from", name, db)
    db.keyspace.notify(events.GENERIC, b"move_to", name, target)
    db.keyspace.dirty += 1
    client.propagate(args)
    return replies.ONE


@handles(keys_specs.COPY)
def copy(client: Client, args: list[bytes]) -> bytes:
    """Copy a key with its expiry, and a stream with its groups and pending entries; reply 1, or 0 if it was not copied."""
    source, name, db = args[1], args[2], client.db
    target = db
    overwrite = False
    options = Arguments(args, 3)
    while options:
        if options.take(b"REPLACE"):
            overwrite = True
        elif options.take(b"DB"):
            target = _database(client, _parse_index(options.next()))
        else:
            raise ReplyError(SYNTAX)
    if target is not db and client.server.config.cluster_enabled:
        raise ReplyError(b"ERR Copying to another database is not allowed in cluster mode")
    if target is db and source == name:
        raise ReplyError(SAME_OBJECT)
    value = db.read(source)
    if value is None:
        return replies.ZERO
    before = target.write(name)
    if before is not None and not overwrite:
        return replies.ZERO
    expiry = db.expires.get(source)
    target.replace(name, TYPES[type(value)].copy(value))
    compat = client.server.compat
    keep_encoding(db, source, target, name, compat)
    if compat.shares_integers and type(value) is bytes and is_integer(value):
        target.encodings.setdefault(name, INTEGER)  # the copy is an object of its own
    if expiry is not None:
        target.set_expiry(name, expiry)
    target.modified(name)
    db.keyspace.notify(events.GENERIC, b"copy_to", name, target)
    target.notify_overwritten(name, before)
    db.keyspace.dirty += 1
    client.propagate(args)
    return replies.ONE
