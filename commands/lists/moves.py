"""Elements that go from one list to another, and elements from the first of several lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol import replies
from ..spec.command import command
from ..spec.key_specs import KeySpec, key
from . import specs as syntax
from .shared import MultiplePop, move, parse_side

if TYPE_CHECKING:
    from ..runtime.client import Client


# LMOVE source destination <LEFT | RIGHT> <LEFT | RIGHT>
@command(
    "LMOVE",
    arity=5,
    flags="write denyoom",
    categories="list",
    keys=(key(1, "RW access delete"), key(2, "RW insert")),
    since="6.2.0",
    group="list",
    complexity="O(1)",
    summary="Takes an element from one end of a list, puts it at one end of another and returns it.",
    arguments=syntax.LMOVE,
)
def lmove(client: Client, args: list[bytes]) -> bytes:
    """The element, null if the source is missing; both may be the same list."""
    from_left, to_left = parse_side(args[3]), parse_side(args[4])
    reply = move(client, args[1], args[2], from_left=from_left, to_left=to_left)
    if reply is None:
        return replies.null(client.resp)
    client.propagate(args)
    return reply


# RPOPLPUSH source destination
@command(
    "RPOPLPUSH",
    arity=3,
    flags="write denyoom",
    categories="list",
    keys=(key(1, "RW access delete"), key(2, "RW insert")),
    since="1.2.0",
    group="list",
    complexity="O(1)",
    summary="Takes the last element of a list, puts it before the first one of another and returns it.",
    arguments=syntax.RPOPLPUSH,
    doc_flags="deprecated",
    deprecated_since="6.2.0",
    replaced_by="`LMOVE` with the `RIGHT` and `LEFT` arguments",
)
def rpoplpush(client: Client, args: list[bytes]) -> bytes:
    """As LMOVE source destination RIGHT LEFT."""
    reply = move(client, args[1], args[2], from_left=False, to_left=True)
    if reply is None:
        return replies.null(client.resp)
    client.propagate(args)
    return reply


# LMPOP numkeys key [key ...] <LEFT | RIGHT> [COUNT count]
@command(
    "LMPOP",
    arity=-4,
    flags="write movablekeys",
    categories="list",
    keys=(KeySpec(("RW", "access", "delete"), ("index", 1), ("keynum", 0, 1, 1)),),
    since="7.0.0",
    group="list",
    complexity="O(N+M) where N is the number of provided keys and M is the number of elements returned.",
    summary="Takes elements from one end of the first list that exists and returns them.",
    arguments=syntax.LMPOP,
)
def lmpop(client: Client, args: list[bytes]) -> bytes:
    """The key and an array of its elements, or null."""
    reply = MultiplePop(args, 1).take(client)
    return replies.null_array(client.resp) if reply is None else reply
