"""Read without blocking: XLEN, XRANGE, XREVRANGE."""

from __future__ import annotations

from ...protocol import replies
from ...protocol.errors import SYNTAX, ReplyError
from ...storage.streams.ids import parse_interval
from ...storage.streams.stream import Stream
from ..runtime.arguments import Arguments, parse_integer
from ..runtime.client import Client
from ..spec.command import handles
from . import specs


@handles(specs.XLEN)
def xlen(client: Client, args: list[bytes]) -> bytes:
    """Reply with the number of entries; 0 for a missing key."""
    stream = client.read_value(args[1], Stream)
    return replies.ZERO if stream is None else replies.integer(stream.length)


@handles(specs.XRANGE, reverse=False)
@handles(specs.XREVRANGE, reverse=True)
def xrange(client: Client, args: list[bytes], *, reverse: bool) -> bytes:
    """Reply with the entries between two IDs, inclusive unless marked with ``(``; XREVRANGE takes the greater ID first."""
    start, end = parse_interval(args[3], args[2]) if reverse else parse_interval(args[2], args[3])
    count = _count_option(args)
    stream = client.read_value(args[1], Stream)
    if stream is None:
        return replies.EMPTY_ARRAY
    if count == 0:
        return replies.null_array(client.resp)
    if reverse:
        number, entries = stream.range_reverse(start, end, count)
        return replies.array_header(number) + entries
    number, parts = stream.range_parts(start, end, count)
    return b"".join((replies.array_header(number), *parts))


def _count_option(args: list[bytes]) -> int | None:
    """Parse ``[COUNT n]`` of a range; None if it is not given. A negative count is 0; the last of several wins."""
    if len(args) == 6 and args[4] == b"COUNT":  # fast path, same as below
        return max(parse_integer(args[5]), 0)
    count = None
    options = Arguments(args, 4)
    while options:
        if not options.take(b"COUNT"):
            raise ReplyError(SYNTAX)
        count = max(options.integer(), 0)
    return count
