"""What is delivered and not yet acknowledged: XPENDING."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

from ...protocol import replies
from ...protocol.errors import SYNTAX, ReplyError
from ...storage.groups.deliveries import UNOWNED_MS
from ...storage.groups.pel_pages import blocks_of, texts_of
from ...storage.groups.pel_search import find_idle, find_pending
from ..runtime.arguments import parse_integer
from ..spec.command import handles
from . import specs
from .lookup import find_group, parse_interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...storage.groups.deliveries import Facts
    from ...storage.groups.group import Group
    from ...storage.groups.pel_pages import Page, PelRuns
    from ..runtime.client import Client

# What comes before an ID, by its length; the longest has twice twenty digits.
_HEADS: Final = tuple(b"*4\r\n$%d\r\n" % size for size in range(42))


@handles(specs.XPENDING)
def xpending(client: Client, args: list[bytes]) -> bytes:
    """The summary, or a range of pending entries. Words after the consumer are ignored, as Redis does."""
    words = len(args)
    if words != 3 and not 6 <= words <= 9:
        raise ReplyError(SYNTAX)
    start = end = count = min_idle = 0
    name: bytes | None = None
    if words > 3:
        at = 3
        if args[3].upper() == b"IDLE":
            min_idle = parse_integer(args[4])
            if words < 8:
                raise ReplyError(SYNTAX)
            at = 5
        count = max(parse_integer(args[at + 2]), 0)
        start, end = parse_interval(args[at], args[at + 1])
        if words > at + 3:
            name = args[at + 3]
    _, group = find_group(client, args[1], args[2])
    if words == 3:
        return _summary(group, client.resp)
    consumer = None
    if name is not None:
        consumer = group.consumers.get(name)
        if consumer is None:
            return replies.EMPTY_ARRAY
    now = client.server.keyspace.now
    if min_idle:
        places = find_idle(group, now - min_idle, start, end, count, consumer)
    else:
        places = find_pending(group, start, end, count, consumer)
    return _facts(places, now)


def _facts(places: PelRuns, now: int) -> bytes:
    """``[[id, consumer, milliseconds since its delivery, deliveries], …]``; what has no owner is idle for -1."""
    number = 0
    pieces = [b""]
    last: Facts | None = None
    facts = b""
    for page, positions in places:
        number += len(positions)
        blocks = blocks_of([(page, positions)])
        if blocks.count(blocks[0]) == len(blocks):
            pieces.append(_with_ids(page, positions, _with_whom(blocks[0], now)))
            continue
        for text, block in zip(texts_of([(page, positions)]), blocks, strict=True):
            if block is not last:
                if (
                    last is None
                    or block.ms != last.ms
                    or block.count != last.count
                    or block.consumer is not last.consumer
                ):
                    facts = _with_whom(block, now)
                last = block
            pieces += (_HEADS[len(text)], text, facts)
    pieces[0] = replies.array_header(number)
    return b"".join(pieces)


def _with_whom(block: Facts, now: int) -> bytes:
    """What follows the id."""
    owner = block.consumer.name
    idle = max(now - block.ms, 0) if block.ms != UNOWNED_MS else -1
    return b"\r\n$%d\r\n%b\r\n:%d\r\n:%d\r\n" % (len(owner), owner, idle, block.count)


def _with_ids(page: Page, positions: Sequence[int], facts: bytes) -> bytes:
    """The items of entries that were delivered together."""
    start, stop = positions[0], positions[-1] + 1
    if stop - start == len(positions) > 1 and (size := page.text_size(start, stop)) is not None:
        form = b"%b%%d-%%d%b" % (_HEADS[size], facts.replace(b"%", b"%%"))
        halves = chain.from_iterable(zip(page.ms[start:stop], page.seq[start:stop], strict=True))
        return form * len(positions) % tuple(halves)
    return b"".join([b"%b%b%b" % (_HEADS[len(text)], text, facts) for text in map(page.text, positions)])


def _summary(group: Group, resp: int) -> bytes:
    """``[total, smallest id, greatest id, [[consumer, "count"], …]]``; the counts are bulk strings."""
    first, last = group.pel.first(), group.pel.last()
    if first is None or last is None:
        null = replies.null(resp)
        return b"*4\r\n:0\r\n%b%b%b" % (null, null, replies.null_array(resp))
    owners = [
        b"*2\r\n%b%b" % (replies.bulk(name), replies.bulk(b"%d" % consumer.pending))
        for name, consumer in sorted(group.consumers.items())
        if consumer.pending
    ]
    return b"*4\r\n:%d\r\n%b%b%b" % (
        len(group.pel),
        replies.bulk(first[0].text(first[1])),
        replies.bulk(last[0].text(last[1])),
        replies.array(owners),
    )
