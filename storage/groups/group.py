"""A consumer group: its place in the stream, its consumers, and what was delivered and not yet acknowledged."""

from __future__ import annotations

from collections import Counter, deque
from itertools import groupby, islice
from typing import TYPE_CHECKING, Final

from ..freeing import Freeable
from ..streams.chunk import ids_in
from ..streams.ids import MAX_COUNT, is_ascending
from ..streams.tuning import DEFAULT
from .deliveries import MAX_MS, NEVER, UNOWNED_MS, Block, Consumer, Delivery, TimeOrder
from .lag import entries_read_after, lag
from .pel import Pel
from .pel_pages import blocks_of, numbers_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ..streams.chunk import Piece
    from ..streams.stream import Stream
    from ..streams.tuning import Tuning
    from .pel_pages import Page, Places

_FEW: Final = 64  # consumers or pending entries that are freed at once


class Group(Freeable):
    """One group of a stream.

    The PEL has the block of each pending entry: consumer, delivery time, count. A delivery makes one block for all
    its entries, and an entry whose facts change moves to another block; so the cost is per delivery, not per entry.

    Attributes:
        last_id: last delivered ID (int).
        entries_read: how many entries were delivered in all, None if unknown.
        pending_cleanup: what is left of the removal of very many pending entries, None if there is nothing. Callers
            never see these entries: ``pel`` and ``consumers`` finish the removal first. A caller that prefers to wait
            calls ``clean_up_some`` now and then, or leaves that to the background.
        tuning: sizes and thresholds.
        unowned: a stand-in with an empty name for the owner of the entries given back by XNACK. Its ``pending`` is
            their number; it is none of the ``consumers``.
    """

    __slots__ = (
        "_consumers",
        "_pel",
        "_times",
        "entries_read",
        "last_id",
        "pending_cleanup",
        "tuning",
        "unowned",
    )

    def __init__(self, last_id: int = 0, entries_read: int | None = None, tuning: Tuning = DEFAULT) -> None:
        self.tuning = tuning
        self.last_id = last_id
        self.entries_read = entries_read
        self._consumers: dict[bytes, Consumer] = {}
        self._pel = Pel(tuning)
        self.unowned = Consumer(b"", NEVER, NEVER, tuning.slack)
        self._times = TimeOrder(tuning.slack)
        self.pending_cleanup: Iterator[None] | None = None

    @property
    def pel(self) -> Pel:
        """All pending entries; to be read only, changes go through the methods of the group."""
        if self.pending_cleanup is not None:
            self.finish_cleanup()
        return self._pel

    @property
    def consumers(self) -> dict[bytes, Consumer]:
        """The consumers by name; they are added and removed through the methods of the group."""
        if self.pending_cleanup is not None:
            self.finish_cleanup()
        return self._consumers

    @property
    def times(self) -> TimeOrder:
        """The blocks by delivery time."""
        if self.pending_cleanup is not None:
            self.finish_cleanup()
        return self._times

    def prepare_to_free(self) -> bool:
        """Do a step of the cleanup that is pending."""
        return self.clean_up_some()

    def is_small(self) -> bool:
        """Return whether it has few consumers and pending entries."""
        return max(self.weight) < _FEW

    def parts(self) -> Iterable[object]:
        """Return consumers, PEL and idle order."""
        return self._consumers, self.unowned, self._pel, self._times

    def __iter__(self) -> Iterator[tuple[int, Consumer, int, int]]:
        """Every pending entry in ID order: (ID, consumer, delivery ms, count).

        Those without owner have the consumer ``unowned`` and the time ``deliveries.UNOWNED_MS``.
        """
        for page, start, stop in self.pel.spans():
            for at, block in enumerate(page.blocks[start:stop], start):
                if block is not None:
                    yield page.number(at), block.consumer, block.ms, block.count

    def copy(self) -> Group:
        """A group of the same state that shares nothing that changes."""
        twin = Group(self.last_id, self.entries_read, self.tuning)
        for consumer in self.consumers.values():
            twin.create_consumer(consumer.name, consumer.seen_ms, consumer.active_ms)
        twins: dict[Block, Block] = {}
        for block in self._times.until(MAX_MS) or ():
            owner = twin.unowned if block.consumer is self.unowned else twin.consumers[block.consumer.name]
            new = twins[block] = block.copy(owner)
            owner.add(new)
            owner.pending += new.live
            twin._times.add(new)
        twin._times.moved_ms = self._times.moved_ms
        twin._pel = self._pel.copy(twins)
        return twin

    def fill(self, pending: Iterable[tuple[int, tuple[Consumer, int, int]]]) -> Iterator[None]:
        """Let entries be pending in a group that has none yet, as a loader knows them.

        Yields now and then; the group can be used only when it is through.

        Args:
            pending: IDs in order, and of each its consumer, delivery time (ms) and count.
        """
        blocks: dict[tuple[Consumer, int, int], Block] = {}
        pel = self.pel
        entries = iter(pending)
        while some := list(islice(entries, self.tuning.page)):
            of_each: list[Block] = []
            for number, facts in some:
                block = blocks.get(facts)
                if block is None:
                    block = blocks[facts] = Delivery(*facts, number, number, 0)
                block.add(number)
                of_each.append(block)
            pel.extend([number for number, _ in some], of_each)
            yield
        scattered: dict[Block, list[int]] = {}
        for block in sorted(blocks.values(), key=lambda block: block.ms):
            block.consumer.add(block)
            block.consumer.pending += block.live
            self._times.add(block)
            if not pel.are_close(block.first, block.last, block.live):
                scattered[block] = []
        for page, start, stop in pel.spans() if scattered else ():
            for at, block in enumerate(page.blocks[start:stop], start):
                if block in scattered:
                    scattered[block].append(page.number(at))
            yield
        for block, numbers in scattered.items():
            block.enlist(numbers)
            yield

    @property
    def weight(self) -> tuple[int, int]:
        """How many consumers and pending entries take memory, those that are still to be removed among them."""
        return len(self._consumers), len(self._pel)

    # Place in the stream

    def lag(self, stream: Stream) -> int | None:
        """How many entries of the stream wait to be delivered, None if that is not known."""
        return lag(stream, self.last_id, self.entries_read)

    def has_nothing_for(self, name: bytes, stream: Stream) -> bool:
        """Return whether a consumer exists and its next read of new entries would find none."""
        return self.last_id >= stream.last_id and name in self.consumers

    def advance(self, stream: Stream, pieces: list[Piece], number: int, last: int) -> None:
        """Entries are being delivered for the first time: move ``last_id`` and count them as read.

        Args:
            stream: the group's stream.
            pieces: the entries, all that the stream has between ``last_id`` and ``last``.
            number: how many these are.
            last: the last of them.
        """
        read = self.entries_read
        if read is not None and self.last_id >= stream.first_id and not stream.max_deleted_id:
            self.entries_read = min(read + number, MAX_COUNT)
        else:
            self.entries_read = entries_read_after(stream, self.last_id, read, pieces, number)
        self.last_id = last

    # Consumers

    def create_consumer(self, name: bytes, seen_ms: int, active_ms: int = NEVER) -> Consumer:
        """Add a consumer that does not exist yet."""
        consumer = self.consumers[name] = Consumer(name, seen_ms, active_ms, self.tuning.slack)
        return consumer

    def delete_consumer(self, consumer: Consumer) -> int:
        """Remove a consumer with its pending entries; answers how many those were."""
        dropped = consumer.pending
        del self.consumers[consumer.name]
        deque(self._let_go(consumer), 0)
        return dropped

    def delete_consumer_later(self, consumer: Consumer) -> Callable[[], bool]:
        """As ``delete_consumer``, but the entries are removed in steps; returns ``clean_up_some``."""
        del self.consumers[consumer.name]
        return self._clean_up_later(self._let_go(consumer))

    def clean_up_some(self) -> bool:
        """Remove some hundred entries of ``pending_cleanup``; False when there are no more."""
        work = self.pending_cleanup
        if work is None:
            return False
        self.pending_cleanup = None  # the step itself uses the methods of the group
        for _ in work:
            self.pending_cleanup = work
            return True
        return False

    def finish_cleanup(self) -> None:
        """Remove all that is left of ``pending_cleanup``."""
        while self.clean_up_some():
            pass

    def _clean_up_later(self, work: Iterator[None]) -> Callable[[], bool]:
        self.finish_cleanup()
        self.pending_cleanup = work
        return self.clean_up_some

    def _let_go(self, consumer: Consumer) -> Iterator[None]:
        """Take what a consumer has off the PEL, and yield now and then."""
        consumer.order = None
        while consumer.blocks:
            block = consumer.blocks.pop()
            live = left = block.live
            while left:
                numbers = self._some_of(block)
                deque(map(self.pel.remove, numbers), 0)
                left -= len(numbers)
                yield
            if live:
                self._release(block, live)

    def _some_of(self, block: Block) -> list[int]:
        """Some of what a block has, which will not be looked for there again."""
        if block.ids is not None:
            return [number for number in block.unlist(self.tuning.piece) if self.pel.at(number) is block]
        numbers = list(islice(self.pel.numbers(block), self.tuning.piece))
        block.first = numbers[-1] + 1
        return numbers

    # Entries come, move and go

    def deliver(
        self, consumer: Consumer, pieces: list[Piece], number: int, after: int, last: int, now: int
    ) -> None:
        """New entries are delivered to a consumer for the first time.

        Args:
            consumer: who gets them.
            pieces: the entries as they stand in the stream, ascending.
            number: how many these are.
            after: all their IDs are greater than this ID.
            last: the last of them.
            now: delivery time in milliseconds.
        """
        if self.pending_cleanup is not None:
            self.finish_cleanup()
        pel = self._pel
        if after < pel.highest:
            # The group was set back or entries were claimed by FORCE: some may be pending already.
            self.assign(consumer, list(ids_in(pieces)), now, 1)
            return
        blocks = consumer.blocks
        block = blocks[-1] if blocks else None
        if (
            block is not None
            and block.ms == now
            and block.live
            and type(block) is Delivery
            and block.count == 1
            and block.ids is None
            and pel.appended - consumer.since < self.tuning.wide + self.tuning.dense * block.size
            and (self._times.moved_ms < now or block is self._times.newest)
        ):
            block.last = last
            block.size += number
            block.live += number
        else:
            block = Delivery(consumer, now, 1, last if number == 1 else after + 1, last, number)
            consumer.add(block)
            consumer.since = pel.appended
            self._times.add(block)
        pel.append(pieces, block, last)
        consumer.pending += number
        if consumer.order is not None:
            consumer.order.append(list(ids_in(pieces)))

    def assign(self, consumer: Consumer, numbers: list[int], ms: int, count: int) -> None:
        """Let entries be pending with a consumer, whether they are pending already or not.

        Args:
            consumer: the owner from now on.
            numbers: distinct IDs in any order.
            ms: delivery time.
            count: delivery counter.
        """
        self._will_own(consumer, numbers)
        put = self.pel.put
        target = self._shared_block(consumer, numbers[0], ms, count) if len(numbers) == 1 else None
        if target is None:
            target = self._new_block(consumer, ms, count, min(numbers), max(numbers), len(numbers))
            if len(numbers) > 1:
                target.enlist(numbers)
        left = Counter([put(number, target) for number in numbers])
        consumer.pending += len(numbers)
        for block, gone in left.items():
            if block is not None:
                self._release(block, gone)

    def reassign(
        self, consumer: Consumer, places: Places, ms: int, count: int, blocks: list[Block] | None = None
    ) -> None:
        """As ``assign``, for entries that are pending already; no place may be named twice.

        A caller that knows the blocks of these entries passes them.
        """
        if len(places) == 1 and len(places[0][1]) == 1:
            self.take(consumer, places[0][0], places[0][1][0], ms, count)
            return
        if blocks is None:
            blocks = blocks_of(places)
        number = len(blocks)
        left = {blocks[0]: number} if blocks.count(blocks[0]) == number else Counter(blocks)
        if consumer.order is not None and any(block.consumer is not consumer for block in left):
            self._will_own(consumer, numbers_of(places))
        (page, positions), (last_page, last_positions) = places[0], places[-1]
        at, end = positions[0], last_positions[-1]
        first, last = page.ms[at] << 64 | page.seq[at], last_page.ms[end] << 64 | last_page.seq[end]
        are_runs = all(type(each) is range for _, each in places)
        target = self._new_block(consumer, ms, count, first, last, number)
        if are_runs:
            if len(places) > 1 and not self._pel.are_close(first, last, number):
                target.enlist(numbers_of(places))
        elif not is_ascending(listed := numbers_of(places)) or not self._pel.are_close(first, last, number):
            target.enlist(listed)
        self._pel.move(places, target)
        consumer.pending += number
        for block, gone in left.items():
            self._release(block, gone)

    def take(
        self, consumer: Consumer, page: Page, at: int, ms: int, count: int, target: Block | None = None
    ) -> Block:
        """As ``reassign``, for one entry that is pending, at a place of a page; returns its block.

        ``target`` is the block that the entry before it in the same claim got: entries with the same counter share it.
        """
        block = page.blocks[at]
        assert block is not None
        number = page.ms[at] << 64 | page.seq[at]
        if consumer.order is not None and block.consumer is not consumer:
            self._will_own(consumer, [number])
        if target is not None and target.count == count:
            target.join(number)
        else:
            target = self._new_block(consumer, ms, count, number, number, 1)
        page.blocks[at] = target
        consumer.pending += 1
        self._release(block, 1)
        return target

    def _will_own(self, consumer: Consumer, numbers: list[int]) -> None:
        """List IDs, some of which may be listed already, in the order of a consumer if somebody has asked for it."""
        order = consumer.order
        if order is None:
            return
        if len(numbers) * self.tuning.reorder_part > consumer.pending:
            consumer.order = None
            return
        for number in numbers:
            order.insert(number)

    def reassign_each(self, consumer: Consumer, places: Places, ms: int, counts: list[int]) -> None:
        """As ``reassign``, each entry with its own delivery counter."""
        if not places:
            return
        if counts.count(counts[0]) == len(counts):
            self.reassign(consumer, places, ms, counts[0])
            return
        target: Block | None = None
        following = iter(counts)
        for page, positions in places:
            for at in positions:
                target = self.take(consumer, page, at, ms, next(following), target)

    def assign_each(self, consumer: Consumer, numbers: list[int], ms: int, counts: list[int]) -> None:
        """As ``assign``, each ID with its own delivery counter."""
        if len(numbers) == 1:
            self.assign(consumer, numbers, ms, counts[0])
            return
        at = 0
        for count, run in groupby(counts):
            size = len(list(run))
            self.assign(consumer, numbers[at : at + size], ms, count)
            at += size

    def give_back(self, numbers: list[int], counts: list[int]) -> None:
        """Take entries from their owners (XNACK): they go, in this order, to the end of those that wait for anybody.

        Args:
            numbers: distinct IDs; those that are not pending become so.
            counts: the delivery counter of each.
        """
        self.assign_each(self.unowned, numbers, UNOWNED_MS, counts)

    def add_pending(self, stream_id: int, consumer: Consumer, ms: int, count: int) -> None:
        """Let one entry be pending with given facts, as a loader knows them."""
        self.assign(consumer, [stream_id], ms, count)

    def acknowledge(self, numbers: Iterable[int]) -> int:
        """Take entries off the PEL; answers how many were there."""
        gone = 0
        for block, count in Counter(map(self.pel.remove, numbers)).items():
            if block is not None:
                self._release(block, count)
                gone += count
        return gone

    def acknowledge_places(self, places: Places) -> None:
        """Take entries off the PEL that are known to be there; none of the places is good any more."""
        blocks = blocks_of(places)
        self._pel.clear(places)
        number = len(blocks)
        # Mostly what was read at once is acknowledged at once.
        if blocks.count(blocks[0]) == number:
            self._release(blocks[0], number)
            return
        for block, count in Counter(blocks).items():
            self._release(block, count)

    def acknowledge_later(self, pieces: Iterable[list[Piece]]) -> Callable[[], bool]:
        """Take distinct entries off the PEL in steps; returns ``clean_up_some``."""

        def let_go() -> Iterator[None]:
            for some in pieces:
                places = self.pel.match(some)
                if places is None:
                    self.acknowledge(ids_in(some))
                elif places:
                    self.acknowledge_places(places)
                yield

        return self._clean_up_later(let_go())

    def acknowledge_all(self, ids: list[bytes]) -> bool:
        """Take entries off the PEL if all these words are pending ids, and none is repeated; else do nothing: False."""
        if self.pending_cleanup is not None:
            self.finish_cleanup()
        if len(ids) == 1:
            only = self._pel.pop(ids[0])
            if only is None:
                return False
            self._release(only, 1)
            return True
        places = self._pel.places(ids)
        if places is None:
            return False
        self.acknowledge_places(places)
        return True

    def _new_block(
        self, consumer: Consumer, ms: int, count: int, first: int, last: int, number: int
    ) -> Block:
        """A block listed everywhere; it counts as living at once, for dead ones may be dropped at any time."""
        block = Block(consumer, ms, count, first, last, number)
        consumer.add(block)
        self._times.add(block)
        if ms > self._times.moved_ms:  # noqa: PLR1730 - a call of max() costs more
            self._times.moved_ms = ms
        return block

    def _shared_block(self, consumer: Consumer, number: int, ms: int, count: int) -> Block | None:
        """The newest block, if it has the same facts and may take the ID; it has it then, and one entry more."""
        block = self._times.newest
        if block is None or block.consumer is not consumer or not block.live or type(block) is Delivery:
            return None
        if block.ms != ms or block.count != count or block.size >= self.tuning.slack:
            return None
        if block.ids is None:
            if number <= block.last:
                return None
            if not self.pel.would_follow(number, block.last):
                block.enlist(self.pel.numbers(block))
        elif number in block.listed(block.ids):
            return None
        block.add(number)
        return block

    def _release(self, block: Block, count: int) -> None:
        """So many entries have left a block."""
        block.live = live = block.live - count
        block.consumer.pending -= count
        if not live:
            block.ids = None
            self._times.died()
            consumer = block.consumer
            if (
                consumer.order is not None
                and consumer.order.listed > 2 * consumer.pending + self.tuning.slack
            ):
                consumer.order = None
        elif live * 4 < block.size and block.size > self.tuning.slack:
            self._tidy(block)

    def _tidy(self, block: Block) -> None:
        """Forget where entries of a block were that went elsewhere."""
        if block.ids is None and self.pel.are_close(block.first, block.last, block.live):
            block.size = block.live
        else:
            block.enlist(self.pel.numbers(block))

    def check_invariants(self) -> None:
        """Assert that PEL, blocks, order by time and consumers agree; for tests. It finishes ``pending_cleanup``."""
        self.pel.check_invariants()
        self._times.check_invariants()
        pending = list(self._pel.listed())
        live = Counter(block for _, block in pending)
        blocks = self._times.until(MAX_MS) or []
        assert len(blocks) == len(live)
        owners = {id(consumer): consumer for consumer in (self.unowned, *self._consumers.values())}
        for block in blocks:
            assert block.live == live[block] <= block.size
            assert owners[id(block.consumer)] is block.consumer
            assert (block.ms == UNOWNED_MS) == (block.consumer is self.unowned)
        for consumer in owners.values():
            own = [block for block in consumer.blocks if block.live]
            assert all(block.consumer is consumer for block in own)
            assert consumer.pending == sum([block.live for block in own])
            if consumer.order is not None:
                consumer.order.check_invariants({at for at, block in pending if block.consumer is consumer})
        assert len(self._pel) == sum([consumer.pending for consumer in owners.values()])
