"""Finding pending entries: by ID, of one consumer, or those that have been idle for long."""

from __future__ import annotations

from itertools import chain, islice
from math import isqrt
from operator import itemgetter
from typing import TYPE_CHECKING

from ..streams.ids import MAX_ID
from .consumer_index import IdOrder
from .deliveries import MAX_MS, UNOWNED_MS, Consumer
from .pel_pages import first_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from .group import Group
    from .pel_pages import Page, PelRuns, Place, Span


def _first(runs: Iterable[tuple[Page, Sequence[int]]], count: int | None) -> PelRuns:
    return list(runs) if count is None else first_of(runs, count)


def find_pending(
    group: Group,
    start: int = 0,
    end: int = MAX_ID,
    count: int | None = None,
    consumer: Consumer | None = None,
) -> PelRuns:
    """Pending entries in ID order, of everybody or of one consumer.

    Args:
        group: the group.
        start: first ID to look at.
        end: last ID to look at.
        count: at most so many, None for all.
        consumer: only this one's.
    """
    pel = group.pel
    if consumer is None or consumer.pending == len(pel):
        run = None if count is None else pel.first_run(start, end, count)
        return run if run is not None else _first(pel.pending_runs(start, end), count)
    return _first(_owned(group, consumer, start, end, count), count)


def find_idle(
    group: Group,
    latest: int,
    start: int = 0,
    end: int = MAX_ID,
    count: int | None = None,
    consumer: Consumer | None = None,
) -> PelRuns:
    """As ``find_pending``, only entries delivered at ``latest`` (milliseconds) or before.

    Few such entries are found by time; if there are many, walking in ID order meets enough of them soon.
    """
    pending = len(group.pel)
    wanted = pending if count is None else min(count, pending)
    # An ID-ordered walk visits about wanted / old * all entries, a search by time the old ones.
    few = max(group.tuning.slack, isqrt(wanted * pending))
    old = group.books.few_idle(latest, few)
    if old is not None:
        numbered = sorted(
            [
                (number, facts)
                for number, facts in old
                if (consumer is None or facts.consumer is consumer) and start <= number <= end
            ],
            key=itemgetter(0),
        )
        # Of what is listed some may have gone elsewhere.
        looked_up = ((group.pel.place(number), facts) for number, facts in numbered)
        there = (place for place, facts in looked_up if place and place[0].batches[place[1]] is facts)
        found: list[tuple[Page, list[int]]] = []
        for page, at in islice(there, count):
            if found and found[-1][0] is page:
                found[-1][1].append(at)
            else:
                found.append((page, [at]))
        return list(found)
    return _first(_idle(group, latest, start, end, count, consumer), count)


def _owned(
    group: Group, consumer: Consumer, start: int, end: int, count: int | None
) -> Iterator[tuple[Page, Sequence[int]]]:
    """As ``Pel.pending_runs``, of one consumer."""
    pel = group.pel
    if consumer.order is None and consumer.pending * group.tuning.large_part > len(pel):
        # To put that much in order takes long; mostly as many as are wanted are met soon in the order of all.
        strangers = 0
        spans = pel.spans(start, end)
        for page, at, stop in spans if count is None else _in_steps(spans, max(2 * count, 16)):
            found = [
                i
                for i, batch in enumerate(page.batches[at:stop], at)
                if batch is not None and batch.consumer is consumer
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


def _in_steps(spans: Iterable[Span], step: int) -> Iterator[Span]:
    """The same in short pieces, each twice as long as the one before: few entries are mostly met in the first one."""
    for page, begin, end in spans:
        at = begin
        while at < end:
            stop = min(at + step, end)
            yield page, at, stop
            at = stop
            step *= 2


def _idle(
    group: Group, latest: int, start: int, end: int, count: int | None, consumer: Consumer | None
) -> Iterator[tuple[Page, Sequence[int]]]:
    """As ``Pel.pending_runs``, what was delivered until ``latest``, perhaps of one consumer."""
    runs = (
        group.pel.pending_runs(start, end) if consumer is None else _owned(group, consumer, start, end, count)
    )
    for page, positions in runs:
        batches = page.batches
        found = [at for at in positions if batches[at].ms <= latest]  # type: ignore[union-attr]  # pending
        if found:
            yield page, found


def oldest(group: Group, latest: int = MAX_MS) -> Iterator[Place]:
    """Entries delivered at ``latest`` (milliseconds) or before, the longest idle first.

    Those without owner come before all; those of one time in the order in which they were delivered. Nothing may
    be changed before the walk is over.
    """
    return group.books.oldest(latest)


def given_back(group: Group) -> Iterator[Place]:
    """The entries without owner, in the order in which they will be claimed."""
    return oldest(group, UNOWNED_MS)


def oldest_ms(group: Group) -> int | None:
    """The earliest delivery time of a pending entry (UNOWNED_MS if one has no owner), None if nothing is pending."""
    return group.books.oldest_ms()


def any_idle(group: Group, latest: int) -> bool:
    """Whether some entry was delivered at ``latest`` (milliseconds) or before."""
    oldest = oldest_ms(group)
    return oldest is not None and oldest <= latest


def _is_with(group: Group, consumer: Consumer) -> Callable[[int], bool]:
    at = group.pel.at
    return lambda number: (batch := at(number)) is not None and batch.consumer is consumer


def _order_of(group: Group, consumer: Consumer) -> IdOrder:
    """What a consumer has in ID order; from now on it is kept up to date."""
    order = consumer.order
    if order is None or order.listed > 2 * consumer.pending + group.tuning.slack:
        numbers = group.books.numbers_of(consumer)
        order = consumer.order = IdOrder(group.tuning.index_chunk)
        if numbers:
            order.append(numbers)
    return order
