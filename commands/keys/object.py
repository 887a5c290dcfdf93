"""OBJECT: the encoding of a value and its last access, in the terms of Redis."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ...protocol import replies
from ...protocol.errors import ReplyError
from ...storage.collections.base import Collection
from ...storage.collections.list import QUICKLIST, List
from ...storage.collections.set import HASHTABLE, LISTPACK, Set
from ..spec.command import handles
from ..spec.usage import help_lines, help_reply
from . import specs

if TYPE_CHECKING:
    from ...storage.keyspace.database import Value
    from ..runtime.client import Client

_SWITCHING: Final = b" Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust."
_NO_FREQUENCY: Final = (
    b"ERR An LFU maxmemory policy is not selected, access frequency not tracked." + _SWITCHING
)
_NO_IDLE_TIME: Final = b"ERR An LFU maxmemory policy is selected, idle time not tracked." + _SWITCHING
_INTEGER: Final = re.compile(rb"(?:0|-?[1-9][0-9]{0,18})\Z")
_EMBEDDED_BYTES: Final = 44
_SHARED_INTEGERS: Final = 10_000
_SHARED: Final = replies.integer((1 << 31) - 1)


def encoding(value: Value, *, is_raw: bool = False) -> bytes:
    """Return the encoding that Redis would use; ``is_raw`` for a string that is in ``Database.raw``."""
    if type(value) is not bytes:
        return value.encoding if isinstance(value, Collection) else b"stream"
    if is_raw:
        return b"raw"
    if _is_integer(value):
        return b"int"
    return b"embstr" if len(value) <= _EMBEDDED_BYTES else b"raw"


def _is_integer(value: bytes) -> bool:
    return _INTEGER.match(value) is not None and -(1 << 63) <= int(value) < 1 << 63


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
    return replies.bulk(encoding(value, is_raw=args[2] in client.db.raw))


@handles(specs.OBJECT_FREQ)
def object_freq(client: Client, args: list[bytes]) -> bytes:
    """Reply with 0 to 255; an error without an LFU policy, null for a missing key."""
    if client.db.look(args[2], notify=False) is None:
        return replies.null(client.resp)
    if not _is_lfu(client):
        raise ReplyError(_NO_FREQUENCY)
    return replies.integer(client.db.frequency(args[2]))


@handles(specs.OBJECT_IDLETIME)
def object_idletime(client: Client, args: list[bytes]) -> bytes:
    """Reply in whole seconds; an error under an LFU policy, null for a missing key."""
    db = client.db
    if db.look(args[2], notify=False) is None:
        return replies.null(client.resp)
    if _is_lfu(client):
        raise ReplyError(_NO_IDLE_TIME)
    return replies.integer(max(db.keyspace.now - db.accessed[args[2]], 0) // 1000)


@handles(specs.OBJECT_REFCOUNT)
def object_refcount(client: Client, args: list[bytes]) -> bytes:
    """Reply 1, or 2147483647 for the small integers that Redis shares; null for a missing key."""
    value = client.db.look(args[2], notify=False)
    if value is None:
        return replies.null(client.resp)
    if type(value) is bytes and _is_integer(value) and 0 <= int(value) < _SHARED_INTEGERS:
        return _SHARED
    return replies.ONE


@handles(specs.OBJECT_HELP)
def object_help(client: Client, args: list[bytes]) -> bytes:
    """The subcommands, one or two lines each."""
    del args
    return help_reply(help_lines("object"), client.server.compat)
