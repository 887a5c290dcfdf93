"""Strings as whole numbers: INCR and its variants."""

from __future__ import annotations

from ...protocol import replies
from ...protocol.errors import ReplyError
from ..runtime.arguments import INT64_MAX, INT64_MIN, parse_integer
from ..runtime.client import Client
from ..spec.command import handles
from . import specs
from .shared import store, write_string


@handles(specs.INCR, amount=1)
@handles(specs.DECR, amount=-1)
def incr(client: Client, args: list[bytes], *, amount: int) -> bytes:
    """Add 1 or -1 to the number at a key and reply with the sum.

    A missing key counts as 0, and the expiry stays.
    """
    value = write_string(client, args[1])
    number = (0 if value is None else parse_integer(value)) + amount
    if not INT64_MIN <= number <= INT64_MAX:
        raise ReplyError(b"ERR increment or decrement would overflow")
    store(client, args[1], b"%d" % number, b"incrby", keep_ttl=True)
    client.propagate(args)
    return replies.integer(number)


@handles(specs.INCRBY)
def incrby(client: Client, args: list[bytes]) -> bytes:
    """Add an integer to the number at a key; reply with the new one."""
    return incr(client, args, amount=parse_integer(args[2]))


@handles(specs.DECRBY)
def decrby(client: Client, args: list[bytes]) -> bytes:
    """Subtract an integer from the number at a key; reply with the new one."""
    amount = parse_integer(args[2])
    if amount == INT64_MIN:
        raise ReplyError(b"ERR decrement would overflow")
    return incr(client, args, amount=-amount)
