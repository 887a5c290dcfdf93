"""XPENDING: the pending entries of a group."""

from __future__ import annotations

from typing import Final

from ...protocol import replies
from ...protocol.errors import SYNTAX, ReplyError
from ...storage.groups.group import Group
from ...storage.groups.pending import UNOWNED_MS, Pending
from ...storage.streams.ids import parse_interval
from ..runtime.arguments import parse_integer
from ..runtime.client import Client
from ..spec.command import handles
from . import specs
from .deferral import require_order
from .lookup import find_group

_FACTS: Final = b"$%d\r\n%b\r\n:%d\r\n:%d\r\n"


@handles(specs.XPENDING)
def xpending(client: Client, args: list[bytes]) -> bytes:
    """Reply with a summary of the PEL, or with pending entries in a range of IDs.

    As in Redis, words after the consumer are ignored.
    """
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
        require_order(client, group)
        return _summary(group, client.resp)
    consumer = None
    if name is not None:
        consumer = group.consumers.get(name)
        if consumer is None:
            return replies.EMPTY_ARRAY
    now = client.server.keyspace.now
    require_order(client, group, consumer, by_time=min_idle > 0)
    if min_idle:
        return _facts(group.pel.find_idle(now - min_idle, start, end, count, consumer), now)
    return _facts(group.pel.order_of(consumer).find(start, end, count), now)


def _facts(entries: list[Pending], now: int) -> bytes:
    """Encode ``[[id, consumer, idle milliseconds, delivery count], …]``; an entry without owner is idle for -1."""
    rows = [b"*%d\r\n" % len(entries)]
    consumer, ms, count, facts = None, 0, 0, b""
    for entry in entries:
        # Entries delivered together share these fields; reusing them saves 10 % of an XPENDING of ten.
        if entry.ms != ms or entry.consumer is not consumer or entry.count != count:
            consumer, ms, count = entry.consumer, entry.ms, entry.count
            idle = max(now - ms, 0) if ms != UNOWNED_MS else -1
            facts = _FACTS % (len(consumer.name), consumer.name, idle, count)
        text = entry.text
        rows.append(b"*4\r\n$%d\r\n%b\r\n%b" % (len(text), text, facts))
    return b"".join(rows)


def _summary(group: Group, resp: int) -> bytes:
    """Encode ``[total, smallest id, greatest id, [[consumer, "count"], …]]``; the counts are bulk strings."""
    first, last = group.pel.first(), group.pel.order.last()
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
        replies.bulk(first.text),
        replies.bulk(last.text),
        replies.array(owners),
    )
