"""Strings as bytes: their length, parts of them, and changes in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...protocol import replies
from ...protocol.errors import ReplyError
from ..runtime.arguments import parse_integer
from ..spec.command import command
from ..spec.key_specs import key
from . import specs as syntax
from .shared import check_length, read_string, replaced, store, store_changed, write_string

if TYPE_CHECKING:
    from ..runtime.client import Client

_RANGE_COMPLEXITY: Final = (
    "O(N) where N is the length of the returned string. The complexity is ultimately determined by the returned "
    "length, but because creating a substring from an existing string is very cheap, it can be considered O(1) for "
    "small strings."
)


# APPEND key value
@command(
    "APPEND",
    arity=3,
    flags="write denyoom fast",
    categories="string",
    keys=(key(1, "RW insert"),),
    since="2.0.0",
    group="string",
    complexity="O(N) where N is the length of the resulting string.",
    summary="Appends to the string at a key; makes the key if it is missing.",
    arguments=syntax.APPEND,
)
def append(client: Client, args: list[bytes]) -> bytes:
    """The new length; an empty piece counts as a change too."""
    old = write_string(client, args[1])
    if old is None:
        new = args[2]
        store(client, args[1], new, b"append")
    else:
        check_length(client, len(old) + len(args[2]))
        new = old + args[2]
        store_changed(client, args[1], new, b"append")
    client.propagate(args)
    return replies.integer(len(new))


# STRLEN key
@command(
    "STRLEN",
    arity=2,
    flags="readonly fast",
    categories="string",
    keys=(key(1, "RO"),),
    since="2.2.0",
    group="string",
    complexity="O(1)",
    summary="Returns the length of the string at a key.",
    arguments=syntax.STRLEN,
)
def strlen(client: Client, args: list[bytes]) -> bytes:
    """Bytes; 0 for a missing key."""
    return replies.integer(len(read_string(client, args[1]) or b""))


def _substring(client: Client, args: list[bytes]) -> bytes:
    start, end = parse_integer(args[2]), parse_integer(args[3])
    value = read_string(client, args[1])
    if not value or (start < 0 and end < 0 and start > end):
        return replies.EMPTY_BULK
    length = len(value)
    first = start if start >= 0 else max(start + length, 0)
    last = end if end >= 0 else max(end + length, 0)
    return replies.bulk(value[first : last + 1])


# GETRANGE key start end
@command(
    "GETRANGE",
    arity=4,
    flags="readonly",
    categories="string",
    keys=(key(1, "RO access"),),
    since="2.4.0",
    group="string",
    complexity=_RANGE_COMPLEXITY,
    summary="Returns a part of the string at a key.",
    arguments=syntax.GETRANGE,
)
def getrange(client: Client, args: list[bytes]) -> bytes:
    """The bytes from start to end, both included; negative positions count from the end of the string."""
    return _substring(client, args)


# SUBSTR key start end
@command(
    "SUBSTR",
    arity=4,
    flags="readonly",
    categories="string",
    keys=(key(1, "RO access"),),
    since="1.0.0",
    group="string",
    complexity=_RANGE_COMPLEXITY,
    summary="Returns a part of the string at a key.",
    arguments=syntax.SUBSTR,
    doc_flags="deprecated",
    deprecated_since="2.0.0",
    replaced_by="`GETRANGE`",
)
def substr(client: Client, args: list[bytes]) -> bytes:
    """The old name of GETRANGE."""
    return _substring(client, args)


# SETRANGE key offset value
@command(
    "SETRANGE",
    arity=4,
    flags="write denyoom",
    categories="string",
    keys=(key(1, "RW update"),),
    since="2.2.0",
    group="string",
    complexity="O(N) where N is the length of the resulting string.",
    summary="Overwrites a part of the string at a key; makes the key if it is missing.",
    arguments=syntax.SETRANGE,
)
def setrange(client: Client, args: list[bytes]) -> bytes:
    """The new length; a gap is filled with zero bytes, an empty piece changes nothing."""
    offset = parse_integer(args[2])
    if offset < 0:
        raise ReplyError(b"ERR offset is out of range")
    piece = args[3]
    old = write_string(client, args[1]) or b""
    if not piece:
        return replies.integer(len(old))
    check_length(client, offset + len(piece))
    new = replaced(old, offset, piece)
    store_changed(client, args[1], new, b"setrange")
    client.propagate(args)
    return replies.integer(len(new))
