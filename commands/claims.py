"""Entries change hands: XCLAIM and XAUTOCLAIM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from ..protocol import replies
from ..protocol.errors import SYNTAX, ReplyError, shown
from ..storage import stream_id
from ..storage.group import MAX_COUNT
from ..storage.stream import Stream
from .arguments import INT64_MAX, parse_integer
from .group_effects import ClaimRecords, new_consumer, no_such_group, propagate_position
from .settling import settle_group
from .stream_ids import parse_id, parse_start
from .syntax import streams as syntax
from .table import command, key

if TYPE_CHECKING:
    from collections.abc import Collection

    from ..storage.blocks import Block, Consumer
    from ..storage.group import Group
    from .client import Client

_SCAN_FACTOR: Final = 10  # XAUTOCLAIM looks at COUNT times so many entries
_SCAN_COUNT: Final = 100


class ClaimOptions:
    """What stands after the ids of XCLAIM."""

    __slots__ = ("force", "just_id", "last_id", "ms", "retry_count")

    def __init__(self, now: int) -> None:
        self.ms = now  # delivery time
        self.retry_count = -1
        self.force = False
        self.just_id = False
        self.last_id = 0

    def next_count(self, count: int) -> int:
        """The delivery counter after a claim."""
        if self.retry_count >= 0:
            return self.retry_count
        return count if self.just_id else min(count + 1, MAX_COUNT)


def _claim_options(args: list[bytes], at: int, now: int) -> ClaimOptions:
    """Read [IDLE ms] [TIME ms] [RETRYCOUNT n] [FORCE] [JUSTID] [LASTID id], any order; of each the last counts."""
    options = ClaimOptions(now)
    while at < len(args):
        word = args[at].upper()
        more = at + 1 < len(args)
        if word == b"FORCE":
            options.force = True
        elif word == b"JUSTID":
            options.just_id = True
        elif word == b"IDLE" and more:
            at += 1
            options.ms = now - parse_integer(args[at], b"ERR Invalid IDLE option argument for XCLAIM")
        elif word == b"TIME" and more:
            at += 1
            options.ms = parse_integer(args[at], b"ERR Invalid TIME option argument for XCLAIM")
        elif word == b"RETRYCOUNT" and more:
            at += 1
            options.retry_count = parse_integer(
                args[at], b"ERR Invalid RETRYCOUNT option argument for XCLAIM"
            )
        elif word == b"LASTID" and more:
            at += 1
            options.last_id = parse_id(args[at])
        else:
            raise ReplyError(b"ERR Unrecognized XCLAIM option '%b'" % shown(args[at]))
        at += 1
    if not 0 <= options.ms <= now:
        options.ms = now
    return options


# XCLAIM key group consumer min-idle-time id [id ...] [IDLE ms] [TIME unix-time-milliseconds] [RETRYCOUNT count]
#   [FORCE] [JUSTID] [LASTID lastid]
@command(
    "XCLAIM",
    arity=-6,
    flags="write fast",
    categories="stream",
    keys=(key(1, "RW update"),),
    tips=("nondeterministic_output",),
    since="5.0.0",
    group="stream",
    complexity="O(log N) for each ID, with N being the number of the group's pending entries.",
    summary="Makes a consumer the owner of pending entries, as if they had been delivered to it.",
    arguments=syntax.XCLAIM,
)
def xclaim(client: Client, args: list[bytes]) -> bytes:
    """Claim the given entries; answers those that were claimed, in the order of the arguments.

    The key and the group are judged before any other word, and every word before anything happens. Then each id
    stands for itself: what is not pending (and not forced), not idle for long enough or no longer in the stream
    is left out of the reply; an entry that is no longer in the stream leaves the PEL.
    """
    stream = client.read_value(args[1], Stream)
    group = None if stream is None else stream.groups.get(args[2])
    if stream is None or group is None:
        raise no_such_group(args[1], args[2])
    settle_group(client, group)
    min_idle = parse_integer(args[4], b"ERR Invalid min-idle-time argument for XCLAIM")
    keyspace = client.server.keyspace
    now = keyspace.now
    pel = group.pel
    # What is in the PEL is an ID and needs no parsing.
    at = len(args)
    if not all(map(pel.__contains__, args[5:])):
        at = 5
        for word in args[5:]:
            if word not in pel:
                try:
                    stream_id.parse(word)
                except stream_id.InvalidID:
                    break
            at += 1
    ids = args[5:at]
    options = _claim_options(args, at, now)

    moved = options.last_id > group.last_id
    if moved:
        group.last_id = options.last_id
    consumer = group.consumers.get(args[3])
    if consumer is None:
        consumer = new_consumer(client, args[1], group, args[3])
    consumer.seen_ms = now
    records = None
    if client.server.propagation.active:
        records = ClaimRecords(client, args[1], args[2], group.last_id)

    claim = Claim(stream, group, consumer, options, records)
    latest = now - min_idle if min_idle > 0 else INT64_MAX
    reply = claim.neighbours(ids, latest) if ids else None
    if reply is None:
        reply = replies.array(claim.each(ids, latest))
    if claim.claimed:
        consumer.active_ms = now
    changed = claim.claimed + claim.dropped
    if moved and not changed:
        changed = 1
        if records is not None:
            propagate_position(client, args[1], args[2], group)
    keyspace.dirty += changed
    return reply


class Claim:
    """One XCLAIM at work: entries that change hands and what is told of them.

    Attributes:
        claimed: how many entries the consumer got.
        dropped: how many left the PEL because their message is gone.
    """

    __slots__ = ("claimed", "consumer", "dropped", "group", "options", "records", "stream")

    def __init__(
        self,
        stream: Stream,
        group: Group,
        consumer: Consumer,
        options: ClaimOptions,
        records: ClaimRecords | None,
    ) -> None:
        self.stream = stream
        self.group = group
        self.consumer = consumer
        self.options = options
        self.records = records
        self.claimed = 0
        self.dropped = 0

    def neighbours(self, ids: list[bytes], latest: int) -> bytes | None:
        """Claim ids that follow each other in the stream, all pending and all delivered by ``latest``, at one blow.

        Answers the whole reply, or None (and has done nothing) if they are not all of that.
        """
        pel = self.group.pel
        first = pel.get(ids[0])
        if first is None or first.ms > latest:
            return None
        texts, entries, _ = self.stream.take_after(stream_id.parse(ids[0]) - 1, len(ids))
        if texts != ids:
            return None
        blocks = [first]
        if len(ids) > 1:
            found = list(map(pel.get, ids))
            if found.count(first) == len(found):
                blocks *= len(found)
            else:
                for block in set(found):
                    if block is None or block.ms > latest:
                        return None
                blocks = cast("list[Block]", found)
        if self.records is not None:
            self.tell(texts, blocks)
        self.move(texts, blocks)
        if self.options.just_id:
            return replies.bulk_array(ids)
        return replies.array_header(len(ids)) + entries

    def each(self, ids: list[bytes], latest: int) -> list[bytes]:
        """Claim what can be claimed of any ids; answers the items of the reply."""
        numbers = [stream_id.parse(word) for word in ids]
        if len(set(numbers)) < len(numbers):
            # The second time an id is named it must find what the first time did.
            return [item for word in ids for item in self.each([word], latest)]
        pel, stream, options, records = self.group.pel, self.stream, self.options, self.records
        items: list[bytes] = []
        texts: list[bytes] = []
        counts: list[int] = []
        gone: list[bytes] = []
        forced = False
        for word, number in zip(ids, numbers, strict=True):
            text = word
            block = pel.get(word)
            if block is None:
                text = stream_id.encode(number)
                block = pel.get(text)
                if block is None and not options.force:
                    continue
            entry = stream.entry(number)
            if entry is None:
                if block is not None:
                    gone.append(text)
                    if records is not None:
                        records.add_dropped(word, block)
                continue
            if block is None:
                # A forced entry begins as delivered once; to claim it is the second time.
                count = options.next_count(1)
                forced = True
            elif block.ms > latest:
                continue
            else:
                count = options.next_count(block.count)
            texts.append(text)
            counts.append(count)
            items.append(replies.bulk(text) if options.just_id else entry)
            if records is not None:
                records.add((word,), self.consumer.name, options.ms, count)
        self.dropped += self.group.acknowledge(gone)
        self.claimed += len(texts)
        if forced:
            self.group.assign_each(self.consumer, texts, options.ms, counts)
        else:
            self.group.reassign_each(self.consumer, texts, options.ms, counts)
        return items

    def move(self, texts: list[bytes], blocks: list[Block]) -> None:
        """Give distinct pending entries to the consumer; ``blocks`` says where each of them is."""
        if not texts:
            return
        options, consumer, group = self.options, self.consumer, self.group
        self.claimed += len(texts)
        if blocks.count(blocks[0]) == len(blocks):
            group.reassign(consumer, texts, options.ms, options.next_count(blocks[0].count))
            return
        group.reassign_each(
            consumer, texts, options.ms, [options.next_count(block.count) for block in blocks]
        )

    def tell(self, texts: list[bytes], blocks: list[Block], gone: Collection[bytes] = ()) -> None:
        """Propagate, before anything moves, that these entries do; those in ``gone`` are dropped instead."""
        records, options, name = self.records, self.options, self.consumer.name
        assert records is not None
        if not gone and blocks.count(blocks[0]) == len(blocks):
            records.add(texts, name, options.ms, options.next_count(blocks[0].count))
            return
        for text, block in zip(texts, blocks, strict=True):
            if text in gone:
                records.add_dropped(text, block)
            else:
                records.add((text,), name, options.ms, options.next_count(block.count))

    def walk(self, found: list[bytes], gone: list[bytes]) -> None:
        """Claim and drop what a walk in ID order met; both lists are ascending."""
        pel = self.group.pel
        if self.records is not None:
            met = sorted(found + gone, key=stream_id.parse) if gone else found
            if met:
                self.tell(met, [pel[text] for text in met], set(gone))
        self.dropped += self.group.acknowledge(gone)
        self.move(found, [pel[text] for text in found])


# XAUTOCLAIM key group consumer min-idle-time start [COUNT count] [JUSTID]
@command(
    "XAUTOCLAIM",
    arity=-6,
    flags="write fast",
    categories="stream",
    keys=(key(1, "RW delete"),),
    tips=("nondeterministic_output",),
    since="6.2.0",
    group="stream",
    complexity="O(1) for a small COUNT.",
    summary="Makes a consumer the owner of pending entries that were idle for long enough, wherever they are.",
    history=syntax.XAUTOCLAIM_HISTORY,
    arguments=syntax.XAUTOCLAIM,
)
def xautoclaim(client: Client, args: list[bytes]) -> bytes:
    """Walk the PEL from ``start`` and claim what is idle; answers [where to go on, entries, ids that were gone]."""
    min_idle = parse_integer(args[4], b"ERR Invalid min-idle-time argument for XAUTOCLAIM")
    start = parse_start(args[5])
    now = client.server.keyspace.now
    options = ClaimOptions(now)
    count = _SCAN_COUNT
    at = 6
    while at < len(args):
        word = args[at].upper()
        if word == b"COUNT" and at + 1 < len(args):
            at += 1
            count = parse_integer(args[at], b"ERR COUNT must be > 0")
            if not 0 < count <= INT64_MAX // 16:
                raise ReplyError(b"ERR COUNT must be > 0")
        elif word == b"JUSTID":
            options.just_id = True
        else:
            raise ReplyError(SYNTAX)
        at += 1
    stream = client.read_value(args[1], Stream)
    group = None if stream is None else stream.groups.get(args[2])
    if stream is None or group is None:
        raise no_such_group(args[1], args[2])
    settle_group(client, group)

    consumer = group.consumers.get(args[3])
    if consumer is None:
        consumer = new_consumer(client, args[1], group, args[3])
    consumer.seen_ms = now
    latest = now - min_idle if min_idle > 0 else INT64_MAX
    found, gone, entries, cursor = _scan(stream, group, start, count, latest)
    records = None
    if client.server.propagation.active and (found or gone):
        records = ClaimRecords(client, args[1], args[2], group.last_id)
    Claim(stream, group, consumer, options, records).walk(found, gone)
    if found:
        consumer.active_ms = now
    client.server.keyspace.dirty += len(found) + len(gone)
    if options.just_id:
        entries = b"".join([b"$%d\r\n%b\r\n" % (len(text), text) for text in found])
    elif entries is None:
        entries = _entries(stream, found)
    return b"*3\r\n$%d\r\n%b\r\n%b%b%b" % (
        len(cursor),
        cursor,
        replies.array_header(len(found)),
        entries,
        replies.bulk_array(gone) if gone else replies.EMPTY_ARRAY,
    )


def _scan(
    stream: Stream, group: Group, start: int, count: int, latest: int
) -> tuple[list[bytes], list[bytes], bytes | None, bytes]:
    """Look at up to COUNT * 10 entries from ``start``, until COUNT of them are claimable or gone.

    Answers the claimable, the gone, the claimable entries encoded (None: not at hand), and the first id that was
    not looked at.
    """
    pel = group.pel
    found: list[bytes] = []
    gone: list[bytes] = []
    budget = count * _SCAN_FACTOR
    step = count
    while True:
        window = group.pending_ids(start, count=step + 1)
        following = window.pop() if len(window) > step else None
        missing, entries = _missing(stream, window)
        for at, text in enumerate(window, 1):
            if text in missing:
                gone.append(text)
            elif pel[text].ms <= latest:
                found.append(text)
            else:
                continue
            count -= 1
            if not count:
                following = window[at] if at < len(window) else following
                return found, gone, entries if found == window else None, following or b"0-0"
        budget -= step
        if following is None or not budget:
            return found, gone, entries if found == window else None, following or b"0-0"
        start = stream_id.parse(following)
        step = min(step * 4, budget)


def _missing(stream: Stream, ids: list[bytes]) -> tuple[Collection[bytes], bytes | None]:
    """Which of these ids, ascending, are no longer in the stream; and their entries if that was easily told."""
    if not ids:
        return (), b""
    texts, entries, reached = stream.take_after(stream_id.parse(ids[0]) - 1, len(ids))
    if texts == ids:
        return (), entries
    missing = set(ids).difference(texts)
    if reached < stream_id.parse(ids[-1]):
        missing = {text for text in missing if not stream.contains(stream_id.parse(text))}
    return missing, None


def _entries(stream: Stream, ids: list[bytes]) -> bytes:
    """The encoded entries of these ids, all in the stream, one after the other."""
    found = [stream.entry(stream_id.parse(text)) for text in ids]
    return b"".join([entry for entry in found if entry is not None])
