"""Finding pending entries: by ID, of one consumer, or those that have been idle for long."""

from __future__ import annotations

from heapq import merge
from itertools import groupby
from math import isqrt
from typing import TYPE_CHECKING, Final, TypeAlias

from .blocks import SLACK, UNOWNED_MS, Block, Consumer, Delivery, TimeOrder
from .id_order import IdOrder, collect, first_piece
from .stream_id import MAX_ID, parse

if TYPE_CHECKING:
    from collections.abc import Iterator

Pending: TypeAlias = tuple[bytes, Block]  # an id and the facts of its delivery

MAX_MS = (1 << 63) - 1
_LARGE: Final = 8  # a consumer has much if it has this part of all
_PATIENCE: Final = 4096  # how many ids of others are passed in search of one consumer's


def _turn(block: Block) -> int | Block:
    """Equal for deliveries of one millisecond, which take their turn together."""
    return block.ms if type(block) is Delivery else block


def _number(entry: Pending) -> int:
    return parse(entry[0])


class Searching:
    """The part of ``Group`` that looks for pending entries."""

    __slots__ = ()

    pel: dict[bytes, Block]
    _order: IdOrder
    _times: TimeOrder

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
        if consumer.order is None and consumer.pending * _LARGE > len(pel):
            # To put that much in order takes long; mostly as many as are wanted are met soon in the order of all.
            strangers = 0
            for run in self._order.runs(start, piece):
                own = [text for text in run if pel[text].consumer is consumer]
                if own:
                    yield own
                strangers += len(run) - len(own)
                if strangers > _PATIENCE:
                    start = parse(run[-1]) + 1
                    break
            else:
                return
        for run in self._order_of(consumer).runs(start, piece):
            own = [text for text in run if pel[text].consumer is consumer]
            if own:
                yield own

    def _order_of(self, consumer: Consumer) -> IdOrder:
        """What a consumer has in ID order; from now on it is kept up to date."""
        order = consumer.order
        if order is None or consumer.listed > 2 * consumer.pending + SLACK:
            pel = self.pel
            if consumer.pending * _LARGE > len(pel):
                ids = [text for run in self._order.runs() for text in run if pel[text].consumer is consumer]
            else:
                ids = [
                    text
                    for block in consumer.blocks
                    if block.live
                    for text in block.ids
                    if pel.get(text) is block
                ]
                ids.sort(key=parse)
            order = consumer.order = IdOrder(pel)
            consumer.listed = len(ids)
            if ids:
                order.append(ids, parse(ids[-1]))
        return order
