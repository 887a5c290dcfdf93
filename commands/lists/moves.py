"""Move elements between lists: LMOVE, RPOPLPUSH."""

from __future__ import annotations

from ...protocol import replies
from ..runtime.client import Client
from ..spec.command import handles
from . import specs
from .shared import move, parse_side


@handles(specs.LMOVE)
def lmove(client: Client, args: list[bytes]) -> bytes:
    """Move an element between lists, or within one; reply with it, null if the source is missing."""
    from_left, to_left = parse_side(args[3]), parse_side(args[4])
    reply = move(client, args[1], args[2], from_left=from_left, to_left=to_left)
    if reply is None:
        return replies.null(client.resp)
    client.propagate(args)
    return reply


@handles(specs.RPOPLPUSH)
def rpoplpush(client: Client, args: list[bytes]) -> bytes:
    """Run LMOVE source destination RIGHT LEFT."""
    reply = move(client, args[1], args[2], from_left=False, to_left=True)
    if reply is None:
        return replies.null(client.resp)
    client.propagate(args)
    return reply
