"""XCLAIM: pending entries change hands; ``Claim`` serves XAUTOCLAIM, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from ...protocol import replies
from ...protocol.errors import ReplyError, shown
from ...storage.groups.group import MAX_COUNT
from ...storage.groups.pel_pages import blocks_of, number_of, texts_of
from ...storage.streams import ids as stream_id
from ...storage.streams.chunk import texts_in
from ...storage.streams.stream import Stream
from ..runtime.arguments import INT64_MAX, parse_integer
from ..spec.command import handles
from . import specs
from .deferral import require_group
from .group_propagation import ClaimRecords, new_consumer, no_such_group, propagate_position
from .ids import parse_id

if TYPE_CHECKING:
    from collections.abc import Collection

    from ...storage.groups.deliveries import Block, Consumer
    from ...storage.groups.group import Group
    from ...storage.groups.pel_pages import Places
    from ...storage.streams.chunk import Piece
    from ..runtime.client import Client

_OPTION_WORDS: Final = 10  # as many as the options of an XCLAIM are, each once


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


@handles(specs.XCLAIM)
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
    require_group(client, group)
    min_idle = parse_integer(args[4], b"ERR Invalid min-idle-time argument for XCLAIM")
    keyspace = client.server.keyspace
    now = keyspace.now
    run = _neighbours(stream, args)
    numbers = [] if run is not None else _ids(args)
    at = 5 + (len(numbers) if run is None else len(run.texts))
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
    reply = None if run is None else claim.neighbours(run, latest)
    if reply is None:
        words = args[5:at]
        numbers = numbers or list(map(stream_id.parse, words))
        reply = replies.array(claim.each(words, numbers, latest))
    if claim.claimed:
        consumer.active_ms = now
    changed = claim.claimed + claim.dropped
    if moved and not changed:
        changed = 1
        if records is not None:
            propagate_position(client, args[1], args[2], group)
    keyspace.dirty += changed
    return reply


class Run(NamedTuple):
    """Entries next to each other in the stream: where they stand, their ids, and they themselves, encoded."""

    pieces: list[Piece]
    texts: list[bytes]
    entries: bytes


def _neighbours(stream: Stream, args: list[bytes]) -> Run | None:
    """The entries that an XCLAIM names, if it names neighbours; such words need no other proof of being ids."""
    end = len(args)
    if end < 7 or args[6][:1].isalpha():
        return None  # one has no neighbours
    if b"-" not in args[-1] or b"-" not in args[-2]:
        # Options begin with letters.
        end = next((at for at in range(max(7, end - _OPTION_WORDS), end) if args[at][:1].isalpha()), end)
    try:
        first, second = stream_id.parse(args[5]), stream_id.parse(args[6])
    except stream_id.InvalidID:
        return None
    pieces, entries, _ = stream.take_after(first - 1, end - 5)
    if not pieces:
        return None
    chunk, start, stop = pieces[0]
    if stop - start > 1 and chunk.id_at(start + 1) != second:
        return None
    texts = texts_in(pieces, entries)
    return Run(pieces, texts, entries) if texts == args[5:end] else None


def _ids(args: list[bytes]) -> list[int]:
    """The ids that an XCLAIM names: what follows the first five words, up to one that is no id."""
    numbers: list[int] = []
    for word in args[5:]:
        if word[:1].isalpha():
            break
        try:
            numbers.append(stream_id.parse(word))
        except stream_id.InvalidID:
            break
    return numbers


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

    def neighbours(self, run: Run, latest: int) -> bytes | None:
        """Claim neighbours in the stream, all pending and all delivered by ``latest``, at one blow.

        Answers the whole reply, or None (and has done nothing) if they are not all of that.
        """
        places = self.group.pel.match(run.pieces)
        if places is None:
            return None
        blocks = blocks_of(places)
        if blocks.count(blocks[0]) < len(blocks):
            if any(block.ms > latest for block in set(blocks)):
                return None
        elif blocks[0].ms > latest:
            return None
        if self.records is not None:
            self.tell(run.texts, blocks)
        self.move(places, blocks)
        if self.options.just_id:
            return replies.bulk_array(run.texts)
        return replies.array_header(len(blocks)) + run.entries

    def each(self, words: list[bytes], numbers: list[int], latest: int) -> list[bytes]:
        """Claim what can be claimed of any ids, given as they were spelled and read; answers the items of the reply."""
        if not stream_id.are_distinct(numbers):
            # The second time an id is named it must find what the first time did.
            pairs = zip(words, numbers, strict=True)
            return [item for word, number in pairs for item in self.each([word], [number], latest)]
        stream, options, records = self.stream, self.options, self.records
        find = self.group.pel.find
        items: list[bytes] = []
        claimed: list[int] = []
        places: Places = []
        counts: list[int] = []
        gone: list[int] = []
        for word, number in zip(words, numbers, strict=True):
            place = find(number >> 64, number & stream_id.MAX_U64)
            if place is None:
                if not options.force:
                    continue
                block = None
                entry = stream.entry(number)
            else:
                page, at = place
                block = page.blocks[at]
                if block is None and not options.force:
                    continue
                entry = stream.entry(number, page.ms, at)
            if entry is None:
                if block is not None:
                    gone.append(number)
                    if records is not None:
                        records.add_dropped(word, block)
                continue
            if block is None:
                # A forced entry begins as delivered once; to claim it is the second time.
                count = options.next_count(1)
            elif block.ms > latest:
                continue
            else:
                count = options.next_count(block.count)
            claimed.append(number)
            if block is not None:
                places.append((page, (at,)))
            counts.append(count)
            items.append(replies.bulk(stream_id.encode(number)) if options.just_id else entry)
            if records is not None:
                records.add((word,), self.consumer.name, options.ms, count)
        self.claimed += len(claimed)
        if len(places) < len(claimed):
            self.group.assign_each(self.consumer, claimed, options.ms, counts)
        else:
            self.group.reassign_each(self.consumer, places, options.ms, counts)
        if gone:
            self.dropped += self.group.acknowledge(gone)
        return items

    def move(self, places: Places, blocks: list[Block]) -> None:
        """Give pending entries to the consumer; ``blocks`` says to which block each of them belongs."""
        options, consumer, group = self.options, self.consumer, self.group
        self.claimed += len(blocks)
        if blocks.count(blocks[0]) == len(blocks):
            group.reassign(consumer, places, options.ms, options.next_count(blocks[0].count))
            return
        group.reassign_each(
            consumer, places, options.ms, [options.next_count(block.count) for block in blocks]
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

    def walk(self, window: Window) -> None:
        """Claim and drop what a walk in ID order met."""
        blocks = blocks_of(window.found)
        if self.records is not None:
            if window.gone:
                self.tell(texts_of(window.met), blocks_of(window.met), set(window.gone))
            elif blocks:
                self.tell(window.ids(), blocks)
        if blocks:
            self.move(window.found, blocks)
        if window.gone:
            self.dropped += self.group.acknowledge(map(stream_id.parse, window.gone))


class Window:
    """What XAUTOCLAIM meets on its walk.

    Attributes:
        found: what is claimable.
        gone: the ids of what is no longer in the stream.
        met: both.
        entries: the claimable entries encoded, in any pieces; None if they are not at hand.
        cursor: the first id that was not looked at, 0-0 if there is none.
    """

    __slots__ = ("cursor", "entries", "found", "gone", "met")

    def __init__(self) -> None:
        self.found: Places = []
        self.gone: list[bytes] = []
        self.met: Places = []
        self.entries: list[bytes] | None = None
        self.cursor = b"0-0"

    def __len__(self) -> int:
        return number_of(self.found)

    def ids(self) -> list[bytes]:
        """The ids of what is claimable."""
        return texts_of(self.found)
