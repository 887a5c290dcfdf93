"""Deliveries: the block of entries delivered together, the consumer it went to, and all blocks by time."""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter
from typing import Final

from sortedcontainers import SortedKeyList

NEVER: Final = -1
# Waste up to here (dead blocks, ids that went elsewhere) is not worth tidying up.
SLACK: Final = 64
_by_ms: Final = attrgetter("ms")


class Block:
    """Entries that share consumer, delivery time and count.

    Which entries are still its own only the PEL knows: those ids it maps to this block.

    Attributes:
        ms: delivery time, milliseconds since the epoch.
        count: how often the entries were delivered.
        ids: canonical texts, each at most once; ids that went elsewhere may linger.
        live: how many of the ids the PEL maps here. A block with none is dead and falls out of all lists.
    """

    __slots__ = ("consumer", "count", "ids", "live", "ms")

    def __init__(self, consumer: Consumer, ms: int, count: int, ids: list[bytes]) -> None:
        self.consumer = consumer
        self.ms = ms
        self.count = count
        self.ids = ids
        self.live = len(ids)


class Consumer:
    """A member of a group.

    Attributes:
        seen_ms: last time a command named it.
        active_ms: last time it was given entries, NEVER (-1) if it never was.
        pending: number of entries it owns.
        blocks: its blocks in the order they were made, dead ones among them.
        ids: its entries in ID order as of some moment, None once entries came that are not in it. Entries may
            have gone since.
    """

    __slots__ = ("_prune_at", "active_ms", "blocks", "ids", "name", "pending", "seen_ms")

    def __init__(self, name: bytes, seen_ms: int, active_ms: int = NEVER) -> None:
        self.name = name
        self.seen_ms = seen_ms
        self.active_ms = active_ms
        self.pending = 0
        self.blocks: list[Block] = []
        self.ids: list[bytes] | None = None
        self._prune_at = SLACK

    def add(self, block: Block) -> None:
        """Keep a new block. ``pending`` is the caller's to count."""
        blocks = self.blocks
        blocks.append(block)
        if len(blocks) > self._prune_at:
            blocks[:] = [block for block in blocks if block.live]
            self._prune_at = 2 * len(blocks) + SLACK


class TimeOrder:
    """The blocks of a group by delivery time, the longest idle first.

    Time normally goes on, so a new block goes to the end of a list; the strays (an explicit TIME or IDLE, a clock
    set back) are kept sorted apart.
    """

    __slots__ = ("_blocks", "_dead", "_strays")

    def __init__(self) -> None:
        self._blocks: list[Block] = []
        self._strays: SortedKeyList[Block, int] = SortedKeyList(key=_by_ms)
        self._dead = 0  # dead blocks still listed

    def add(self, block: Block) -> None:
        """List a new block."""
        blocks = self._blocks
        if not blocks or blocks[-1].ms <= block.ms:
            blocks.append(block)
        else:
            self._strays.add(block)

    def died(self) -> None:
        """One listed block has lost its last entry."""
        self._dead += 1
        if self._dead > SLACK and self._dead * 2 > len(self._blocks) + len(self._strays):
            self._blocks = [block for block in self._blocks if block.live]
            self._strays = SortedKeyList([block for block in self._strays if block.live], key=_by_ms)
            self._dead = 0

    def until(self, latest: int, at_most: int | None = None) -> list[Block] | None:
        """The living blocks delivered at ``latest`` or before, oldest first.

        Args:
            latest: milliseconds since the epoch.
            at_most: None is answered if there are more blocks than that.
        """
        blocks, strays = self._blocks, self._strays
        old = bisect_right(blocks, latest, key=_by_ms)
        stray = strays.bisect_key_right(latest)
        if at_most is not None and old + stray - self._dead > at_most:
            return None
        found = [block for block in blocks[:old] if block.live]
        if len(found) < old:
            blocks[:old] = found
            self._dead -= old - len(found)
        if stray:
            late = [block for block in strays.islice(0, stray) if block.live]
            if len(late) < stray:
                del strays[:stray]
                strays.update(late)
                self._dead -= stray - len(late)
            found = sorted(found + late, key=_by_ms)
        return None if at_most is not None and len(found) > at_most else found
