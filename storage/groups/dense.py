"""Books of batches: entries that are delivered, claimed or acknowledged together cost as much as one.

A delivery makes one batch for all its entries, and an entry whose facts change moves to another batch; so the cost is
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
from .deliveries import MAX_MS, Consumer, Delivery, DeliveryBatch, Facts, IdleOrder
from .pel_pages import batches_of, numbers_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ..streams.chunk import ChunkRun
    from ..streams.tuning import Tuning
    from .deliveries import Filling
    from .pel import Pel
    from .pel_pages import Page, PelRuns, Place

# The reference to its batch, its ID if that is not shared with the stream, its share of a page.
_ENTRY_BYTES: Final = 8 + 16 + 2
_CUTS: Final = 128  # looking at a listed ID takes as long as moving so many others in memory
_facts: Final = attrgetter("consumer", "ms", "count")
_by_ms: Final = attrgetter("ms")


class _NewBatches(dict[tuple[Consumer, int, int], DeliveryBatch]):
    """Batches by their facts, made when they are asked for."""

    __slots__ = ()

    def __missing__(self, facts: tuple[Consumer, int, int]) -> DeliveryBatch:
        batch = self[facts] = Delivery(*facts, 0, 0, 0)
        return batch


class Dense(Books):
    """What the PEL has beside an ID is its ``DeliveryBatch``.

    Attributes:
        times: the batches by delivery time.
    """

    __slots__ = ("times",)

    def __init__(self, pel: Pel, tuning: Tuning) -> None:
        super().__init__(pel, tuning)
        self.times = IdleOrder(tuning.slack)

    @property
    def entry_bytes(self) -> int:
        """As of any books; batches are not counted."""
        return _ENTRY_BYTES

    def parts(self) -> Iterable[object]:
        """Return PEL and idle order."""
        return self.pel, self.times

    def copy(self, owners: dict[Consumer, Consumer]) -> Dense:
        """As of any books."""
        twins: dict[Facts, Facts] = {}
        new_batches: list[DeliveryBatch] = []
        for batch in self.times.until(MAX_MS) or ():
            owner = owners[batch.consumer]
            new = twins[batch] = batch.copy(owner)
            owner.add(new)
            owner.pending += new.live
            new_batches.append(new)
        twin = Dense(self.pel.copy(twins), self.tuning)
        for new in new_batches:
            twin.times.add(new)
        twin.times.moved_ms = self.times.moved_ms
        return twin

    def fill(self, pending: Iterable[Filling]) -> Iterator[None]:
        """As ``Group.fill``."""
        batches = _NewBatches()
        spread: dict[DeliveryBatch, None] = {}  # over more than one page
        pel = self.pel
        for ms, seq, facts in pending:
            of_each = list(map(batches.__getitem__, facts))
            pel.extend(ms, seq, of_each)
            last = dict(zip(of_each, range(len(of_each)), strict=True))
            for batch, number in Counter(of_each).items():
                if batch.live:
                    spread[batch] = None
                else:
                    at = of_each.index(batch)
                    batch.first = ms[at] << 64 | seq[at]
                at = last[batch]
                batch.last = ms[at] << 64 | seq[at]
                batch.size += number
                batch.live += number
            yield
        scattered: dict[Facts | None, list[int]] = {}
        for batch in sorted(batches.values(), key=_by_ms):
            batch.consumer.add(batch)
            batch.consumer.pending += batch.live
            self.times.add(batch)
            if batch in spread and not pel.are_close(batch.first, batch.last, batch.live):
                scattered[batch] = []
        for page, start, stop in pel.spans() if scattered else ():
            for at, facts_there in enumerate(page.batches[start:stop], start):
                if facts_there in scattered:
                    scattered[facts_there].append(page.number(at))
            yield
        for batch in batches.values():
            if batch in scattered:
                batch.enlist(scattered[batch])
                yield

    def adopt(self, entries: list[tuple[int, Facts]]) -> None:
        """Take entries over from other books, whose facts were not shared: IDs in the order of their turns.

        They are in the PEL, and counted by their consumers.
        """
        for (consumer, ms, count), run in groupby(entries, lambda entry: _facts(entry[1])):
            numbers = [number for number, _ in run]
            first, last, size = min(numbers), max(numbers), len(numbers)
            batch = self._new_batch(consumer, ms, count, first, last, size)
            if not (is_ascending(numbers) and self.pel.are_close(first, last, size)):
                batch.enlist(numbers)
            for number in numbers:
                self.pel.put(number, batch)

    # Entries come and move

    def deliver(
        self, consumer: Consumer, pieces: list[ChunkRun], number: int, after: int, last: int, now: int
    ) -> None:
        """As of any books: the newest delivery grows if it has the same facts."""
        pel = self.pel
        batches = consumer.batches
        batch = batches[-1] if batches else None
        if (
            batch is not None
            and batch.ms == now
            and batch.live
            and type(batch) is Delivery
            and batch.count == 1
            and batch.ids is None
            and pel.appended - consumer.since < self.tuning.wide + self.tuning.dense * batch.size
            and (self.times.moved_ms < now or batch is self.times.newest)
        ):
            batch.last = last
            batch.size += number
            batch.live += number
        else:
            batch = Delivery(consumer, now, 1, last if number == 1 else after + 1, last, number)
            consumer.add(batch)
            consumer.since = pel.appended
            self.times.add(batch)
        one: list[Facts | None] = [batch]  # mostly of one piece: a comprehension is 3 % of a small read
        facts = [one * number] if len(pieces) == 1 else [one * (stop - start) for _, start, stop in pieces]
        pel.append(pieces, facts, last)
        consumer.pending += number
        if consumer.order is not None:
            consumer.order.append(list(ids_in(pieces)))

    def assign(self, consumer: Consumer, numbers: list[int], ms: int, count: int) -> None:
        """As of any books."""
        self.will_own(consumer, numbers)
        put = self.pel.put
        target = self._shared_batch(consumer, numbers[0], ms, count) if len(numbers) == 1 else None
        if target is None:
            target = self._new_batch(consumer, ms, count, min(numbers), max(numbers), len(numbers))
            if len(numbers) > 1:
                target.enlist(numbers)
        left = Counter([put(number, target) for number in numbers])
        consumer.pending += len(numbers)
        for batch, gone in left.items():
            if batch is not None:
                self.release(batch, gone)

    def reassign(
        self, consumer: Consumer, places: PelRuns, ms: int, count: int, facts: list[Facts] | None = None
    ) -> None:
        """As of any books."""
        if len(places) == 1 and len(places[0][1]) == 1:
            self.take(consumer, places[0][0], places[0][1][0], ms, count)
            return
        batches = batches_of(places) if facts is None else facts
        number = len(batches)
        left = {batches[0]: number} if batches.count(batches[0]) == number else Counter(batches)
        if consumer.order is not None and any(batch.consumer is not consumer for batch in left):
            self.will_own(consumer, numbers_of(places))
        (page, positions), (last_page, last_positions) = places[0], places[-1]
        at, end = positions[0], last_positions[-1]
        first, last = page.ms[at] << 64 | page.seq[at], last_page.ms[end] << 64 | last_page.seq[end]
        target = self._new_batch(consumer, ms, count, first, last, number)
        if len(places) == 1:
            # As below: the positions in a page ascend as IDs do, and their distance is what ``are_close`` measures.
            if type(positions) is not range and end - at >= self.tuning.dense * (number + 1):
                target.enlist(numbers_of(places))
        elif all(type(each) is range for _, each in places):
            if not self.pel.are_close(first, last, number):
                target.enlist(numbers_of(places))
        elif not is_ascending(listed := numbers_of(places)) or not self.pel.are_close(first, last, number):
            target.enlist(listed)
        for page, positions in places:
            page.fill(positions, target)
        consumer.pending += number
        for batch, gone in left.items():
            self.release(batch, gone)

    def take(
        self, consumer: Consumer, page: Page, at: int, ms: int, count: int, target: Facts | None = None
    ) -> DeliveryBatch:
        """As of any books."""
        before = page.batches[at]
        assert before is not None
        number = page.ms[at] << 64 | page.seq[at]
        if consumer.order is not None and before.consumer is not consumer:
            self.will_own(consumer, [number])
        if target is not None and target.count == count:
            if TYPE_CHECKING:
                assert isinstance(target, DeliveryBatch)
            batch = target
            batch.join(number)
        else:
            batch = self._new_batch(consumer, ms, count, number, number, 1)
        page.batches[at] = batch
        consumer.pending += 1
        self.release(before, 1)
        return batch

    def _new_batch(
        self, consumer: Consumer, ms: int, count: int, first: int, last: int, number: int
    ) -> DeliveryBatch:
        """A batch listed everywhere; it counts as living at once, for dead ones may be dropped at any time."""
        batch = DeliveryBatch(consumer, ms, count, first, last, number)
        consumer.add(batch)
        self.times.add(batch)
        if ms > self.times.moved_ms:  # noqa: PLR1730 - a call of max() costs more
            self.times.moved_ms = ms
        return batch

    def _shared_batch(self, consumer: Consumer, number: int, ms: int, count: int) -> DeliveryBatch | None:
        """The newest batch, if it has the same facts and may take the ID; it has it then, and one entry more."""
        batch = self.times.newest
        if batch is None or batch.consumer is not consumer or not batch.live or type(batch) is Delivery:
            return None
        if batch.ms != ms or batch.count != count or batch.size >= self.tuning.slack:
            return None
        if batch.ids is None:
            if number <= batch.last:
                return None
            if not self.pel.would_follow(number, batch.last):
                batch.enlist(self.pel.numbers(batch))
        elif number in batch.listed(batch.ids):
            return None
        batch.add(number)
        return batch

    # Entries go

    def release(self, facts: Facts, count: int) -> None:
        """As of any books."""
        if TYPE_CHECKING:
            assert isinstance(facts, DeliveryBatch)
        batch = facts
        batch.live = live = batch.live - count
        consumer = batch.consumer
        consumer.pending -= count
        if not live:
            batch.ids = None
            self.times.died()
            if consumer.order is not None:
                consumer.forget_waste(self.tuning.slack)
        elif live * 4 < batch.size and batch.size > self.tuning.slack:
            self._tidy(batch)

    def _tidy(self, batch: DeliveryBatch) -> None:
        """Forget where entries of a batch were that went elsewhere."""
        if batch.ids is None and self.pel.are_close(batch.first, batch.last, batch.live):
            batch.size = batch.live
        else:
            batch.enlist(self.pel.numbers(batch))

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
        batches = self.pel.take_all(ids)
        if batches is None:
            return None
        number = len(batches)
        # Mostly what was read at once is acknowledged at once.
        if batches.count(batches[0]) == number:
            self.release(batches[0], number)
        elif number < self.tuning.together:
            for batch in batches:
                self.release(batch, 1)
        else:
            for batch, count in Counter(batches).items():
                self.release(batch, count)
        return number

    def let_go(self, consumer: Consumer) -> Iterator[None]:
        """As of any books."""
        consumer.order = None
        while consumer.batches:
            batch = consumer.batches.pop()
            live = left = batch.live
            while left:
                numbers = self._some_of(batch)
                for number in numbers:
                    self.pel.remove(number)
                left -= len(numbers)
                yield
            if live:
                self.release(batch, live)

    def _some_of(self, batch: DeliveryBatch) -> list[int]:
        """Some of what a batch has, which will not be looked for there again."""
        if batch.ids is not None:
            return [number for number in batch.unlist(self.tuning.piece) if self.pel.at(number) is batch]
        numbers = list(islice(self.pel.numbers(batch), self.tuning.piece))
        batch.first = numbers[-1] + 1
        return numbers

    # Searching by time

    def oldest(self, latest: int) -> Iterator[Place]:
        """As of any books."""
        for _, turn in groupby(self.times.oldest(latest), _turn):
            batches = list(turn)
            if len(batches) == 1:
                yield from self._own(batches[0])
            elif len(batches) <= self.tuning.merged:
                yield from merge(*map(partial(self._own), batches), key=_number)
            else:
                yield from self._together(batches)

    def _together(self, batches: list[DeliveryBatch]) -> Iterator[Place]:
        """The entries of many deliveries in ID order."""
        first = min([batch.first for batch in batches])
        these: set[Facts | None] = set(batches)
        for page, start, stop in self.pel.spans(first, max([batch.last for batch in batches])):
            for at, batch in enumerate(page.batches[start:stop], start):
                if batch in these:
                    yield page, at

    def _own(self, batch: DeliveryBatch) -> Iterator[Place]:
        """The entries of one batch in the order in which they came."""
        pel = self.pel
        # They are mostly taken from the front: what is gone there is not looked at again and again.
        if batch.ids is None:
            places = pel.of_batch(batch)
            first = next(places)
            batch.first = _number(first)
            yield first
            yield from places
            return
        if batch.live < batch.size:
            gone = next(at for at, number in enumerate(batch.listed(batch.ids)) if pel.at(number) is batch)
            if gone * gone * _CUTS > batch.size:
                del batch.ids[: 2 * gone]
                batch.size -= gone
        yield from pel.of_batch(batch)

    def oldest_ms(self) -> int | None:
        """As of any books."""
        return next((batch.ms for batch in self.times.oldest(MAX_MS)), None)

    def few_idle(self, latest: int, few: int) -> list[tuple[int, Facts]] | None:
        """As of any books."""
        old = self.times.until(latest, few)
        if old is None or sum([batch.live for batch in old]) > few:
            return None
        return [(number, batch) for batch in old for number in self._listed(batch)]

    def _listed(self, batch: DeliveryBatch) -> Iterable[int]:
        """The IDs of a batch, and perhaps some that were its own."""
        if batch.ids is None and batch.first == batch.last:
            return (batch.first,)
        return self.pel.numbers(batch) if batch.ids is None else batch.listed(batch.ids)

    def numbers_of(self, consumer: Consumer) -> list[int]:
        """As of any books."""
        pel = self.pel
        if consumer.pending * self.tuning.large_part > len(pel):
            return self.all_of(consumer)
        return sorted(number for batch in consumer.batches if batch.live for number in pel.numbers(batch))

    def check_invariants(self, owners: dict[int, Consumer]) -> None:
        """As of any books."""
        self.times.check_invariants()
        live = Counter(facts for _, facts in self.pel.listed())
        batches = self.times.until(MAX_MS) or []
        assert len(batches) == len(live)
        for batch in batches:
            assert batch.live == live[batch] <= batch.size
            assert owners[id(batch.consumer)] is batch.consumer
        for consumer in owners.values():
            own = [batch for batch in consumer.batches if batch.live]
            assert all(batch.consumer is consumer for batch in own)
            assert consumer.pending == sum([batch.live for batch in own])


def _turn(batch: DeliveryBatch) -> int | DeliveryBatch:
    """Equal for deliveries of one millisecond, which take their turn together."""
    return batch.ms if type(batch) is Delivery else batch


def _number(place: Place) -> int:
    return place[0].number(place[1])
