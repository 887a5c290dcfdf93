"""Deliveries: the block of entries delivered together, the consumer it went to, and all blocks by time."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final

from ..streams.ids import MAX_U64

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .consumer_index import IdOrder

NEVER: Final = -1


# The delivery time of entries without an owner (XNACK): they count as idle for longer than anybody can ask for.
UNOWNED_MS: Final = -(1 << 63)


# Waste up to here (dead blocks, ids that went elsewhere) is not worth tidying up.
SLACK: Final = 64


class Block:
    """Entries that share consumer, delivery time and count.

    Which entries are still its own only the PEL knows: those that it has in this block.

    Attributes:
        ms: delivery time, milliseconds since the epoch; UNOWNED_MS if nobody owns the entries.
        count: how often the entries were delivered.
        ids: the IDs in the order in which they came, each at most once, as their halves by turns; None where looking
            from ``first`` to ``last`` finds them soon enough. IDs that went elsewhere may linger.
        first, last: if ``ids`` is None, no entry has a smaller or a greater ID, and they came in the order of their IDs;
            of a delivery they are bounds in any case.
        size: how many entries it had when somebody last looked at all of them, and those that came since.
        live: how many it has. A block with none is dead and falls out of all lists.
    """

    __slots__ = ("consumer", "count", "first", "ids", "last", "live", "ms", "size")

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

    def add(self, number: int) -> None:
        """One entry comes, to the end; if none are listed, its ID is the greatest."""
        if self.ids is not None:
            self.ids.extend((number >> 64, number & MAX_U64))
        self.last = number
        self.size += 1
        self.live += 1


class Delivery(Block):
    """Entries that came in the order of their IDs, as do those of all deliveries of the same millisecond.

    Such deliveries to several consumers may therefore be extended by turns; who needs the order in which all of them
    came merges them by ID. Nothing else that happens to entries can be ordered afterwards.
    """

    __slots__ = ()


class Consumer:
    """A member of a group.

    Attributes:
        seen_ms: last time a command named it.
        active_ms: last time it was given entries, NEVER (-1) if it never was.
        pending: number of entries it owns.
        blocks: its blocks in the order they were made, dead ones among them.
        since: how many entries the group had ever delivered when the newest delivery to it began.
        order: its entries in ID order, and others that have been its own; None while nobody asks for them.
    """

    __slots__ = ("_prune_at", "active_ms", "blocks", "name", "order", "pending", "seen_ms", "since")

    def __init__(self, name: bytes, seen_ms: int, active_ms: int = NEVER) -> None:
        self.name = name
        self.seen_ms = seen_ms
        self.active_ms = active_ms
        self.pending = 0
        self.since = 0
        self.blocks: list[Block] = []
        self.order: IdOrder | None = None
        self._prune_at = SLACK

    def add(self, block: Block) -> None:
        """Keep a new block. ``pending`` is the caller's to count."""
        blocks = self.blocks
        blocks.append(block)
        if len(blocks) > self._prune_at:
            blocks[:] = [block for block in blocks if block.live]
            self._prune_at = 2 * len(blocks) + SLACK
