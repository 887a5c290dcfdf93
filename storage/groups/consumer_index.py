"""Some of a group's pending IDs in order: what one consumer has.

The IDs stand in chunks, ascending. A removal does not touch them: what is no longer there is skipped, and dropped
when a walk passes much of it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CHUNK: Final = 512  # IDs per chunk, about


class IdOrder:
    """IDs by size, of which some may no longer be of interest.

    Attributes:
        listed: about how many stand here, those that are not there any more among them.
    """

    __slots__ = ("_chunks", "_firsts", "_highest", "listed")

    def __init__(self) -> None:
        self.listed = 0
        self._chunks: list[list[int]] = []  # each ascending and not empty, one after the other
        # A lower bound for the IDs in each chunk, greater than all before it.
        self._firsts: list[int] = []
        self._highest = -1

    def append(self, numbers: list[int]) -> None:
        """List IDs that ascend and are all greater than those that were ever listed."""
        chunks = self._chunks
        if chunks and len(chunks[-1]) + len(numbers) <= CHUNK:
            chunks[-1] += numbers
        else:
            for at in range(0, len(numbers), CHUNK):
                chunks.append(numbers[at : at + CHUNK])
                self._firsts.append(numbers[at])
        self._highest = numbers[-1]
        self.listed += len(numbers)

    def insert(self, number: int) -> None:
        """List one ID wherever it belongs; it may be listed already."""
        if number > self._highest:
            self.append([number])
            return
        chunks, firsts = self._chunks, self._firsts
        if not chunks:
            chunks.append([number])
            firsts.append(number)
            return
        which = max(bisect_right(firsts, number) - 1, 0)
        firsts[which] = min(firsts[which], number)
        chunk = chunks[which]
        at = bisect_left(chunk, number)
        self.listed += 1
        if at < len(chunk) and chunk[at] == number:
            return
        chunk.insert(at, number)
        if len(chunk) > 2 * CHUNK:
            chunks.insert(which + 1, chunk[CHUNK:])
            firsts.insert(which + 1, chunk[CHUNK])
            del chunk[CHUNK:]

    def runs(
        self, is_there: Callable[[int], bool], start: int = 0, piece: int = CHUNK
    ) -> Iterator[list[int]]:
        """The IDs from ``start`` on that still are there, in lists that are not empty.

        Nothing may be added before the walk is over. ``piece`` is how many are looked at first; a walk that may end
        soon asks for few.
        """
        chunks = self._chunks
        at = offset = 0
        if start and chunks and self._firsts[0] < start:  # walks mostly begin at the beginning
            at = bisect_right(self._firsts, start) - 1
            offset = bisect_left(chunks[at], start)
        while at < len(chunks):
            chunk = chunks[at]
            part = chunk[offset : offset + piece]
            living = list(filter(is_there, part))
            if len(living) * 2 < len(part):
                chunk[offset : offset + piece] = living
                if not chunk:
                    del chunks[at], self._firsts[at]
                    continue
                offset += len(living)
            else:
                offset += len(part)
            if offset >= len(chunk):
                at += 1
                offset = 0
            piece = min(piece * 4, CHUNK)
            if living:
                yield living
