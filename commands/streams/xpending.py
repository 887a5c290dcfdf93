"""What is delivered and not yet acknowledged: XPENDING."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...protocol import replies
from ...protocol.errors import SYNTAX, ReplyError
from ...storage.groups.deliveries import UNOWNED_MS
from ...storage.groups.pel_pages import batches_of, texts_of
from ...storage.groups.pel_search import find_idle, find_pending
from ...storage.streams.iteration import owner_of
from ..runtime.arguments import parse_integer
from ..spec.command import handles
from . import specs
from .lookup import find_group, parse_interval

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...storage.groups.deliveries import Consumer, Facts
    from ...storage.groups.group import Group
    from ...storage.groups.pel_pages import Page, PelRuns
    from ...storage.streams.stream import Stream
    from ..runtime.client import Client

_ROW: Final = b"*4\r\n"
_UNOWNED: Final = b":-1\r\n"
_SHORT: Final = 16384  # bytes of an entry


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
    stream, group = find_group(client, args[1], args[2])
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
    return _facts(stream, places, now)


def _facts(stream: Stream, places: PelRuns, now: int) -> bytes:
    """``[[id, consumer, milliseconds since its delivery, deliveries], …]``; what has no owner is idle for -1."""
    number = 0
    pieces = [b""]
    consumer: Consumer | None = None
    ms = UNOWNED_MS
    owner, idle = b"", _UNOWNED
    for page, positions in places:
        number += len(positions)
        ids = _ids(stream, page, positions)
        batches: list[Facts]
        if type(positions) is range:
            batches = page.batches[positions.start : positions.stop]  # type: ignore[assignment]  # none is None
        else:
            batches = batches_of([(page, positions)])
        # What was delivered together has the same facts: they are written once.
        are_alike = batches.count(batches[0]) == len(batches)
        for each, batch in zip(ids, batches, strict=True):
            if batch.consumer is not consumer:
                consumer = batch.consumer
                owner = replies.bulk(consumer.name)
            if batch.ms != ms:
                ms = batch.ms
                idle = replies.integer(max(now - ms, 0)) if ms != UNOWNED_MS else _UNOWNED
            if are_alike:
                facts = owner + idle + replies.integer(batch.count)
                pieces += (_ROW, (facts + _ROW).join(ids), facts)
                break
            pieces += (_ROW, each, owner, idle, replies.integer(batch.count))
    pieces[0] = replies.array_header(number)
    return b"".join(pieces)


def _ids(stream: Stream, page: Page, positions: Sequence[int]) -> list[bytes]:
    """The IDs at some places of a page as bulk strings."""
    start, stop = positions[0], positions[-1] + 1
    number = len(positions)
    if number > 1 and stop - start <= 2 * number:
        chunk = owner_of(stream, page.ms, page.seq, start)
        # Cut out of the entries: to format two numbers takes as long as to copy twenty kilobytes.
        if chunk is not None and chunk.offsets[stop] - chunk.offsets[start] <= _SHORT * number:
            ids = chunk.bulks(start, stop, bytes(chunk.data[chunk.offsets[start] : chunk.offsets[stop]]))
            return ids if stop - start == number else [ids[at - start] for at in positions]
    return list(map(replies.bulk, texts_of([(page, positions)])))


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
