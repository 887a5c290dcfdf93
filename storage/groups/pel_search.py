"""Finding pending entries: by ID, of one consumer, or those that have been idle for long."""

from __future__ import annotations

from functools import partial
from heapq import merge
from itertools import chain, groupby, islice
from math import isqrt
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from ..streams.ids import MAX_ID
from .consumer_index import IdOrder
from .deliveries import MAX_MS, UNOWNED_MS, Block, Consumer, Delivery
from .pel_pages import first_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from .group import Group
    from .pel_pages import Page, Place, Places

_CUTS: Final = 128  # looking at a listed ID takes as long as moving so many others in memory


def _turn(block: Block) -> int | Block:
    """Equal for deliveries of one millisecond, which take their turn together."""
    return block.ms if type(block) is Delivery else block


def _number(place: Place) -> int:
    return place[0].number(place[1])


def _first(runs: Iterable[tuple[Page, Sequence[int]]], count: int | None) -> Places:
    return list(runs) if count is None else first_of(runs, count)


def find_pending(
    group: Group,
    start: int = 0,
    end: int = MAX_ID,
    count: int | None = None,
    consumer: Consumer | None = None,
) -> Places:
    """Pending entries in ID order, of everybody or of one consumer.

    Args:
        group: the group.
        start: first ID to look at.
        end: last ID to look at.
        count: at most so many, None for all.
        consumer: only this one's.
    """
    if consumer is None or consumer.pending == len(group.pel):
        return _first(group.pel.pending_runs(start, end), count)
    return _first(_owned(group, consumer, start, end, count), count)


def find_idle(
    group: Group,
    latest: int,
    start: int = 0,
    end: int = MAX_ID,
    count: int | None = None,
    consumer: Consumer | None = None,
) -> Places:
    """As ``find_pending``, only entries delivered at ``latest`` (milliseconds) or before.

    Few such entries are found by time; if there are many, walking in ID order meets enough of them soon.
    """
    pending = len(group.pel)
    wanted = pending if count is None else min(count, pending)
    # An ID-ordered walk visits about wanted / old * all entries, a search by time the old ones.
    few = max(group.tuning.slack, isqrt(wanted * pending))
    old = group.times.until(latest, few)
    if old is not None and sum(block.live for block in old) <= few:
        numbered = sorted(
            [
                (number, block)
                for block in old
                if consumer is None or block.consumer is consumer
                for number in _listed(group, block)
                if start <= number <= end
            ],
            key=itemgetter(0),
        )
        # Of what is listed some may have gone elsewhere.
        looked_up = ((group.pel.place(number), block) for number, block in numbered)
        there = (place for place, block in looked_up if place and place[0].blocks[place[1]] is block)
        return [(page, (at,)) for page, at in islice(there, count)]
    return _first(_idle(group, latest, start, end, count, consumer), count)


def _listed(group: Group, block: Block) -> Iterable[int]:
    """The IDs of a block, and perhaps some that were its own."""
    return group.pel.numbers(block) if block.ids is None else block.listed(block.ids)


def _owned(
    group: Group, consumer: Consumer, start: int, end: int, count: int | None
) -> Iterator[tuple[Page, Sequence[int]]]:
    """As ``Pel.pending_runs``, of one consumer."""
    pel = group.pel
    if consumer.order is None and consumer.pending * group.tuning.large_part > len(pel):
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
            if strangers > group.tuning.patience:
                start = page.number(stop - 1) + 1
                break
        else:
            return
    piece = None if count is None else max(count, 16)
    for number in chain.from_iterable(
        _order_of(group, consumer).runs(_is_with(group, consumer), start, piece)
    ):
        if number > end:
            return
        place = pel.place(number)
        assert place is not None
        yield place[0], (place[1],)


def _idle(
    group: Group, latest: int, start: int, end: int, count: int | None, consumer: Consumer | None
) -> Iterator[tuple[Page, Sequence[int]]]:
    """As ``Pel.pending_runs``, what was delivered until ``latest``, perhaps of one consumer."""
    runs = (
        group.pel.pending_runs(start, end) if consumer is None else _owned(group, consumer, start, end, count)
    )
    for page, positions in runs:
        blocks = page.blocks
        found = [at for at in positions if blocks[at].ms <= latest]  # type: ignore[union-attr]  # pending
        if found:
            yield page, found


def oldest(group: Group, latest: int = MAX_MS) -> Iterator[Place]:
    """Entries delivered at ``latest`` (milliseconds) or before, the longest idle first.

    Those without owner come before all; those of one time in the order in which they were delivered. Nothing may
    be changed before the walk is over.
    """
    for _, turn in groupby(group.times.oldest(latest), _turn):
        blocks = list(turn)
        if len(blocks) == 1:
            yield from _own(group, blocks[0])
        elif len(blocks) <= group.tuning.merged:
            yield from merge(*map(partial(_own, group), blocks), key=_number)
        else:
            yield from _together(group, blocks)


def _together(group: Group, blocks: list[Block]) -> Iterator[Place]:
    """The entries of many deliveries in ID order."""
    first = min([block.first for block in blocks])
    these = set(blocks)
    for page, start, stop in group.pel.spans(first, max([block.last for block in blocks])):
        for at, block in enumerate(page.blocks[start:stop], start):
            if block in these:
                yield page, at


def _own(group: Group, block: Block) -> Iterator[Place]:
    """The entries of one block in the order in which they came."""
    pel = group.pel
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


def given_back(group: Group) -> Iterator[Place]:
    """The entries without owner, in the order in which they will be claimed."""
    return oldest(group, UNOWNED_MS)


def oldest_ms(group: Group) -> int | None:
    """The earliest delivery time of a pending entry (UNOWNED_MS if one has no owner), None if nothing is pending."""
    return next((block.ms for block in group.times.oldest(MAX_MS)), None)


def any_idle(group: Group, latest: int) -> bool:
    """Whether some entry was delivered at ``latest`` (milliseconds) or before."""
    old = group.times.until(latest, 0)
    return old is None or bool(old)


def _is_with(group: Group, consumer: Consumer) -> Callable[[int], bool]:
    at = group.pel.at
    return lambda number: (block := at(number)) is not None and block.consumer is consumer


def _order_of(group: Group, consumer: Consumer) -> IdOrder:
    """What a consumer has in ID order; from now on it is kept up to date."""
    order = consumer.order
    if order is None or order.listed > 2 * consumer.pending + group.tuning.slack:
        pel = group.pel
        if consumer.pending * group.tuning.large_part > len(pel):
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
        order = consumer.order = IdOrder(group.tuning.index_chunk)
        if numbers:
            order.append(numbers)
    return order
