"""DUMP and RESTORE: a value in the encoding of an RDB file, to move it to another server."""

from __future__ import annotations

from typing import Final

from ...protocol import replies
from ...protocol.errors import SYNTAX, ReplyError
from ...storage.keyspace import notifications as events
from ...storage.keyspace.frequency import stored
from ...storage.loading import RdbError
from ...storage.rdb import PayloadRefusedError, dump_value, restore_value
from ...storage.value_types import TYPES, Value
from ..runtime.arguments import INT64_MAX, Arguments, parse_integer
from ..runtime.client import Client
from ..runtime.downgrades import needs_downgrade, where_known
from ..spec.command import handles
from ..spec.versions import rdb_version_of
from . import specs

_REFUSED: Final = b"ERR DUMP payload version or checksum are wrong"
_BROKEN: Final = b"ERR Bad data format"
_HIGHEST_FREQUENCY: Final = 255
_FIRST_OF_VALKEY: Final = 80  # the versions of Valkey begin here


@handles(specs.DUMP)
def dump(client: Client, args: list[bytes]) -> bytes:
    """Reply with the value of a key as a payload for RESTORE, null for a missing key; rdb-version sets the format."""
    value = client.db.read(args[1])
    if value is None:
        return replies.null(client.resp)
    return replies.bulk(
        dump_value(
            value,
            version=client.server.rdb_version,
            idempotency_defaults=client.server.keyspace.idempotency_defaults,
        )
    )


@handles(specs.RESTORE, specs.RESTORE_ASKING)
def restore(client: Client, args: list[bytes]) -> bytes:
    """Store the value of a DUMP payload and reply OK.

    A time to live of 0 means none. An absolute one in the past stores nothing, and deletes the key that REPLACE would
    replace.
    """
    name, db = args[1], client.db
    options = Arguments(args, 4)
    replace = absolute = False
    idle = frequency = -1
    while options:
        if options.take(b"REPLACE"):
            replace = True
        elif options.take(b"ABSTTL"):
            absolute = True
        elif options.remaining > 1 and frequency < 0 and options.take(b"IDLETIME"):
            idle = parse_integer(options.next())
            if idle < 0:
                raise ReplyError(b"ERR Invalid IDLETIME value, must be >= 0")
        elif options.remaining > 1 and idle < 0 and options.take(b"FREQ"):
            frequency = parse_integer(options.next())
            if not 0 <= frequency <= _HIGHEST_FREQUENCY:
                raise ReplyError(b"ERR Invalid FREQ value, must be >= 0 and <= 255")
        else:
            raise ReplyError(SYNTAX)
    if not replace and db.write(name) is not None:
        raise ReplyError(b"BUSYKEY Target key name already exists.")
    expiry = parse_integer(args[2])
    if expiry < 0:
        raise ReplyError(b"ERR Invalid TTL value, must be >= 0")
    if _is_newer(client, args[3]):
        raise ReplyError(_REFUSED)
    try:
        value = restore_value(
            args[3],
            may_lack_checksum=client.server.compat.knows("8.6"),
            skip_checksum=client.server.keyspace.skips_checksums,
        )
    except PayloadRefusedError as error:
        raise ReplyError(_REFUSED) from error
    except RdbError as error:
        client.server.log.warning(f"RESTORE: {error}")
        raise ReplyError(_BROKEN) from error
    keyspace = db.keyspace
    # 7.0 replaces an expired key like any other.
    before = db.write(name) if client.server.compat.knows("7.2") else db.entries.get(name)
    if expiry and not absolute:
        expiry = min(expiry + keyspace.now, INT64_MAX)
    if expiry and expiry <= keyspace.now and keyspace.drops_expired and not client.replays:
        if client.server.compat.knows("8.6"):
            keyspace.expired += 1
        if db.remove(name) is not None:
            db.modified(name)
            keyspace.notify(events.GENERIC, b"del", name, db)
            keyspace.dirty += 1
            lazy = client.server.config.lazyfree_lazy_server_del and client.server.compat.knows("7.2")
            client.propagate([b"UNLINK" if lazy else b"DEL", name])
        return replies.OK
    TYPES[type(value)].choose_encoding(value, keyspace.limits)
    db.replace(name, value)
    if expiry:
        db.set_expiry(name, expiry)
    db.modified(name)
    if keyspace.usage is None:
        if idle >= 0:
            db.accessed[name] = keyspace.now - idle * 1000
    elif frequency >= 0:
        db.frequencies[name] = stored(frequency, keyspace.now)
    keyspace.notify(events.GENERIC, b"restore", name, db)
    db.notify_overwritten(name, before)
    keyspace.dirty += 1
    words = [args[0], name, b"%d" % expiry, *args[3:], b"ABSTTL"] if expiry and not absolute else args
    client.propagate_with_downgrade(words, _older(client, words, value))
    return replies.OK


def _version_of(payload: bytes) -> int:
    """Return the RDB version that a payload states."""
    return int.from_bytes(payload[-10:-8], "little")


def _is_newer(client: Client, payload: bytes) -> bool:
    """Return True if a payload is from a newer Redis than the version that the server presents."""
    newest = max(client.server.rdb_version, client.server.compat.rdb_version)
    return not client.replays and newest < _version_of(payload) < _FIRST_OF_VALKEY


def _older(client: Client, words: list[bytes], value: Value) -> list[list[bytes]] | None:
    """Return commands for replicas if one of them cannot read a payload: with one that it can read, then the real one."""
    server = client.server
    readable = rdb_version_of(server.propagation.understood)
    if _version_of(words[3]) <= readable or not needs_downgrade(client, server.compat.number):
        return None
    defaults = server.keyspace.idempotency_defaults
    payload = dump_value(value, version=readable, idempotency_defaults=defaults, lossy=True)
    return [[*words[:3], payload, *words[4:]], where_known([*words, b"REPLACE"])]
