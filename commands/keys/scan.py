"""Iterate over keys: SCAN, KEYS, RANDOMKEY."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Final

from ...protocol import replies
from ...protocol.errors import SYNTAX, ReplyError, shown
from ...protocol.globs import matcher
from ...storage.keyspace.database import type_name
from ..runtime.arguments import Arguments, parse_integer
from ..spec.command import handles
from . import specs

if TYPE_CHECKING:
    from ..runtime.client import Client

# As strtoull reads it.
_CURSOR: Final = re.compile(rb"[ \t-\r]*[+-]?[0-9]+\Z")
_MAX_CURSOR: Final = (1 << 64) - 1
_MAX_CURSOR_TEXT: Final = 64
_TYPES: Final = frozenset((b"string", b"list", b"set", b"zset", b"hash", b"stream"))
_DEFAULT_COUNT: Final = 10


def parse_cursor(word: bytes) -> int:
    """Parse a cursor, an unsigned number of 64 bits."""
    if len(word) <= _MAX_CURSOR_TEXT and _CURSOR.match(word):
        cursor = int(word)
        if 0 <= cursor <= _MAX_CURSOR:
            return cursor
    raise ReplyError(b"ERR invalid cursor")


@handles(specs.SCAN)
def scan(client: Client, args: list[bytes]) -> bytes:
    """Reply ``[next cursor, [keys]]``; COUNT is how many keys are examined, the options filter them."""
    cursor = parse_cursor(args[1])
    options = Arguments(args, 2)
    count = _DEFAULT_COUNT
    pattern: bytes | None = None
    wanted_type: bytes | None = None
    while options:
        option = options.option()
        value = options.next()
        if option == b"COUNT":
            count = parse_integer(value)
            if count < 1:
                raise ReplyError(SYNTAX)
        elif option == b"MATCH":
            pattern = value
        elif option == b"TYPE":
            wanted_type = value.lower()
            if wanted_type not in _TYPES and client.server.compat.refuses_unknown_scan_types:
                raise ReplyError(b"ERR unknown type name '%b'" % shown(value))
        else:
            raise ReplyError(SYNTAX)
    db = client.db
    cursor, found = db.order().page(cursor, count)
    if pattern is not None:
        fits = matcher(pattern)
        found = [name for name in found if fits(name)]
    if wanted_type is not None:
        found = [name for name in found if type_name(db.entries[name]) == wanted_type]
    found = [name for name in found if db.peek(name) is not None]
    return replies.array_header(2) + replies.bulk(b"%d" % cursor) + replies.bulk_array(found)


@handles(specs.KEYS)
def keys(client: Client, args: list[bytes]) -> bytes:
    """Reply with the names, in no guaranteed order."""
    fits = matcher(args[1])
    return replies.bulk_array([name for name in client.db.visible_keys() if fits(name)])


@handles(specs.RANDOMKEY)
def randomkey(client: Client, args: list[bytes]) -> bytes:
    """Reply with a name, or null if there is no key."""
    del args
    db = client.db
    if db.keyspace.hides_expired:
        # An expired key stays, so another try may find it again.
        names = list(db.visible_keys())
        return replies.bulk(random.choice(names)) if names else replies.null(client.resp)  # noqa: S311 - no secret
    order = db.order()
    while order:
        name = order.random()
        if not db.expire_if_due(name):
            return replies.bulk(name)
    return replies.null(client.resp)
