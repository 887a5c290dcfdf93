"""Reading without waiting: XLEN, XRANGE, XREVRANGE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol import replies
from ...protocol.errors import SYNTAX, ReplyError
from ...storage.streams.stream import Stream
from ..runtime.arguments import Arguments, parse_integer
from ..spec.command import command
from ..spec.key_specs import key
from . import specs as syntax
from .ids import parse_interval

if TYPE_CHECKING:
    from ..runtime.client import Client


# XLEN key
@command(
    "XLEN",
    arity=2,
    flags="readonly fast",
    categories="stream",
    keys=(key(1, "RO"),),
    since="5.0.0",
    group="stream",
    complexity="O(1)",
    summary="Returns the number of entries in a stream.",
    arguments=syntax.XLEN,
)
def xlen(client: Client, args: list[bytes]) -> bytes:
    """The number of entries; 0 for a missing key."""
    stream = client.read_value(args[1], Stream)
    return replies.ZERO if stream is None else replies.integer(stream.length)


# XRANGE key start end [COUNT count]
@command(
    "XRANGE",
    arity=-4,
    flags="readonly",
    categories="stream",
    keys=(key(1, "RO access"),),
    since="5.0.0",
    group="stream",
    complexity="O(N) with N being the number of elements being returned. If N is constant (e.g. always asking for "
    "the first 10 elements with COUNT), you can consider it O(1).",
    summary="Returns the entries of a stream within a range of IDs.",
    history=syntax.XRANGE_HISTORY,
    arguments=syntax.XRANGE,
)
def xrange(client: Client, args: list[bytes]) -> bytes:
    """The entries between two IDs, in ID order."""
    start, end = parse_interval(args[2], args[3])
    count = _count_option(args)
    stream = client.read_value(args[1], Stream)
    if stream is None:
        return replies.EMPTY_ARRAY
    if count == 0:
        return replies.null_array(client.resp)
    number, parts = stream.range_parts(start, end, count)
    return b"".join((replies.array_header(number), *parts))


# XREVRANGE key end start [COUNT count]
@command(
    "XREVRANGE",
    arity=-4,
    flags="readonly",
    categories="stream",
    keys=(key(1, "RO access"),),
    since="5.0.0",
    group="stream",
    complexity="O(N) with N being the number of elements returned. If N is constant (e.g. always asking for the "
    "first 10 elements with COUNT), you can consider it O(1).",
    summary="Returns the entries of a stream within a range of IDs, the greatest ID first.",
    history=syntax.XREVRANGE_HISTORY,
    arguments=syntax.XREVRANGE,
)
def xrevrange(client: Client, args: list[bytes]) -> bytes:
    """The entries between two IDs, in reverse order of IDs."""
    start, end = parse_interval(args[3], args[2])
    count = _count_option(args)
    stream = client.read_value(args[1], Stream)
    if stream is None:
        return replies.EMPTY_ARRAY
    if count == 0:
        return replies.null_array(client.resp)
    number, entries = stream.range_reverse(start, end, count)
    return replies.array_header(number) + entries


def _count_option(args: list[bytes]) -> int | None:
    """``[COUNT n]`` of a range, None if it is not given; a negative one is 0, the last of several counts."""
    if len(args) == 6 and args[4] == b"COUNT":  # nearly always sent like this
        return max(parse_integer(args[5]), 0)
    count = None
    options = Arguments(args, 4)
    while options:
        if not options.take(b"COUNT"):
            raise ReplyError(SYNTAX)
        count = max(options.integer(), 0)
    return count
