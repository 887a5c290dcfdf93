"""Iterate over keys: SCAN, KEYS, RANDOMKEY."""

from __future__ import annotations

import random
import re
from typing import Final

from ...protocol import replies
from ...protocol.errors import SYNTAX, ReplyError
from ...protocol.globs import matcher
from ...protocol.regex import regex
from ...storage.keyspace.database import Database
from ...storage.value_types import TYPES, type_name
from ..runtime.arguments import Arguments, parse_integer
from ..runtime.client import Client
from ..spec.command import handles
from . import specs
from .element_scan import ONLY_HSCAN

# A cursor as strtoull reads it: up to the first NUL.
_CURSOR: Final = regex(rb"([ \t-\r]*)([+-]?[0-9]+)(?:\0.*)?\Z", re.DOTALL)
_MAX_CURSOR: Final = (1 << 64) - 1
_MAX_CURSOR_TEXT: Final = 64
_TYPES: Final = frozenset(each.name for each in TYPES.values())
_DEFAULT_COUNT: Final = 10
_TRIES: Final = 100  # of RANDOMKEY to find a key that has not expired


def parse_cursor(client: Client, word: bytes) -> int:
    """Parse a cursor, an unsigned number of 64 bits; a negative one wraps around as in C.

    Raises ReplyError: the word is not a number or exceeds 64 bits. Since 7.2 also for a negative number within 64
    signed bits; before 7.2 also for a number after blanks, while an empty word is 0.
    """
    strict = client.server.compat.refuses_negative_cursors
    if not strict and word[:1] in {b"", b"\0"}:
        return 0
    found = _CURSOR().match(word) if len(word) <= _MAX_CURSOR_TEXT else None
    if found is not None and (strict or not found[1]):
        cursor = int(found[2])
        fits_63_bits = -(1 << 63) <= cursor < 0 and word == b"%d" % cursor
        if abs(cursor) <= _MAX_CURSOR and not (strict and fits_63_bits):
            return cursor & _MAX_CURSOR
    raise ReplyError(b"ERR invalid cursor")


@handles(specs.SCAN)
def scan(client: Client, args: list[bytes]) -> bytes:
    """Examine COUNT keys from a cursor on; reply ``[next cursor, [keys]]`` with the keys that MATCH and TYPE select.

    Expired keys that MATCH selects are deleted, whatever their TYPE.
    """
    cursor = parse_cursor(client, args[1])
    options = Arguments(args, 2)
    count = _DEFAULT_COUNT
    pattern: bytes | None = None
    wanted_type: bytes | None = None
    while options:
        option = options.option()
        if option == b"NOVALUES" and client.server.compat.knows("7.4"):
            raise ReplyError(ONLY_HSCAN)
        value = options.next()
        if option == b"COUNT":
            count = parse_integer(value)
            if count < 1:
                raise ReplyError(SYNTAX)
        elif option == b"MATCH":
            pattern = None if value == b"*" else value
        elif option == b"TYPE":
            wanted_type = value.lower()
        else:
            raise ReplyError(SYNTAX)
    db = client.db
    cursor, found = db.order().page(cursor, count)
    if client.server.compat.scan_expires_unmatched:
        found = [name for name in found if db.peek(name) is not None]
    if pattern is not None:
        matches = matcher(pattern)
        found = [name for name in found if matches(name)]
    visible = db.look if wanted_type is not None and client.server.compat.scan_looks_up_types else db.peek
    found = [name for name in found if visible(name) is not None]
    if wanted_type is not None:
        found = [name for name in found if type_name(db.entries[name]) == wanted_type]
    _expire_one_by_one(client)
    return replies.array_header(2) + replies.bulk(b"%d" % cursor) + replies.bulk_array(found)


def _expire_one_by_one(client: Client) -> None:
    """Propagate the expired keys that a command found, each as its own unit, except within a transaction or script."""
    if not client.in_exec:
        client.server.propagation.flush_each(keep=1)


@handles(specs.KEYS)
def keys(client: Client, args: list[bytes]) -> bytes:
    """Reply with the names of all keys that match a glob, in no guaranteed order."""
    names = client.db.visible_keys()
    return replies.bulk_array(names if args[1] == b"*" else filter(matcher(args[1]), names))


def _random_of_all(db: Database) -> bytes:
    """Choose a name where expired keys stay; as in Redis, it may be an expired one if all keys have an expiry."""
    order = db.order()
    for _ in range(_TRIES):
        name = order.random()
        if not db.is_due(name):
            return name
    if len(db.expires) == len(db.entries):
        return name
    return random.choice(list(db.visible_keys()))  # noqa: S311 - no secret


@handles(specs.RANDOMKEY)
def randomkey(client: Client, _args: list[bytes]) -> bytes:
    """Reply with the name of a random key, or null if there is none."""
    db = client.db
    order = db.order()
    if db.keyspace.hides_expired and order:
        return replies.bulk(_random_of_all(db))
    while order:
        name = order.random()
        if not db.expire_if_due(name):
            _expire_one_by_one(client)
            return replies.bulk(name)
    _expire_one_by_one(client)
    return replies.null(client.resp)
