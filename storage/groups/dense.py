"""Books of blocks: entries that are delivered, claimed or acknowledged together cost as much as one.

A delivery makes one block for all its entries, and an entry whose facts change moves to another block; so the cost is
per delivery, not per entry, in time and in memory.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from heapq import merge
from itertools import groupby, islice
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from ..streams.chunk import ids_in
from ..streams.ids import is_ascending
from .books import Books
from .deliveries import MAX_MS, Block, Consumer, Delivery, Facts, IdleOrder
from .pel_pages import blocks_of, numbers_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..streams.chunk import ChunkRun
    from ..streams.tuning import Tuning
    from .deliveries import Filling
    from .pel import Pel
    from .pel_pages import Page, PelRuns, Place

# The reference to its block, its ID if that is not shared with the stream, its share of a page.
_ENTRY_BYTES: Final = 8 + 16 + 2
_CUTS: Final = 128  # looking at a listed ID takes as long as moving so many others in memory
_facts: Final = attrgetter("consumer", "ms", "count")
_by_ms: Final = attrgetter("ms")


class _NewBlocks(dict[tuple[Consumer, int, int], Block]):
    """Blocks by their facts, made when they are asked for."""

    __slots__ = ()

    def __missing__(self, facts: tuple[Consumer, int, int]) -> Block:
        block = self[facts] = Delivery(*facts, 0, 0, 0)
        return block


class Dense(Books):
    """What the PEL has beside an ID is its ``Block``.

    Attributes:
        times: the blocks by delivery time.
    """

    __slots__ = ("times",)

    def __init__(self, pel: Pel, tuning: Tuning) -> None:
        super().__init__(pel, tuning)
        self.times = IdleOrder(tuning.slack)

    @property
    def entry_bytes(self) -> int:
        """As of any books; blocks are not counted."""
        return _ENTRY_BYTES

    def parts(self) -> Iterable[object]:
        """Return PEL and idle order."""
        return self.pel, self.times

    def copy(self, owners: dict[Consumer, Consumer]) -> Dense:
        """As of any books."""
        twins: dict[Facts, Facts] = {}
        new_blocks: list[Block] = []
        for block in self.times.until(MAX_MS) or ():
            owner = owners[block.consumer]
            new = twins[block] = block.copy(owner)
            owner.add(new)
            owner.pending += new.live
            new_blocks.append(new)
        twin = Dense(self.pel.copy(twins), self.tuning)
        for new in new_blocks:
            twin.times.add(new)
        twin.times.moved_ms = self.times.moved_ms
        return twin

    def fill(self, pending: Iterable[Filling]) -> Iterator[None]:
        """As ``Group.fill``."""
        blocks = _NewBlocks()
        spread: dict[Block, None] = {}  # over more than one page
        pel = self.pel
        for ms, seq, facts in pending:
            of_each = list(map(blocks.__getitem__, facts))
            pel.extend(ms, seq, of_each)
            last = dict(zip(of_each, range(len(of_each)), strict=True))
            for block, number in Counter(of_each).items():
                if block.live:
                    spread[block] = None
                else:
                    at = of_each.index(block)
                    block.first = ms[at] << 64 | seq[at]
                at = last[block]
                block.last = ms[at] << 64 | seq[at]
                block.size += number
                block.live += number
            yield
        scattered: dict[Facts | None, list[int]] = {}
        for block in sorted(blocks.values(), key=_by_ms):
            block.consumer.add(block)
            block.consumer.pending += block.live
            self.times.add(block)
            if block in spread and not pel.are_close(block.first, block.last, block.live):
                scattered[block] = []
        for page, start, stop in pel.spans() if scattered else ():
            for at, facts_there in enumerate(page.blocks[start:stop], start):
                if facts_there in scattered:
                    scattered[facts_there].append(page.number(at))
            yield
        for block in blocks.values():
            if block in scattered:
                block.enlist(scattered[block])
                yield

    def adopt(self, entries: list[tuple[int, Facts]]) -> None:
        """Take entries over from other books, whose facts were not shared: IDs in the order of their turns.

        They are in the PEL, and counted by their consumers.
        """
        for (consumer, ms, count), run in groupby(entries, lambda entry: _facts(entry[1])):
            numbers = [number for number, _ in run]
            first, last, size = min(numbers), max(numbers), len(numbers)
            block = self._new_block(consumer, ms, count, first, last, size)
            if not (is_ascending(numbers) and self.pel.are_close(first, last, size)):
                block.enlist(numbers)
            for number in numbers:
                self.pel.put(number, block)

    # Entries come and move

    def deliver(
        self, consumer: Consumer, pieces: list[ChunkRun], number: int, after: int, last: int, now: int
    ) -> None:
        """As of any books: the newest delivery grows if it has the same facts."""
        pel = self.pel
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
            and (self.times.moved_ms < now or block is self.times.newest)
        ):
            block.last = last
            block.size += number
            block.live += number
        else:
            block = Delivery(consumer, now, 1, last if number == 1 else after + 1, last, number)
            consumer.add(block)
            consumer.since = pel.appended
            self.times.add(block)
        pel.append(pieces, [block] * number, last)
        consumer.pending += number
        if consumer.order is not None:
            consumer.order.append(list(ids_in(pieces)))

    def assign(self, consumer: Consumer, numbers: list[int], ms: int, count: int) -> None:
        """As of any books."""
        self.will_own(consumer, numbers)
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
                self.release(block, gone)

    def reassign(
        self, consumer: Consumer, places: PelRuns, ms: int, count: int, facts: list[Facts] | None = None
    ) -> None:
        """As of any books."""
        if len(places) == 1 and len(places[0][1]) == 1:
            self.take(consumer, places[0][0], places[0][1][0], ms, count)
            return
        blocks = blocks_of(places) if facts is None else facts
        number = len(blocks)
        left = {blocks[0]: number} if blocks.count(blocks[0]) == number else Counter(blocks)
        if consumer.order is not None and any(block.consumer is not consumer for block in left):
            self.will_own(consumer, numbers_of(places))
        (page, positions), (last_page, last_positions) = places[0], places[-1]
        at, end = positions[0], last_positions[-1]
        first, last = page.ms[at] << 64 | page.seq[at], last_page.ms[end] << 64 | last_page.seq[end]
        are_runs = all(type(each) is range for _, each in places)
        target = self._new_block(consumer, ms, count, first, last, number)
        if are_runs:
            if len(places) > 1 and not self.pel.are_close(first, last, number):
                target.enlist(numbers_of(places))
        elif not is_ascending(listed := numbers_of(places)) or not self.pel.are_close(first, last, number):
            target.enlist(listed)
        for page, positions in places:
            page.fill(positions, target)
        consumer.pending += number
        for block, gone in left.items():
            self.release(block, gone)

    def take(
        self, consumer: Consumer, page: Page, at: int, ms: int, count: int, target: Facts | None = None
    ) -> Block:
        """As of any books."""
        before = page.blocks[at]
        assert before is not None
        number = page.ms[at] << 64 | page.seq[at]
        if consumer.order is not None and before.consumer is not consumer:
            self.will_own(consumer, [number])
        if target is not None and target.count == count:
            if TYPE_CHECKING:
                assert isinstance(target, Block)
            block = target
            block.join(number)
        else:
            block = self._new_block(consumer, ms, count, number, number, 1)
        page.blocks[at] = block
        consumer.pending += 1
        self.release(before, 1)
        return block

    def _new_block(
        self, consumer: Consumer, ms: int, count: int, first: int, last: int, number: int
    ) -> Block:
        """A block listed everywhere; it counts as living at once, for dead ones may be dropped at any time."""
        block = Block(consumer, ms, count, first, last, number)
        consumer.add(block)
        self.times.add(block)
        if ms > self.times.moved_ms:  # noqa: PLR1730 - a call of max() costs more
            self.times.moved_ms = ms
        return block

    def _shared_block(self, consumer: Consumer, number: int, ms: int, count: int) -> Block | None:
        """The newest block, if it has the same facts and may take the ID; it has it then, and one entry more."""
        block = self.times.newest
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

    # Entries go

    def release(self, facts: Facts, count: int) -> None:
        """As of any books."""
        if TYPE_CHECKING:
            assert isinstance(facts, Block)
        block = facts
        block.live = live = block.live - count
        consumer = block.consumer
        consumer.pending -= count
        if not live:
            block.ids = None
            self.times.died()
            if consumer.order is not None:
                consumer.forget_waste(self.tuning.slack)
        elif live * 4 < block.size and block.size > self.tuning.slack:
            self._tidy(block)

    def _tidy(self, block: Block) -> None:
        """Forget where entries of a block were that went elsewhere."""
        if block.ids is None and self.pel.are_close(block.first, block.last, block.live):
            block.size = block.live
        else:
            block.enlist(self.pel.numbers(block))

    def acknowledge_all(self, ids: list[bytes]) -> int | None:
        """As of any books."""
        if len(ids) == 1:
            ms, _, seq = ids[0].partition(b"-")
            # Up to 19 digits cannot exceed 64 bits: this is an ID, pending or not.
            if not (ms.isdigit() and seq.isdigit() and len(ms) < 20 > len(seq)):
                return None
            only = self.pel.take(int(ms), int(seq))
            if only is None:
                return 0
            self.release(only, 1)
            return 1
        blocks = self.pel.take_all(ids)
        if blocks is None:
            return None
        number = len(blocks)
        # Mostly what was read at once is acknowledged at once.
        if blocks.count(blocks[0]) == number:
            self.release(blocks[0], number)
        elif number < self.tuning.together:
            for block in blocks:
                self.release(block, 1)
        else:
            for block, count in Counter(blocks).items():
                self.release(block, count)
        return number

    def let_go(self, consumer: Consumer) -> Iterator[None]:
        """As of any books."""
        consumer.order = None
        while consumer.blocks:
            block = consumer.blocks.pop()
            live = left = block.live
            while left:
                numbers = self._some_of(block)
                for number in numbers:
                    self.pel.remove(number)
                left -= len(numbers)
                yield
            if live:
                self.release(block, live)

    def _some_of(self, block: Block) -> list[int]:
        """Some of what a block has, which will not be looked for there again."""
        if block.ids is not None:
            return [number for number in block.unlist(self.tuning.piece) if self.pel.at(number) is block]
        numbers = list(islice(self.pel.numbers(block), self.tuning.piece))
        block.first = numbers[-1] + 1
        return numbers

    # Searching by time

    def oldest(self, latest: int) -> Iterator[Place]:
        """As of any books."""
        for _, turn in groupby(self.times.oldest(latest), _turn):
            blocks = list(turn)
            if len(blocks) == 1:
                yield from self._own(blocks[0])
            elif len(blocks) <= self.tuning.merged:
                yield from merge(*map(partial(self._own), blocks), key=_number)
            else:
                yield from self._together(blocks)

    def _together(self, blocks: list[Block]) -> Iterator[Place]:
        """The entries of many deliveries in ID order."""
        first = min([block.first for block in blocks])
        these: set[Facts | None] = set(blocks)
        for page, start, stop in self.pel.spans(first, max([block.last for block in blocks])):
            for at, block in enumerate(page.blocks[start:stop], start):
                if block in these:
                    yield page, at

    def _own(self, block: Block) -> Iterator[Place]:
        """The entries of one block in the order in which they came."""
        pel = self.pel
        # They are mostly taken from the front: what is gone there is not looked at again and again.
        if block.ids is None:
            places = pel.of_block(block)
            first = next(places)
            block.first = _number(first)
            yield first
            yield from places
            return
        if block.live < block.size:
            gone = next(at for at, number in enumerate(block.listed(block.ids)) if pel.at(number) is block)
            if gone * gone * _CUTS > block.size:
                del block.ids[: 2 * gone]
                block.size -= gone
        yield from pel.of_block(block)

    def oldest_ms(self) -> int | None:
        """As of any books."""
        return next((block.ms for block in self.times.oldest(MAX_MS)), None)

    def few_idle(self, latest: int, few: int) -> list[tuple[int, Facts]] | None:
        """As of any books."""
        old = self.times.until(latest, few)
        if old is None or sum([block.live for block in old]) > few:
            return None
        return [(number, block) for block in old for number in self._listed(block)]

    def _listed(self, block: Block) -> Iterable[int]:
        """The IDs of a block, and perhaps some that were its own."""
        return self.pel.numbers(block) if block.ids is None else block.listed(block.ids)

    def numbers_of(self, consumer: Consumer) -> list[int]:
        """As of any books."""
        pel = self.pel
        if consumer.pending * self.tuning.large_part > len(pel):
            return self.all_of(consumer)
        return sorted(number for block in consumer.blocks if block.live for number in pel.numbers(block))

    def check_invariants(self, owners: dict[int, Consumer]) -> None:
        """As of any books."""
        self.times.check_invariants()
        live = Counter(facts for _, facts in self.pel.listed())
        blocks = self.times.until(MAX_MS) or []
        assert len(blocks) == len(live)
        for block in blocks:
            assert block.live == live[block] <= block.size
            assert owners[id(block.consumer)] is block.consumer
        for consumer in owners.values():
            own = [block for block in consumer.blocks if block.live]
            assert all(block.consumer is consumer for block in own)
            assert consumer.pending == sum([block.live for block in own])


def _turn(block: Block) -> int | Block:
    """Equal for deliveries of one millisecond, which take their turn together."""
    return block.ms if type(block) is Delivery else block


def _number(place: Place) -> int:
    return place[0].number(place[1])
