"""The pending entries of a group in the order in which they were delivered."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from heapq import merge
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from sortedcontainers import SortedKeyList

from .deliveries import SLACK, UNOWNED_MS, Block

if TYPE_CHECKING:
    from collections.abc import Iterator


_by_ms: Final = attrgetter("ms")


class TimeOrder:
    """The blocks of a group by delivery time, the longest idle first; those of one time in the order they were made.

    Time normally goes on, so a new block goes to the end of a list; the strays (an explicit TIME or IDLE, a clock
    set back) are kept sorted apart, and so are, in front of all, the blocks without owner: the NACK zone.

    Attributes:
        newest: the block that was listed last, None if there was none. Only it can be extended without ids of
            other blocks of the same millisecond getting before their turn; deliveries see ``moved_ms``.
        moved_ms: the latest time of a block that is no delivery.
    """

    __slots__ = ("_blocks", "_dead", "_start", "_stray_ms", "_strays", "_zone", "moved_ms", "newest")

    def __init__(self) -> None:
        self.newest: Block | None = None
        self.moved_ms = UNOWNED_MS
        self._blocks: list[Block] = []
        self._start = 0  # the blocks before it are dead, and no longer counted anywhere
        self._strays: SortedKeyList[Block, int] = SortedKeyList(key=_by_ms)
        self._stray_ms = UNOWNED_MS  # the latest time a stray ever had
        self._zone: deque[Block] = deque()
        self._dead = 0  # dead blocks still listed

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
        if self._dead > SLACK and self._dead * 2 > len(self):
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
            if passed > SLACK and blocks is self._blocks and start == self._start:
                living = [block for block in blocks[start:at] if block.live]
                self._dead -= at - start - len(living)
                blocks[start:at] = living
