"""A consumer group: its place in the stream, its consumers, and what was delivered and not yet acknowledged."""

from __future__ import annotations

from collections import Counter, deque
from itertools import groupby, repeat
from typing import TYPE_CHECKING, Any, Final, cast

from .blocks import NEVER, SLACK, UNOWNED_MS, Block, Consumer, Delivery, TimeOrder
from .id_order import CHUNK, IdOrder
from .pending_search import MAX_MS, Searching
from .stream_id import encode, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from .stream import Stream

MAX_COUNT = (1 << 63) - 1  # where delivery counters stop
_WHILE_BUSY: Final = frozenset(("go_on", "weight", "__class__"))
_ANEW: Final = 4  # a consumer that gets more than this part of what it has is put in order anew


class Group(Searching):
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

    __slots__ = ("_left", "_order", "_times", "consumers", "entries_read", "last_id", "pel", "unowned")

    def __init__(self, last_id: int = 0, entries_read: int | None = None) -> None:
        self.last_id = last_id
        self.entries_read = entries_read
        self.consumers: dict[bytes, Consumer] = {}
        self.pel: dict[bytes, Block] = {}
        self.unowned = Consumer(b"", NEVER)
        self._order = IdOrder(self.pel)
        self._times = TimeOrder()
        self._left: Iterator[None] | None = None  # what a BusyGroup has still to do

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

    @property
    def weight(self) -> tuple[int, int]:
        """How many consumers and pending entries take memory."""
        return len(self.consumers), len(self.pel)

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
        dropped = consumer.pending
        del self.consumers[consumer.name]
        deque(self._let_go(consumer), 0)
        return dropped

    def delete_consumer_later(self, consumer: Consumer) -> Callable[[], bool]:
        """The same bit by bit: the group is a ``BusyGroup`` now, and its ``go_on`` is answered."""
        del self.consumers[consumer.name]
        return self._do_later(self._let_go(consumer))

    def _let_go(self, consumer: Consumer) -> Iterator[None]:
        """Take what a consumer has off the PEL, and yield now and then."""
        pel = self.pel
        blocks = consumer.blocks
        consumer.order = None
        while blocks:
            block = blocks.pop()
            ids, live = block.ids, block.live
            while ids and live:
                some = ids[-CHUNK:]
                del ids[-CHUNK:]
                own = [text for text in some if pel.get(text) is block]
                for text in own:
                    del pel[text]
                self._order.removed(len(own))
                yield
            if live:
                self._release(block, live)

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
        if consumer.order is not None:
            consumer.order.append(ids, last)
            consumer.listed += number

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
        self._will_own(consumer, ids)
        for text in ids:
            block = pel.get(text)
            if block is None:
                self._order.insert(text, parse(text))
            elif block is target:
                continue
            else:
                if block is not previous:
                    if previous is not None:
                        self._release(previous, moved)
                    previous = block
                    moved = 0
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
        if any(block.consumer is not consumer for block in left):
            self._will_own(consumer, ids)
        target = self._new_block(consumer, ms, count, ids[:])
        pel.update(dict.fromkeys(ids, target))
        consumer.pending += len(ids)
        for block, number in left.items():
            self._release(block, number)

    @staticmethod
    def _will_own(consumer: Consumer, ids: list[bytes]) -> None:
        """List ids, some of which may be listed already, in the order of a consumer if somebody has asked for it."""
        order = consumer.order
        if order is None:
            return
        if len(ids) * _ANEW > consumer.pending:
            consumer.order = None
            return
        for text in ids:
            order.insert(text, parse(text))
        consumer.listed += len(ids)

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

    def acknowledge_later(self, pieces: Iterable[list[bytes]]) -> Callable[[], bool]:
        """As ``acknowledge`` of distinct ids, bit by bit: the group is a ``BusyGroup`` now, whose ``go_on`` is answered."""

        def let_go() -> Iterator[None]:
            for ids in pieces:
                self.acknowledge(ids)
                yield

        return self._do_later(let_go())

    def _do_later(self, work: Iterator[None]) -> Callable[[], bool]:
        self._left = work
        self.__class__ = BusyGroup
        return cast("BusyGroup", self).go_on

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
            if consumer.order is not None and consumer.listed > 2 * consumer.pending + SLACK:
                consumer.order = None
        elif live * 4 < len(block.ids) and len(block.ids) > SLACK:
            pel = self.pel
            block.ids = [text for text in block.ids if pel.get(text) is block]


class BusyGroup(Group):
    """A group with entries that are still to be let go of, though for everybody they are gone already.

    ``go_on`` does that bit by bit. Whoever asks the group for anything before it is done has the rest done at once; so
    nobody need know of this class who does not want to wait instead. When it is done the group is a ``Group`` again.
    """

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        if name in _WHILE_BUSY:
            return super().__getattribute__(name)
        while BusyGroup.go_on(self):
            pass
        return getattr(self, name)

    @property
    def weight(self) -> tuple[int, int]:
        """What is yet to go is counted, too."""
        return len(super().__getattribute__("consumers")), len(super().__getattribute__("pel"))

    def go_on(self) -> bool:
        """Let some hundred entries go; False when there are no more."""
        if type(self) is Group:
            return False  # somebody has asked for the rest
        self.__class__ = Group  # type: ignore[assignment]  # to itself it is as it is
        assert self._left is not None
        for _ in self._left:
            self.__class__ = BusyGroup
            return True
        self._left = None
        return False
