"""OBJECT: the encoding of a value and its last access, in the terms of Redis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...protocol import replies
from ...protocol.errors import ReplyError
from ...storage.collections.list import QUICKLIST, List
from ...storage.collections.set import HASHTABLE, LISTPACK, Set, is_integer
from ...storage.collections.string import EMBEDDED, RAW
from ...storage.value_types import TYPES, Value
from ..spec.command import handles
from ..spec.usage import help_of
from ..spec.versions import Compat
from . import specs

if TYPE_CHECKING:
    from ...storage.keyspace.database import Database
    from ..runtime.client import Client

_SWITCHING: Final = b" Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust."
_NO_FREQUENCY: Final = (
    b"ERR An LFU maxmemory policy is not selected, access frequency not tracked." + _SWITCHING
)
_NO_IDLE_TIME: Final = b"ERR An LFU maxmemory policy is selected, idle time not tracked." + _SWITCHING
_EMBEDDED: Final = 41  # bytes of a key and its string in one object of 64 bytes
_SHARED_INTEGERS: Final = 10_000
_SHARED: Final = replies.integer((1 << 31) - 1)


def encoding(db: Database, key: bytes, value: Value, compat: Compat) -> bytes:
    """Return the name of the encoding that Redis would use for a value under its key, such as ``listpack``."""
    found = db.encodings.get(key) or TYPES[type(value)].encoding(value)
    if (
        type(value) is bytes
        and found == EMBEDDED
        and compat.embeds_keys
        and len(key) + len(value) > _EMBEDDED
    ):
        return RAW
    return found


def keep_encoding(db: Database, key: bytes, target: Database, name: bytes, compat: Compat) -> None:
    """After RENAME, MOVE or COPY, let a string keep its encoding, which may depend on its key.

    ``name``: the new key, where the string is stored now.
    """
    value = target.peek(name)
    if type(value) is bytes:
        kept = encoding(db, key, value, compat)
        if key in db.encodings or kept != encoding(target, name, value, compat):
            target.encodings[name] = kept


def _is_lfu(client: Client) -> bool:
    return client.db.keyspace.usage is not None


@handles(specs.OBJECT_ENCODING)
def object_encoding(client: Client, args: list[bytes]) -> bytes:
    """Reply with the encoding, for a string ``int``, ``embstr`` or ``raw``; null for a missing key."""
    value = client.db.look(args[2], notify=False)
    if value is None:
        return replies.null(client.resp)
    if type(value) is List and not client.server.compat.compact_lists:
        return replies.bulk(QUICKLIST)
    if type(value) is Set and value.encoding is LISTPACK and not client.server.compat.compact_sets:
        return replies.bulk(HASHTABLE)
    return replies.bulk(encoding(client.db, args[2], value, client.server.compat))


@handles(specs.OBJECT_FREQ)
def object_freq(client: Client, args: list[bytes]) -> bytes:
    """Reply with the access frequency of a key, 0 to 255; an error without an LFU policy, null for a missing key."""
    if client.db.look(args[2], notify=False) is None:
        return replies.null(client.resp)
    if not _is_lfu(client):
        raise ReplyError(_NO_FREQUENCY)
    return replies.integer(client.db.frequency(args[2]))


@handles(specs.OBJECT_IDLETIME)
def object_idletime(client: Client, args: list[bytes]) -> bytes:
    """Reply with the seconds since the last access to a key; an error under an LFU policy, null for a missing key."""
    db = client.db
    if db.look(args[2], notify=False) is None:
        return replies.null(client.resp)
    if _is_lfu(client):
        raise ReplyError(_NO_IDLE_TIME)
    return replies.integer(max(db.keyspace.now - db.accessed[args[2]], 0) // 1000)


@handles(specs.OBJECT_REFCOUNT)
def object_refcount(client: Client, args: list[bytes]) -> bytes:
    """Reply 1, or 2147483647 for the small integers that Redis 7.0 shares; null for a missing key."""
    value = client.db.look(args[2], notify=False)
    if value is None:
        return replies.null(client.resp)
    shares = client.server.compat.shares_integers and args[2] not in client.db.encodings
    if shares and type(value) is bytes and is_integer(value) and 0 <= int(value) < _SHARED_INTEGERS:
        return _SHARED
    return replies.ONE


handles(specs.OBJECT_HELP, container="object")(help_of)
