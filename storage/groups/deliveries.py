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


class Block(Facts):
    """Entries that share their facts.

    Which entries are still its own only the PEL knows: those that it has in this block.

    Attributes:
        ids: the IDs in the order in which they came, each at most once, as their halves by turns; None where looking
            from ``first`` to ``last`` finds them soon enough. IDs that went elsewhere may linger.
        first, last: if ``ids`` is None, no entry has a smaller or a greater ID, and they came in the order of their IDs;
            of a delivery they are bounds in any case.
        size: how many entries it had when somebody last looked at all of them, and those that came since.
        live: how many it has. A block with none is dead and falls out of all lists.
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

    def copy(self, consumer: Consumer) -> Block:
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


class Delivery(Block):
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
        blocks: its blocks in the order they were made, dead ones among them; none while the books are plain.
        since: how many entries the group had ever delivered when the newest delivery to it began.
        order: its entries in ID order, and others that have been its own; None until they are needed.
    """

    __slots__ = ("_prune_at", "_slack", "active_ms", "blocks", "name", "order", "pending", "seen_ms", "since")

    def __init__(self, name: bytes, seen_ms: int, active_ms: int = NEVER, slack: int = DEFAULT.slack) -> None:
        self.name = name
        self.seen_ms = seen_ms
        self.active_ms = active_ms
        self.pending = 0
        self.since = 0
        self.blocks: list[Block] = []
        self.order: IdOrder | None = None
        self._slack = self._prune_at = slack

    def parts(self) -> Iterable[object]:
        """Return its blocks and their order; the blocks, which reference it, are detached."""
        blocks, self.blocks = self.blocks, []
        return blocks, self.order

    def add(self, block: Block) -> None:
        """Keep a new block. ``pending`` is the caller's to count."""
        blocks = self.blocks
        blocks.append(block)
        if len(blocks) > self._prune_at:
            blocks[:] = [block for block in blocks if block.live]
            self._prune_at = 2 * len(blocks) + self._slack

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
    """The blocks of a group by delivery time, the longest idle first; those of one time in the order they were made.

    Time normally goes on, so a new block goes to the end of a list; the strays (an explicit TIME or IDLE, a clock
    set back) are kept sorted apart, and so are, in front of all, the blocks without owner: the NACK zone.

    Attributes:
        newest: the block that was listed last, None if there was none. Only it can be extended without ids of
            other blocks of the same millisecond getting before their turn; deliveries see ``moved_ms``.
        moved_ms: the latest time of a block that is no delivery.
    """

    __slots__ = (
        "_blocks",
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
        self.newest: Block | None = None
        self.moved_ms = UNOWNED_MS
        self._blocks: list[Block] = []
        self._start = 0  # the blocks before it are dead, and no longer counted anywhere
        self._strays: SortedKeyList[Block, int] = SortedKeyList(key=_by_ms)
        self._stray_ms = UNOWNED_MS  # the latest time a stray ever had
        self._zone: deque[Block] = deque()
        self._dead = 0  # dead blocks still listed

    def parts(self) -> Iterable[object]:
        """Return the blocks. The strays are in a list that gives them up one by one only; its inner lists do not."""
        return self._blocks, self._strays._lists, self._strays._keys, self._zone  # noqa: SLF001

    def add(self, block: Block) -> None:
        """List a new block."""
        blocks = self._blocks
        ms = block.ms
        self.newest = block
        if ms > self._stray_ms and (not blocks or blocks[-1].ms <= ms):
            blocks.append(block)
        elif ms == UNOWNED_MS:
            self._zone.append(block)
        else:
            self._strays.add(block)
            self._stray_ms = max(self._stray_ms, ms)

    def died(self) -> None:
        """One listed block has lost its last entry."""
        self._dead += 1
        if self._dead > self._slack and self._dead * 2 > len(self):
            self._blocks = [block for block in self._blocks if block.live]
            self._start = 0
            self._strays = SortedKeyList([block for block in self._strays if block.live], key=_by_ms)
            self._stray_ms = self._strays[-1].ms if self._strays else UNOWNED_MS
            self._zone = deque([block for block in self._zone if block.live])
            self._dead = 0

    def __len__(self) -> int:
        return len(self._blocks) - self._start + len(self._strays) + len(self._zone)

    def until(self, latest: int, at_most: int | None = None) -> list[Block] | None:
        """The living blocks delivered at ``latest`` or before, oldest first.

        Args:
            latest: milliseconds since the epoch.
            at_most: None is answered if there are more blocks than that.
        """
        blocks, strays, start = self._blocks, self._strays, self._start
        old = bisect_right(blocks, latest, start, key=_by_ms)
        stray = strays.bisect_key_right(latest)
        if at_most is not None and old - start + stray + len(self._zone) - self._dead > at_most:
            return None
        found = [block for block in blocks[start:old] if block.live]
        if len(found) < old:
            blocks[:old] = found
            self._dead -= old - start - len(found)
            self._start = 0
        if stray:
            late = [block for block in strays.islice(0, stray) if block.live]
            if len(late) < stray:
                del strays[:stray]
                strays.update(late)
                self._dead -= stray - len(late)
            found = sorted(found + late, key=_by_ms)
        if self._zone:
            found[:0] = [block for block in self._zone if block.live]
        return None if at_most is not None and len(found) > at_most else found

    def oldest(self, latest: int) -> Iterator[Block]:
        """As ``until``, one by one; what lies behind the last one asked for costs nothing.

        Nothing may be changed before the walk is over.
        """
        zone = self._zone
        while zone and not zone[0].live:
            zone.popleft()
            self._dead -= 1
        for block in zone:
            if block.live:
                yield block
        strays = self._strays
        while strays and not strays[0].live:
            del strays[0]
            self._dead -= 1
        usual = self._usual(latest)
        if strays:
            stray = strays.islice(0, strays.bisect_key_right(latest))
            yield from merge(usual, (block for block in stray if block.live), key=_by_ms)
        else:
            yield from usual

    def _usual(self, latest: int) -> Iterator[Block]:
        """The living ones of the main list. Dead ones are passed once and then dropped, wherever they stand."""
        blocks, start = self._blocks, self._start
        while start < len(blocks) and not blocks[start].live:
            start += 1
        self._dead -= start - self._start
        if start * 2 > len(blocks):
            del blocks[:start]
            start = 0
        self._start = at = start
        passed = 0
        try:
            while at < len(blocks):
                block = blocks[at]
                if block.ms > latest:
                    break
                at += 1
                if block.live:
                    yield block
                else:
                    passed += 1
        finally:
            if passed > self._slack and blocks is self._blocks and start == self._start:
                living = [block for block in blocks[start:at] if block.live]
                self._dead -= at - start - len(living)
                blocks[start:at] = living

    def check_invariants(self) -> None:
        """Assert that each list is in order and the dead blocks are counted; for tests."""
        usual = self._blocks[self._start :]
        for blocks in (usual, list(self._strays)):
            times = [block.ms for block in blocks]
            assert times == sorted(times)
            assert all(ms > UNOWNED_MS for ms in times)
        assert all(block.ms == UNOWNED_MS for block in self._zone)
        assert not any(block.live for block in self._blocks[: self._start])
        listed = [*usual, *self._strays, *self._zone]
        assert len(listed) == len(self) == len({id(block) for block in listed})
        assert self._dead == sum([not block.live for block in listed])
        assert all(block.ms <= self._stray_ms for block in self._strays)
