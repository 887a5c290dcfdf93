"""Commands that take from lists and wait for an element if there is none.

A command that waited runs again when one of its keys has become a list. Waiting or not, what is propagated is the
command of the same effect that never waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...protocol import replies
from ...storage.collections.list import List
from ..runtime.timeouts import parse_seconds, wait
from ..spec.command import command
from ..spec.key_specs import KeySpec, key
from . import specs as syntax
from .shared import MultiplePop, move, parse_side, pop, pop_command

if TYPE_CHECKING:
    from ..runtime.client import Client

_COMPLEXITY: Final = "O(N) where N is the number of provided keys."


def _pop(client: Client, args: list[bytes], *, left: bool) -> bytes | None:
    timeout = parse_seconds(client, args[-1])
    keys = args[1:-1]
    for name in keys:
        value = client.write_value(name, List)
        if value is not None:
            element = pop(client, name, value, left=left)
            client.propagate(pop_command(name, None, left=left))
            return b"*2\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n" % (len(name), name, len(element), element)
    return wait(client, keys, timeout, args, List)


# BLPOP key [key ...] timeout
@command(
    "BLPOP",
    arity=-3,
    flags="write blocking",
    categories="list",
    keys=(key(1, "RW access delete", last=-2),),
    since="2.0.0",
    group="list",
    complexity=_COMPLEXITY,
    summary="Takes the first element of the first list that exists; waits for one if none does.",
    history=syntax.BLPOP_HISTORY,
    arguments=syntax.BLPOP,
)
def blpop(client: Client, args: list[bytes]) -> bytes | None:
    """The key and the element; null when the time is up."""
    return _pop(client, args, left=True)


# BRPOP key [key ...] timeout
@command(
    "BRPOP",
    arity=-3,
    flags="write blocking",
    categories="list",
    keys=(key(1, "RW access delete", last=-2),),
    since="2.0.0",
    group="list",
    complexity=_COMPLEXITY,
    summary="Takes the last element of the first list that exists; waits for one if none does.",
    history=syntax.BRPOP_HISTORY,
    arguments=syntax.BRPOP,
)
def brpop(client: Client, args: list[bytes]) -> bytes | None:
    """The key and the element; null when the time is up."""
    return _pop(client, args, left=False)


def _move(
    client: Client, args: list[bytes], *, from_left: bool, to_left: bool, propagated: list[bytes]
) -> bytes | None:
    timeout = parse_seconds(client, args[-1])
    reply = move(client, args[1], args[2], from_left=from_left, to_left=to_left)
    if reply is not None:
        client.propagate(propagated)
        return reply
    if not client.may_block:
        return replies.null(client.resp)
    client.block(args[1:2], timeout, args, wants=List)
    return None


# BLMOVE source destination <LEFT | RIGHT> <LEFT | RIGHT> timeout
@command(
    "BLMOVE",
    arity=6,
    flags="write denyoom blocking",
    categories="list",
    keys=(key(1, "RW access delete"), key(2, "RW insert")),
    since="6.2.0",
    group="list",
    complexity="O(1)",
    summary="Moves an element from one list to another and returns it; waits for one if there is none.",
    arguments=syntax.BLMOVE,
)
def blmove(client: Client, args: list[bytes]) -> bytes | None:
    """The element; a null array when the time is up, a null of single values where it may not wait."""
    from_left, to_left = parse_side(args[3]), parse_side(args[4])
    return _move(client, args, from_left=from_left, to_left=to_left, propagated=[b"LMOVE", *args[1:5]])


# BRPOPLPUSH source destination timeout
@command(
    "BRPOPLPUSH",
    arity=4,
    flags="write denyoom blocking",
    categories="list",
    keys=(key(1, "RW access delete"), key(2, "RW insert")),
    since="2.2.0",
    group="list",
    complexity="O(1)",
    summary="Moves the last element of a list before the first one of another; waits for one if there is none.",
    history=syntax.BRPOPLPUSH_HISTORY,
    arguments=syntax.BRPOPLPUSH,
    doc_flags="deprecated",
    deprecated_since="6.2.0",
    replaced_by="`BLMOVE` with the `RIGHT` and `LEFT` arguments",
)
def brpoplpush(client: Client, args: list[bytes]) -> bytes | None:
    """As BLMOVE source destination RIGHT LEFT."""
    return _move(client, args, from_left=False, to_left=True, propagated=[b"RPOPLPUSH", *args[1:3]])


# BLMPOP timeout numkeys key [key ...] <LEFT | RIGHT> [COUNT count]
@command(
    "BLMPOP",
    arity=-5,
    flags="write blocking movablekeys",
    categories="list",
    keys=(KeySpec(("RW", "access", "delete"), ("index", 2), ("keynum", 0, 1, 1)),),
    since="7.0.0",
    group="list",
    complexity="O(N+M) where N is the number of provided keys and M is the number of elements returned.",
    summary="Takes elements from the first list that exists; waits for one if none does.",
    arguments=syntax.BLMPOP,
)
def blmpop(client: Client, args: list[bytes]) -> bytes | None:
    """The key and an array of its elements; null when the time is up."""
    wanted = MultiplePop(args, 2)
    timeout = parse_seconds(client, args[1])
    reply = wanted.take(client)
    if reply is not None:
        return reply
    return wait(client, wanted.keys, timeout, args, List)
