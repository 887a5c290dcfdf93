"""A consumer group: its place in the stream, its consumers, and what was delivered and not yet acknowledged."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from heapq import merge
from itertools import groupby, repeat
from math import isqrt
from typing import TYPE_CHECKING, TypeAlias

from .blocks import NEVER, SLACK, UNOWNED_MS, Block, Consumer, Delivery, TimeOrder
from .id_order import IdOrder, collect, first_piece
from .stream_id import MAX_ID, encode, parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .stream import Stream

Pending: TypeAlias = tuple[bytes, Block]  # an id and the facts of its delivery

MAX_COUNT = (1 << 63) - 1  # where delivery counters stop
MAX_MS = (1 << 63) - 1


def _turn(block: Block) -> int | Block:
    """Equal for deliveries of one millisecond, which take their turn together."""
    return block.ms if type(block) is Delivery else block


def _number(entry: Pending) -> int:
    return parse(entry[0])


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
        unowned: stands for nobody, with an empty name: who owns the entries given back by XNACK. Its ``pending`` is
            their number; it is none of the ``consumers``.
    """

    __slots__ = ("_order", "_times", "consumers", "entries_read", "last_id", "pel", "unowned")

    def __init__(self, last_id: int = 0, entries_read: int | None = None) -> None:
        self.last_id = last_id
        self.entries_read = entries_read
        self.consumers: dict[bytes, Consumer] = {}
        self.pel: dict[bytes, Block] = {}
        self.unowned = Consumer(b"", NEVER)
        self._order = IdOrder(self.pel)
        self._times = TimeOrder()

    def __iter__(self) -> Iterator[tuple[int, Consumer, int, int]]:
        """Every pending entry in ID order: (ID, consumer, delivery ms, count).

        Those without owner have the consumer ``unowned`` and the time ``blocks.UNOWNED_MS``.
        """
        pel = self.pel
        for text in self._order.take():
            block = pel[text]
            yield parse(text), block.consumer, block.ms, block.count

    def copy(self) -> Group:
        """A group of the same state that shares nothing."""
        twin = Group(self.last_id, self.entries_read)
        for consumer in self.consumers.values():
            twin.create_consumer(consumer.name, consumer.seen_ms, consumer.active_ms)
        pel = twin.pel
        for block in self._times.until(MAX_MS) or ():
            owner = twin.unowned if block.consumer is self.unowned else twin.consumers[block.consumer.name]
            ids = [text for text in block.ids if self.pel.get(text) is block]
            new = type(block)(owner, block.ms, block.count, ids)
            pel.update(dict.fromkeys(ids, new))
            owner.add(new)
            owner.pending += new.live
            twin._times.add(new)
        twin._times.moved_ms = self._times.moved_ms
        ids = self._order.take()
        if ids:
            twin._order.append(ids, parse(ids[-1]))
        return twin

    def fill(self, pending: Iterable[tuple[bytes, Consumer, int, int]]) -> Iterator[None]:
        """Let entries be pending in a group that has none yet, as a loader knows them.

        Yields now and then; the group can be used only when it is through.

        Args:
            pending: id text, its consumer, delivery time (ms) and count, in ID order.
        """
        blocks: dict[tuple[Consumer, int, int], Block] = {}
        pel = self.pel
        for text, consumer, ms, count in pending:
            block = blocks.get((consumer, ms, count))
            if block is None:
                block = blocks[consumer, ms, count] = Delivery(consumer, ms, count, [])
            block.ids.append(text)
            pel[text] = block
            if not len(pel) % 4096:
                yield
        for block in sorted(blocks.values(), key=lambda block: block.ms):
            block.live = len(block.ids)
            block.consumer.add(block)
            block.consumer.pending += block.live
            self._times.add(block)
        if pel:
            ids = list(pel)
            self._order.append(ids, parse(ids[-1]))

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
            and not (stream.max_deleted_id and stream.has_tombstone_from(self.last_id))
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
        number = len(ids)
        if (
            block is not None
            and block.ms == now
            and block.live
            and type(block) is Delivery
            and block.count == 1
            and (self._times.moved_ms < now or block is self._times.newest)
        ):
            block.ids += ids
            block.live += number
        else:
            block = Delivery(consumer, now, 1, ids[:])
            consumer.add(block)
            self._times.add(block)
        if number == 1:
            self.pel[ids[0]] = block
        else:
            self.pel.update(dict.fromkeys(ids, block))
        consumer.pending += number
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
        blocks = list(map(pel.__getitem__, ids))
        left = {blocks[0]: len(ids)} if blocks.count(blocks[0]) == len(ids) else Counter(blocks)
        target = self._new_block(consumer, ms, count, ids[:])
        pel.update(dict.fromkeys(ids, target))
        consumer.pending += len(ids)
        for block, number in left.items():
            if block.consumer is not consumer:
                consumer.ids = None
            self._release(block, number)

    def reassign_each(self, consumer: Consumer, ids: list[bytes], ms: int, counts: list[int]) -> None:
        """As ``reassign``, each id with its own delivery counter."""
        if not ids:
            return
        if counts.count(counts[0]) == len(counts):
            self.reassign(consumer, ids, ms, counts[0])
            return
        at = 0
        for count, run in groupby(counts):
            size = len(list(run))
            self.reassign(consumer, ids[at : at + size], ms, count)
            at += size

    def assign_each(self, consumer: Consumer, ids: list[bytes], ms: int, counts: list[int]) -> None:
        """As ``assign``, each id with its own delivery counter."""
        at = 0
        for count, run in groupby(counts):
            size = len(list(run))
            self.assign(consumer, ids[at : at + size], ms, count)
            at += size

    def give_back(self, ids: list[bytes], counts: list[int]) -> None:
        """Take entries from their owners (XNACK): they go, in this order, to the end of those that wait for anybody.

        Args:
            ids: canonical texts, distinct; those that are not pending become so.
            counts: the delivery counter of each.
        """
        self.assign_each(self.unowned, ids, UNOWNED_MS, counts)

    def add_pending(self, stream_id: int, consumer: Consumer, ms: int, count: int) -> None:
        """Let one entry be pending with given facts, as a loader knows them."""
        self.assign(consumer, [encode(stream_id)], ms, count)

    def acknowledge(self, ids: list[bytes]) -> int:
        """Take entries off the PEL; answers how many were there. The ids are canonical texts."""
        gone = 0
        for block, count in Counter(map(self.pel.pop, ids, repeat(None))).items():
            if block is not None:
                self._release(block, count)
                gone += count
        self._order.removed(gone)
        return gone

    def acknowledge_all(self, ids: list[bytes]) -> bool:
        """As ``acknowledge`` if all these words are pending ids, and none is repeated; else do nothing: False."""
        pel = self.pel
        number = len(ids)
        if number == 1:
            only = pel.pop(ids[0], None)
            if only is None:
                return False
            self._release(only, 1)
            self._order.removed(1)
            return True
        blocks = list(map(pel.pop, ids, repeat(None)))
        first = blocks[0]
        # Mostly what was read at once is acknowledged at once.
        if first is not None and blocks.count(first) == number:
            self._release(first, number)
        else:
            counts = Counter(blocks)
            if None in counts:
                pel.update(
                    (text, block) for text, block in zip(ids, blocks, strict=True) if block is not None
                )
                return False
            for block, count in counts.items():
                assert block is not None
                self._release(block, count)
        self._order.removed(number)
        return True

    def _new_block(self, consumer: Consumer, ms: int, count: int, ids: list[bytes]) -> Block:
        """A block listed everywhere; it counts as living at once, for dead ones may be dropped at any time."""
        block = Block(consumer, ms, count, ids)
        consumer.add(block)
        self._times.add(block)
        if ms > self._times.moved_ms:  # noqa: PLR1730 - a call of max() costs more
            self._times.moved_ms = ms
        return block

    def _shared_block(self, consumer: Consumer, text: bytes, ms: int, count: int) -> Block | None:
        """The newest block, if it has the same facts and does not list the id."""
        block = self._times.newest
        if block is None or block.consumer is not consumer or not block.live or type(block) is Delivery:
            return None
        if block.ms != ms or block.count != count:
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

    def oldest(self, latest: int = MAX_MS) -> Iterator[Pending]:
        """Entries delivered at ``latest`` (milliseconds) or before, the longest idle first.

        Those without owner come before all; those of one time in the order in which they were delivered. Nothing may
        be changed before the walk is over.
        """
        for _, blocks in groupby(self._times.oldest(latest), _turn):
            entries = [self._own(block) for block in blocks]
            yield from entries[0] if len(entries) == 1 else merge(*entries, key=_number)

    def _own(self, block: Block) -> Iterator[Pending]:
        """The entries of one block in the order in which they came."""
        pel = self.pel
        ids = block.ids
        if block.live < len(ids):
            # They are mostly taken from the front: what is gone there is not looked at again and again.
            gone = next(at for at, text in enumerate(ids) if pel.get(text) is block)
            if gone * gone > len(ids):
                del ids[:gone]
        for text in ids:
            if pel.get(text) is block:
                yield text, block

    def given_back(self) -> Iterator[Pending]:
        """The entries without owner, in the order in which they will be claimed."""
        return self.oldest(UNOWNED_MS)

    def oldest_ms(self) -> int | None:
        """The earliest delivery time of a pending entry (UNOWNED_MS if one has no owner), None if nothing is pending."""
        return next((block.ms for block in self._times.oldest(MAX_MS)), None)

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
