"""A consumer group: its place in the stream, its consumers, and what was delivered and not yet acknowledged."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from math import isqrt
from typing import TYPE_CHECKING, TypeAlias

from .blocks import NEVER, SLACK, Block, Consumer, TimeOrder
from .id_order import IdOrder, collect, first_piece
from .stream_id import MAX_ID, encode, parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .stream import Stream

Pending: TypeAlias = tuple[bytes, Block]  # an id and the facts of its delivery

MAX_COUNT = (1 << 63) - 1  # where delivery counters stop


class Group:
    """One group of a stream.

    The PEL maps the canonical text of an id to its block (consumer, delivery time, count). A delivery makes one
    block for all its entries, and an entry whose facts change moves to another block; so the cost is per
    delivery, not per entry.

    Attributes:
        last_id: last delivered ID (int).
        entries_read: how many entries were delivered in all, None if unknown.
        consumers: by name. Add and remove through the methods.
        pel: id text to block; read only, changes go through the methods.
    """

    __slots__ = ("_order", "_times", "consumers", "entries_read", "last_id", "pel")

    def __init__(self, last_id: int = 0, entries_read: int | None = None) -> None:
        self.last_id = last_id
        self.entries_read = entries_read
        self.consumers: dict[bytes, Consumer] = {}
        self.pel: dict[bytes, Block] = {}
        self._order = IdOrder(self.pel)
        self._times = TimeOrder()

    def __iter__(self) -> Iterator[tuple[int, Consumer, int, int]]:
        """Every pending entry in ID order: (ID, consumer, delivery ms, count)."""
        pel = self.pel
        for text in self._order.take():
            block = pel[text]
            yield parse(text), block.consumer, block.ms, block.count

    def copy(self) -> Group:
        """A group of the same state that shares nothing."""
        twin = Group(self.last_id, self.entries_read)
        for consumer in self.consumers.values():
            twin.create_consumer(consumer.name, consumer.seen_ms, consumer.active_ms)
        blocks: dict[Block, Block] = {}
        pel, consumers = twin.pel, twin.consumers
        ids = self._order.take()
        for text in ids:
            block = self.pel[text]
            new = blocks.get(block)
            if new is None:
                new = blocks[block] = Block(consumers[block.consumer.name], block.ms, block.count, [])
            new.ids.append(text)
            new.live += 1
            pel[text] = new
        for new in sorted(blocks.values(), key=lambda block: block.ms):
            new.consumer.add(new)
            new.consumer.pending += new.live
            twin._times.add(new)
        if ids:
            twin._order.append(ids, parse(ids[-1]))
        return twin

    # Place in the stream

    def lag(self, stream: Stream) -> int | None:
        """How many entries of the stream wait to be delivered, None if that cannot be told."""
        return stream.lag(self.last_id, self.entries_read)

    def advance(self, stream: Stream, ids: list[bytes], last: int) -> None:
        """Entries are being delivered for the first time: move ``last_id`` and count them as read.

        Args:
            stream: the group's stream.
            ids: the entries, all that the stream has between ``last_id`` and ``last``.
            last: the last of them.
        """
        read = self.entries_read
        if (
            read is not None
            and self.last_id >= stream.first_id
            and not stream.has_tombstone_from(self.last_id)
        ):
            self.entries_read = read + len(ids)
        elif stream.entries_added:
            # The counter is lost, or what lies behind cannot be trusted: entry by entry, until it can.
            for at, text in enumerate(ids, 1):
                entry = parse(text)
                if (
                    read is not None
                    and self.last_id >= stream.first_id
                    and not stream.has_tombstone_from(self.last_id)
                ):
                    read += len(ids) - at + 1
                    break
                read = stream.entries_read_estimate(entry)
                self.last_id = entry
            self.entries_read = read
        self.last_id = last

    # Consumers

    def create_consumer(self, name: bytes, seen_ms: int, active_ms: int = NEVER) -> Consumer:
        """Add a consumer that does not exist yet."""
        consumer = self.consumers[name] = Consumer(name, seen_ms, active_ms)
        return consumer

    def delete_consumer(self, consumer: Consumer) -> int:
        """Remove a consumer with its pending entries; answers how many those were."""
        pel = self.pel
        dropped = consumer.pending
        for block in consumer.blocks:
            if block.live:
                for text in block.ids:
                    if pel.get(text) is block:
                        del pel[text]
                self._release(block, block.live)
        consumer.blocks.clear()
        consumer.ids = None
        del self.consumers[consumer.name]
        self._order.removed(dropped)
        return dropped

    # Entries come, move and go

    def deliver(self, consumer: Consumer, ids: list[bytes], after: int, last: int, now: int) -> None:
        """New entries are delivered to a consumer for the first time.

        Args:
            consumer: who gets them.
            ids: canonical texts, ascending.
            after: all ids are greater than this ID.
            last: the last of the ids.
            now: delivery time in milliseconds.
        """
        order = self._order
        if after < order.highest:
            # The group was set back or entries were claimed by FORCE: some may be pending already.
            self.assign(consumer, ids, now, 1)
            return
        blocks = consumer.blocks
        block = blocks[-1] if blocks else None
        if block is not None and block.ms == now and block.count == 1 and block.live:
            block.ids += ids
            block.live += len(ids)
        else:
            block = self._new_block(consumer, now, 1, ids[:])
        if len(ids) == 1:
            self.pel[ids[0]] = block
        else:
            self.pel.update(dict.fromkeys(ids, block))
        consumer.pending += len(ids)
        order.append(ids, last)
        if consumer.ids is not None:
            consumer.ids += ids

    def assign(self, consumer: Consumer, ids: list[bytes], ms: int, count: int) -> None:
        """Let entries be pending with a consumer, whether they are pending already or not.

        Args:
            consumer: the owner from now on.
            ids: canonical texts in any order, repetitions allowed.
            ms: delivery time.
            count: delivery counter.
        """
        pel = self.pel
        target: Block | None = None
        previous: Block | None = None
        moved = 0
        for text in ids:
            block = pel.get(text)
            if block is None:
                self._order.insert(text, parse(text))
                consumer.ids = None
            elif block is target:
                continue
            else:
                if block is not previous:
                    if previous is not None:
                        self._release(previous, moved)
                    previous = block
                    moved = 0
                    if block.consumer is not consumer:
                        consumer.ids = None
                moved += 1
            if target is None:
                target = self._shared_block(consumer, text, ms, count) if len(ids) == 1 else None
            if target is None:
                target = self._new_block(consumer, ms, count, [text])
            else:
                target.ids.append(text)
                target.live += 1
            pel[text] = target
            consumer.pending += 1
        if previous is not None:
            self._release(previous, moved)

    def reassign(self, consumer: Consumer, ids: list[bytes], ms: int, count: int) -> None:
        """As ``assign``, for distinct ids that are all pending already."""
        pel = self.pel
        blocks = [pel[text] for text in ids]
        left = {blocks[0]: len(ids)} if blocks.count(blocks[0]) == len(ids) else Counter(blocks)
        target = self._new_block(consumer, ms, count, ids[:])
        pel.update(dict.fromkeys(ids, target))
        consumer.pending += len(ids)
        for block, number in left.items():
            if block.consumer is not consumer:
                consumer.ids = None
            self._release(block, number)

    def add_pending(self, stream_id: int, consumer: Consumer, ms: int, count: int) -> None:
        """Let one entry be pending with given facts, as a loader knows them."""
        self.assign(consumer, [encode(stream_id)], ms, count)

    def acknowledge(self, ids: list[bytes]) -> int:
        """Take entries off the PEL; answers how many were there. The ids are canonical texts."""
        pel = self.pel
        if len(ids) == 1:
            only = pel.pop(ids[0], None)
            if only is None:
                return 0
            self._release(only, 1)
            self._order.removed(1)
            return 1
        if not ids:
            return 0
        blocks = [pel.pop(text, None) for text in ids]
        gone = 0
        # Mostly what was read at once is acknowledged at once.
        counts = {blocks[0]: len(ids)} if blocks.count(blocks[0]) == len(ids) else Counter(blocks)
        for block, count in counts.items():
            if block is not None:
                self._release(block, count)
                gone += count
        self._order.removed(gone)
        return gone

    def _new_block(self, consumer: Consumer, ms: int, count: int, ids: list[bytes]) -> Block:
        """A block listed everywhere; it counts as living at once, for dead ones may be dropped at any time."""
        block = Block(consumer, ms, count, ids)
        consumer.add(block)
        self._times.add(block)
        return block

    @staticmethod
    def _shared_block(consumer: Consumer, text: bytes, ms: int, count: int) -> Block | None:
        """The consumer's newest block, if it has the same facts and does not list the id."""
        block = consumer.blocks[-1] if consumer.blocks else None
        if block is None or block.ms != ms or block.count != count or not block.live:
            return None
        return block if len(block.ids) < SLACK and text not in block.ids else None

    def _release(self, block: Block, count: int) -> None:
        """So many entries have left a block."""
        block.live = live = block.live - count
        block.consumer.pending -= count
        if not live:
            block.ids = []
            self._times.died()
            consumer = block.consumer
            if consumer.ids is not None and len(consumer.ids) > 2 * consumer.pending + SLACK:
                consumer.ids = None
        elif live * 4 < len(block.ids) and len(block.ids) > SLACK:
            pel = self.pel
            block.ids = [text for text in block.ids if pel.get(text) is block]

    # Looking

    def first_pending(self) -> bytes | None:
        """The smallest pending id."""
        return self._order.first()

    def last_pending(self) -> bytes | None:
        """The greatest pending id."""
        return self._order.last()

    def pending_ids(
        self, start: int = 0, end: int = MAX_ID, count: int | None = None, consumer: Consumer | None = None
    ) -> list[bytes]:
        """Pending ids in ID order, of everybody or of one consumer.

        Args:
            start: first ID to look at.
            end: last ID to look at.
            count: at most so many, None for all.
            consumer: only this one's.
        """
        return collect(self._runs(start, first_piece(count), consumer), end, count)

    def idle_ids(
        self,
        latest: int,
        start: int = 0,
        end: int = MAX_ID,
        count: int | None = None,
        consumer: Consumer | None = None,
    ) -> list[bytes]:
        """As ``pending_ids``, only entries delivered at ``latest`` (milliseconds) or before.

        Few such entries are found by time; if there are many, walking in ID order meets enough of them soon.
        """
        pel = self.pel
        wanted = len(pel) if count is None else min(count, len(pel))
        # An ID-ordered walk visits about wanted / old * all entries, a search by time the old ones.
        few = max(SLACK, isqrt(wanted * len(pel)))
        old = self._times.until(latest, few)
        if old is not None and sum(block.live for block in old) <= few:
            numbered = sorted(
                (number, text)
                for block in old
                if consumer is None or block.consumer is consumer
                for text in block.ids
                if pel.get(text) is block and start <= (number := parse(text)) <= end
            )
            return [text for _, text in numbered[:count]]
        found: list[bytes] = []
        for run in self._runs(start, first_piece(count), consumer):
            for text in run:
                if pel[text].ms <= latest:
                    if end < MAX_ID and parse(text) > end:
                        return found
                    if len(found) == count:
                        return found
                    found.append(text)
            if end < MAX_ID and parse(run[-1]) > end:
                break
        return found

    def any_idle(self, latest: int) -> bool:
        """Whether some entry was delivered at ``latest`` (milliseconds) or before."""
        old = self._times.until(latest, 0)
        return old is None or bool(old)

    def _runs(self, start: int, piece: int, consumer: Consumer | None) -> Iterator[list[bytes]]:
        """As ``IdOrder.runs``, of everybody or of one consumer."""
        pel = self.pel
        if consumer is None or consumer.pending == len(pel):
            yield from self._order.runs(start, piece)
            return
        ids = self._ids_of(consumer)
        at = bisect_left(ids, start, key=parse) if start > 1 else 0
        while at < len(ids):
            run = [
                text
                for text in ids[at : at + piece]
                if (block := pel.get(text)) is not None and block.consumer is consumer
            ]
            if run:
                yield run
            at += piece

    def _ids_of(self, consumer: Consumer) -> list[bytes]:
        ids = consumer.ids
        if ids is None or len(ids) > 2 * consumer.pending + SLACK:
            pel = self.pel
            ids = consumer.ids = sorted(
                (
                    text
                    for block in consumer.blocks
                    if block.live
                    for text in block.ids
                    if pel.get(text) is block
                ),
                key=parse,
            )
        return ids
