"""Strings as numbers: INCR and its kin, INCRBYFLOAT."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...protocol import replies
from ...protocol.errors import NOT_A_FLOAT, ReplyError
from ..runtime import long_double
from ..runtime.arguments import INT64_MAX, INT64_MIN, parse_integer
from ..spec.command import command
from ..spec.key_specs import key
from . import specs as syntax
from .shared import store, write_string

if TYPE_CHECKING:
    from ..runtime.client import Client

_KEYS: Final = (key(1, "RW access update"),)


def _increment(client: Client, args: list[bytes], amount: int) -> bytes:
    """Add to the number at a key, a missing one being 0; the expiry stays."""
    value = write_string(client, args[1])
    number = (0 if value is None else parse_integer(value)) + amount
    if not INT64_MIN <= number <= INT64_MAX:
        raise ReplyError(b"ERR increment or decrement would overflow")
    store(client, args[1], b"%d" % number, b"incrby", keep_ttl=True)
    client.propagate(args)
    return replies.integer(number)


# INCR key
@command(
    "INCR",
    arity=2,
    flags="write denyoom fast",
    categories="string",
    keys=_KEYS,
    since="1.0.0",
    group="string",
    complexity="O(1)",
    summary="Adds one to the integer at a key; makes the key if it is missing.",
    arguments=syntax.INCR,
)
def incr(client: Client, args: list[bytes]) -> bytes:
    """The new number."""
    return _increment(client, args, 1)


# DECR key
@command(
    "DECR",
    arity=2,
    flags="write denyoom fast",
    categories="string",
    keys=_KEYS,
    since="1.0.0",
    group="string",
    complexity="O(1)",
    summary="Subtracts one from the integer at a key; makes the key if it is missing.",
    arguments=syntax.DECR,
)
def decr(client: Client, args: list[bytes]) -> bytes:
    """The new number."""
    return _increment(client, args, -1)


# INCRBY key increment
@command(
    "INCRBY",
    arity=3,
    flags="write denyoom fast",
    categories="string",
    keys=_KEYS,
    since="1.0.0",
    group="string",
    complexity="O(1)",
    summary="Adds to the integer at a key; makes the key if it is missing.",
    arguments=syntax.INCRBY,
)
def incrby(client: Client, args: list[bytes]) -> bytes:
    """The new number."""
    return _increment(client, args, parse_integer(args[2]))


# DECRBY key decrement
@command(
    "DECRBY",
    arity=3,
    flags="write denyoom fast",
    categories="string",
    keys=_KEYS,
    since="1.0.0",
    group="string",
    complexity="O(1)",
    summary="Subtracts from the integer at a key; makes the key if it is missing.",
    arguments=syntax.DECRBY,
)
def decrby(client: Client, args: list[bytes]) -> bytes:
    """The new number."""
    amount = parse_integer(args[2])
    if amount == INT64_MIN:
        raise ReplyError(b"ERR decrement would overflow")
    return _increment(client, args, -amount)


# INCRBYFLOAT key increment
@command(
    "INCRBYFLOAT",
    arity=3,
    flags="write denyoom fast",
    categories="string",
    keys=_KEYS,
    since="2.6.0",
    group="string",
    complexity="O(1)",
    summary="Adds to the floating point number at a key; makes the key if it is missing.",
    arguments=syntax.INCRBYFLOAT,
)
def incrbyfloat(client: Client, args: list[bytes]) -> bytes:
    """The new number as a bulk string, also what is stored; propagated as the SET of that text."""
    value = write_string(client, args[1])
    try:
        present = long_double.parse(b"0" if value is None else value)
        text = long_double.format_fixed(long_double.add(present, long_double.parse(args[2])))
    except ValueError as error:
        raise ReplyError(NOT_A_FLOAT) from error
    except long_double.NotFiniteError as error:
        raise ReplyError(b"ERR increment would produce NaN or Infinity") from error
    store(client, args[1], text, b"incrbyfloat", keep_ttl=True)
    client.propagate([b"SET", args[1], text, b"KEEPTTL"])
    return replies.bulk(text)
