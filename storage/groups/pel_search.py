"""Finding pending entries: by ID, of one consumer, or those that have been idle for long."""

from __future__ import annotations

from heapq import merge
from itertools import chain, groupby, islice
from math import isqrt
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from ..streams.ids import MAX_ID
from .consumer_index import CHUNK, IdOrder
from .deliveries import SLACK, UNOWNED_MS, Block, Consumer, Delivery
from .pel_pages import first_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from .idle_order import TimeOrder
    from .pel import Pel
    from .pel_pages import Page, Place, Places

MAX_MS = (1 << 63) - 1
_LARGE: Final = 8  # a consumer has much if it has this part of all
_CUTS: Final = 128  # looking at a listed ID takes as long as moving so many others in memory
_FEW: Final = 16  # deliveries of one millisecond that are merged; more are met on one walk
_PATIENCE: Final = 4096  # how many IDs are passed in search of one consumer's


def _turn(block: Block) -> int | Block:
    """Equal for deliveries of one millisecond, which take their turn together."""
    return block.ms if type(block) is Delivery else block


def _number(place: Place) -> int:
    return place[0].number(place[1])


def _first(runs: Iterable[tuple[Page, Sequence[int]]], count: int | None) -> Places:
    return list(runs) if count is None else first_of(runs, count)


class Searching:
    """The part of ``Group`` that looks for pending entries."""

    __slots__ = ()

    @property
    def pel(self) -> Pel:
        """See ``Group``."""
        raise NotImplementedError

    @property
    def times(self) -> TimeOrder:
        """See ``Group``."""
        raise NotImplementedError

    def pending(
        self, start: int = 0, end: int = MAX_ID, count: int | None = None, consumer: Consumer | None = None
    ) -> Places:
        """Pending entries in ID order, of everybody or of one consumer.

        Args:
            start: first ID to look at.
            end: last ID to look at.
            count: at most so many, None for all.
            consumer: only this one's.
        """
        if consumer is None or consumer.pending == len(self.pel):
            return _first(self.pel.pending_runs(start, end), count)
        return _first(self._owned(consumer, start, end, count), count)

    def idle(
        self,
        latest: int,
        start: int = 0,
        end: int = MAX_ID,
        count: int | None = None,
        consumer: Consumer | None = None,
    ) -> Places:
        """As ``pending``, only entries delivered at ``latest`` (milliseconds) or before.

        Few such entries are found by time; if there are many, walking in ID order meets enough of them soon.
        """
        pending = len(self.pel)
        wanted = pending if count is None else min(count, pending)
        # An ID-ordered walk visits about wanted / old * all entries, a search by time the old ones.
        few = max(SLACK, isqrt(wanted * pending))
        old = self.times.until(latest, few)
        if old is not None and sum(block.live for block in old) <= few:
            numbered = sorted(
                [
                    (number, block)
                    for block in old
                    if consumer is None or block.consumer is consumer
                    for number in self._listed(block)
                    if start <= number <= end
                ],
                key=itemgetter(0),
            )
            # Of what is listed some may have gone elsewhere.
            looked_up = ((self.pel.place(number), block) for number, block in numbered)
            there = (place for place, block in looked_up if place and place[0].blocks[place[1]] is block)
            return [(page, (at,)) for page, at in islice(there, count)]
        return _first(self._idle(latest, start, end, count, consumer), count)

    def _listed(self, block: Block) -> Iterable[int]:
        """The IDs of a block, and perhaps some that were its own."""
        return self.pel.numbers(block) if block.ids is None else block.listed(block.ids)

    def _owned(
        self, consumer: Consumer, start: int, end: int, count: int | None
    ) -> Iterator[tuple[Page, Sequence[int]]]:
        """As ``Pel.pending_runs``, of one consumer."""
        pel = self.pel
        if consumer.order is None and consumer.pending * _LARGE > len(pel):
            # To put that much in order takes long; mostly as many as are wanted are met soon in the order of all.
            strangers = 0
            for page, at, stop in pel.spans(start, end):
                found = [
                    i
                    for i, block in enumerate(page.blocks[at:stop], at)
                    if block is not None and block.consumer is consumer
                ]
                if found:
                    yield page, found
                strangers += stop - at - len(found)
                if strangers > _PATIENCE:
                    start = page.number(stop - 1) + 1
                    break
            else:
                return
        piece = CHUNK if count is None else max(count, 16)
        for number in chain.from_iterable(
            self._order_of(consumer).runs(self._is_with(consumer), start, piece)
        ):
            if number > end:
                return
            place = pel.place(number)
            assert place is not None
            yield place[0], (place[1],)

    def _idle(
        self, latest: int, start: int, end: int, count: int | None, consumer: Consumer | None
    ) -> Iterator[tuple[Page, Sequence[int]]]:
        """As ``Pel.pending_runs``, what was delivered until ``latest``, perhaps of one consumer."""
        runs = (
            self.pel.pending_runs(start, end)
            if consumer is None
            else self._owned(consumer, start, end, count)
        )
        for page, positions in runs:
            blocks = page.blocks
            found = [at for at in positions if blocks[at].ms <= latest]  # type: ignore[union-attr]  # pending
            if found:
                yield page, found

    def oldest(self, latest: int = MAX_MS) -> Iterator[Place]:
        """Entries delivered at ``latest`` (milliseconds) or before, the longest idle first.

        Those without owner come before all; those of one time in the order in which they were delivered. Nothing may
        be changed before the walk is over.
        """
        for _, turn in groupby(self.times.oldest(latest), _turn):
            blocks = list(turn)
            if len(blocks) == 1:
                yield from self._own(blocks[0])
            elif len(blocks) <= _FEW:
                yield from merge(*map(self._own, blocks), key=_number)
            else:
                yield from self._together(blocks)

    def _together(self, blocks: list[Block]) -> Iterator[Place]:
        """The entries of many deliveries in ID order."""
        first = min([block.first for block in blocks])
        these = set(blocks)
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

    def given_back(self) -> Iterator[Place]:
        """The entries without owner, in the order in which they will be claimed."""
        return self.oldest(UNOWNED_MS)

    def oldest_ms(self) -> int | None:
        """The earliest delivery time of a pending entry (UNOWNED_MS if one has no owner), None if nothing is pending."""
        return next((block.ms for block in self.times.oldest(MAX_MS)), None)

    def any_idle(self, latest: int) -> bool:
        """Whether some entry was delivered at ``latest`` (milliseconds) or before."""
        old = self.times.until(latest, 0)
        return old is None or bool(old)

    def _is_with(self, consumer: Consumer) -> Callable[[int], bool]:
        at = self.pel.at
        return lambda number: (block := at(number)) is not None and block.consumer is consumer

    def _order_of(self, consumer: Consumer) -> IdOrder:
        """What a consumer has in ID order; from now on it is kept up to date."""
        order = consumer.order
        if order is None or order.listed > 2 * consumer.pending + SLACK:
            pel = self.pel
            if consumer.pending * _LARGE > len(pel):
                numbers = [
                    page.number(at)
                    for page, start, stop in pel.spans()
                    for at, block in enumerate(page.blocks[start:stop], start)
                    if block is not None and block.consumer is consumer
                ]
            else:
                numbers = sorted(
                    number for block in consumer.blocks if block.live for number in pel.numbers(block)
                )
            order = consumer.order = IdOrder()
            if numbers:
                order.append(numbers)
        return order
