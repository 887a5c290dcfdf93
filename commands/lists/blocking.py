"""Commands that take from lists, and block until there is an element.

A blocked command runs again when one of its keys becomes a list. In every case the server propagates the equivalent
command that never blocks.
"""

from __future__ import annotations

from ...protocol import replies
from ...storage.collections.list import List
from ..runtime.arguments import multiple_pop
from ..runtime.client import Client
from ..runtime.timeouts import parse_seconds, wait
from ..spec.command import handles
from . import specs
from .shared import move, parse_side, pop, pop_command, pop_of_first


@handles(specs.BLPOP, left=True)
@handles(specs.BRPOP, left=False)
def blpop(client: Client, args: list[bytes], *, left: bool) -> bytes | None:
    """Pop an element from the first list that has one, or block; reply ``[key, element]``, null on timeout."""
    timeout = parse_seconds(client, args[-1])
    keys = args[1:-1]
    for name in keys:
        value = client.write_value(name, List)
        if value is not None:
            element = pop(client, name, value, left=left)
            client.propagate(pop_command(name, None, left=left))
            return b"*2\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n" % (len(name), name, len(element), element)
    return wait(client, keys, timeout, args, List)


def _move(
    client: Client, args: list[bytes], *, from_left: bool, to_left: bool, propagated: list[bytes]
) -> bytes | None:
    timeout = parse_seconds(client, args[-1])
    client.write_value(args[1], List)  # Redis looks it up twice, which LFU counts
    reply = move(client, args[1], args[2], from_left=from_left, to_left=to_left)
    if reply is not None:
        client.propagate(propagated)
        return reply
    if not client.may_block:
        return replies.null(client.resp)
    client.server.blocking.block(client, args[1:2], timeout, args, wants=List)
    return None


@handles(specs.BLMOVE)
def blmove(client: Client, args: list[bytes]) -> bytes | None:
    """Move an element between lists, or block; reply with it, or with a null array on timeout.

    Where it may not block (EXEC, scripts), the null is a bulk string.
    """
    from_left, to_left = parse_side(args[3]), parse_side(args[4])
    return _move(client, args, from_left=from_left, to_left=to_left, propagated=[b"LMOVE", *args[1:5]])


@handles(specs.BRPOPLPUSH)
def brpoplpush(client: Client, args: list[bytes]) -> bytes | None:
    """Run BLMOVE source destination RIGHT LEFT."""
    return _move(client, args, from_left=False, to_left=True, propagated=[b"RPOPLPUSH", *args[1:3]])


@handles(specs.BLMPOP)
def blmpop(client: Client, args: list[bytes]) -> bytes | None:
    """Pop elements from the first list that has some, or block; reply ``[key, [elements]]``, null on timeout."""
    keys, left, count = multiple_pop(args, 2, b"LEFT", b"RIGHT")
    timeout = parse_seconds(client, args[1])
    reply = pop_of_first(client, keys, left, count)
    if reply is not None:
        return reply
    return wait(client, keys, timeout, args, List)
