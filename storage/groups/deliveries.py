"""Deliveries: entries delivered together, the consumer that got them, and all deliveries of a group by idle time."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import deque
from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Final, TypeAlias

from sortedcontainers import SortedKeyList

from ..freeing import Freeable
from ..streams.ids import MAX_U64
from ..streams.tuning import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from .consumer_index import IdOrder

NEVER: Final = -1
MAX_MS: Final = (1 << 63) - 1  # no delivery time is greater


# The delivery time of entries without an owner (XNACK): they count as idle for longer than anybody can ask for.
UNOWNED_MS: Final = -(1 << 63)


_by_ms: Final = attrgetter("ms")
# Pending entries in the order of their IDs: the halves of these, and of each consumer, delivery time and count.
Filling: TypeAlias = "tuple[array[int], array[int], Sequence[tuple[Consumer, int, int]]]"


class Facts:
    """What is known of a pending entry, or of several that share it: what the PEL has beside an ID.

    Attributes:
        consumer: the owner.
        ms: delivery time, milliseconds since the epoch; UNOWNED_MS if there is no owner.
        count: how often it was delivered.
    """

    __slots__ = ("consumer", "count", "ms")

    def __init__(self, consumer: Consumer, ms: int, count: int) -> None:
        self.consumer = consumer
        self.ms = ms
        self.count = count


class DeliveryBatch(Facts):
    """Entries that share their facts.

    Which entries are still its own only the PEL knows: those that it has in this batch.

    Attributes:
        ids: the IDs in the order in which they came, each at most once, as their halves by turns; None where looking
            from ``first`` to ``last`` finds them soon enough. IDs that went elsewhere may linger.
        first, last: if ``ids`` is None, no entry has a smaller or a greater ID, and they came in the order of their IDs;
            of a delivery they are bounds in any case.
        size: how many entries it had when somebody last looked at all of them, and those that came since.
        live: how many it has. A batch with none is dead and falls out of all lists.
    """

    __slots__ = ("first", "ids", "last", "live", "size")

    def __init__(self, consumer: Consumer, ms: int, count: int, first: int, last: int, size: int) -> None:
        self.consumer = consumer
        self.ms = ms
        self.count = count
        self.first = first
        self.last = last
        self.ids: array[int] | None = None
        self.size = size
        self.live = size

    def copy(self, consumer: Consumer) -> DeliveryBatch:
        """The same with somebody else."""
        twin = type(self)(consumer, self.ms, self.count, self.first, self.last, self.size)
        twin.ids = None if self.ids is None else self.ids[:]
        twin.live = self.live
        return twin

    def enlist(self, numbers: Iterable[int]) -> None:
        """From now on exactly these are listed, in this order."""
        self.ids = array("Q", [half for number in numbers for half in (number >> 64, number & MAX_U64)])
        self.size = len(self.ids) // 2

    @staticmethod
    def listed(ids: array[int]) -> Iterator[int]:
        """What stands in ``ids``."""
        halves = iter(ids)
        return (ms << 64 | seq for ms, seq in zip(halves, halves, strict=True))

    def unlist(self, number: int) -> list[int]:
        """Take up to so many off the end of ``ids``."""
        assert self.ids is not None
        some = self.ids[-2 * number :]
        del self.ids[-2 * number :]
        return list(self.listed(some))

    def join(self, number: int) -> None:
        """Add one entry, whatever its ID, to those that are listed or to the only one."""
        if self.ids is None:
            self.ids = array("Q", (self.first >> 64, self.first & MAX_U64))
        self.add(number)

    def add(self, number: int) -> None:
        """One entry comes, to the end; if none are listed, its ID is the greatest."""
        if self.ids is not None:
            self.ids.extend((number >> 64, number & MAX_U64))
        self.last = number
        self.size += 1
        self.live += 1


class Delivery(DeliveryBatch):
    """Entries that came in the order of their IDs, as do those of all deliveries of the same millisecond.

    Such deliveries to several consumers may therefore be extended by turns; a caller that needs the order in which all
    of them came merges them by ID. Nothing else that happens to entries can be ordered afterwards.
    """

    __slots__ = ()


class Consumer(Freeable):
    """A member of a group.

    Attributes:
        seen_ms: last time a command named it.
        active_ms: last time it was given entries, NEVER (-1) if it never was.
        pending: number of entries it owns.
        batches: its batches in the order they were made, dead ones among them; none while the books are plain.
        since: how many entries the group had ever delivered when the newest delivery to it began.
        order: its entries in ID order, and others that have been its own; None until they are needed.
    """

    __slots__ = (
        "_prune_at",
        "_slack",
        "active_ms",
        "batches",
        "name",
        "order",
        "pending",
        "seen_ms",
        "since",
    )

    def __init__(self, name: bytes, seen_ms: int, active_ms: int = NEVER, slack: int = DEFAULT.slack) -> None:
        self.name = name
        self.seen_ms = seen_ms
        self.active_ms = active_ms
        self.pending = 0
        self.since = 0
        self.batches: list[DeliveryBatch] = []
        self.order: IdOrder | None = None
        self._slack = self._prune_at = slack

    def parts(self) -> Iterable[object]:
        """Return its batches and their order; the batches, which reference it, are detached."""
        batches, self.batches = self.batches, []
        return batches, self.order

    def add(self, batch: DeliveryBatch) -> None:
        """Keep a new batch. ``pending`` is the caller's to count."""
        batches = self.batches
        batches.append(batch)
        if len(batches) > self._prune_at:
            batches[:] = [batch for batch in batches if batch.live]
            self._prune_at = 2 * len(batches) + self._slack

    def forget_waste(self, slack: int) -> None:
        """Some of what it had is gone: drop the order if most of what stands there is no longer its own."""
        if self.order is not None and self.order.listed > 2 * self.pending + slack:
            self.order = None


def in_columns(
    pending: Iterable[tuple[int, tuple[Consumer, int, int]]], size: int = DEFAULT.page
) -> Iterator[Filling]:
    """Yield pending entries, given one by one in the order of their IDs, as ``Group.fill`` takes them."""
    entries = iter(pending)
    while some := list(islice(entries, size)):
        yield (
            array("Q", [number >> 64 for number, _ in some]),
            array("Q", [number & MAX_U64 for number, _ in some]),
            [facts for _, facts in some],
        )


class IdleOrder(Freeable):
    """The batches of a group by delivery time, the longest idle first; those of one time in the order they were made.

    Time normally goes on, so a new batch goes to the end of a list; the strays (an explicit TIME or IDLE, a clock
    set back) are kept sorted apart, and so are, in front of all, the batches without owner: the NACK zone.

    Attributes:
        newest: the batch that was listed last, None if there was none. Only it can be extended without ids of
            other batches of the same millisecond getting before their turn; deliveries see ``moved_ms``.
        moved_ms: the latest time of a batch that is no delivery.
    """

    __slots__ = (
        "_batches",
        "_dead",
        "_slack",
        "_start",
        "_stray_ms",
        "_strays",
        "_zone",
        "moved_ms",
        "newest",
    )

    def __init__(self, slack: int = DEFAULT.slack) -> None:
        self._slack = slack
        self.newest: DeliveryBatch | None = None
        self.moved_ms = UNOWNED_MS
        self._batches: list[DeliveryBatch] = []
        self._start = 0  # the batches before it are dead, and no longer counted anywhere
        self._strays: SortedKeyList[DeliveryBatch, int] = SortedKeyList(key=_by_ms)
        self._stray_ms = UNOWNED_MS  # the latest time a stray ever had
        self._zone: deque[DeliveryBatch] = deque()
        self._dead = 0  # dead batches still listed

    def parts(self) -> Iterable[object]:
        """Return the batches. The strays are in a list that gives them up one by one only; its inner lists do not."""
        return self._batches, self._strays._lists, self._strays._keys, self._zone  # noqa: SLF001

    def add(self, batch: DeliveryBatch) -> None:
        """List a new batch."""
        batches = self._batches
        ms = batch.ms
        self.newest = batch
        if ms > self._stray_ms and (not batches or batches[-1].ms <= ms):
            batches.append(batch)
        elif ms == UNOWNED_MS:
            self._zone.append(batch)
        else:
            self._strays.add(batch)
            self._stray_ms = max(self._stray_ms, ms)

    def died(self) -> None:
        """One listed batch has lost its last entry."""
        self._dead += 1
        if self._dead > self._slack and self._dead * 2 > len(self):
            self._batches = [batch for batch in self._batches if batch.live]
            self._start = 0
            self._strays = SortedKeyList([batch for batch in self._strays if batch.live], key=_by_ms)
            self._stray_ms = self._strays[-1].ms if self._strays else UNOWNED_MS
            self._zone = deque([batch for batch in self._zone if batch.live])
            self._dead = 0

    def __len__(self) -> int:
        return len(self._batches) - self._start + len(self._strays) + len(self._zone)

    def until(self, latest: int, at_most: int | None = None) -> list[DeliveryBatch] | None:
        """The living batches delivered at ``latest`` or before, oldest first.

        Args:
            latest: milliseconds since the epoch.
            at_most: None is answered if there are more batches than that.
        """
        batches, strays, start = self._batches, self._strays, self._start
        old = bisect_right(batches, latest, start, key=_by_ms)
        stray = strays.bisect_key_right(latest)
        if at_most is not None and old - start + stray + len(self._zone) - self._dead > at_most:
            return None
        found = [batch for batch in batches[start:old] if batch.live]
        if len(found) < old:
            batches[:old] = found
            self._dead -= old - start - len(found)
            self._start = 0
        if stray:
            late = [batch for batch in strays.islice(0, stray) if batch.live]
            if len(late) < stray:
                del strays[:stray]
                strays.update(late)
                self._dead -= stray - len(late)
            found = sorted(found + late, key=_by_ms)
        if self._zone:
            found[:0] = [batch for batch in self._zone if batch.live]
        return None if at_most is not None and len(found) > at_most else found

    def oldest(self, latest: int) -> Iterator[DeliveryBatch]:
        """As ``until``, one by one; what lies behind the last one asked for costs nothing.

        Nothing may be changed before the walk is over.
        """
        zone = self._zone
        while zone and not zone[0].live:
            zone.popleft()
            self._dead -= 1
        for batch in zone:
            if batch.live:
                yield batch
        strays = self._strays
        while strays and not strays[0].live:
            del strays[0]
            self._dead -= 1
        usual = self._usual(latest)
        if strays:
            stray = strays.islice(0, strays.bisect_key_right(latest))
            yield from merge(usual, (batch for batch in stray if batch.live), key=_by_ms)
        else:
            yield from usual

    def _usual(self, latest: int) -> Iterator[DeliveryBatch]:
        """The living ones of the main list. Dead ones are passed once and then dropped, wherever they stand."""
        batches, start = self._batches, self._start
        while start < len(batches) and not batches[start].live:
            start += 1
        self._dead -= start - self._start
        if start * 2 > len(batches):
            del batches[:start]
            start = 0
        self._start = at = start
        passed = 0
        try:
            while at < len(batches):
                batch = batches[at]
                if batch.ms > latest:
                    break
                at += 1
                if batch.live:
                    yield batch
                else:
                    passed += 1
        finally:
            if passed > self._slack and batches is self._batches and start == self._start:
                living = [batch for batch in batches[start:at] if batch.live]
                self._dead -= at - start - len(living)
                batches[start:at] = living

    def check_invariants(self) -> None:
        """Assert that each list is in order and the dead batches are counted; for tests."""
        usual = self._batches[self._start :]
        for batches in (usual, list(self._strays)):
            times = [batch.ms for batch in batches]
            assert times == sorted(times)
            assert all(ms > UNOWNED_MS for ms in times)
        assert all(batch.ms == UNOWNED_MS for batch in self._zone)
        assert not any(batch.live for batch in self._batches[: self._start])
        listed = [*usual, *self._strays, *self._zone]
        assert len(listed) == len(self) == len({id(batch) for batch in listed})
        assert self._dead == sum([not batch.live for batch in listed])
        assert all(batch.ms <= self._stray_ms for batch in self._strays)
