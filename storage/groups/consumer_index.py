"""Some of a group's pending IDs in order: what one consumer has.

The IDs stand in chunks, ascending. A removal does not touch them: what is no longer there is skipped, and dropped
when a walk passes much of it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from ..freeing import Freeable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


class IdOrder(Freeable):
    """IDs by size, of which some may no longer be of interest.

    Attributes:
        listed: about how many stand here, those that are not there any more among them.
    """

    __slots__ = ("_chunk", "_chunks", "_firsts", "_highest", "listed")

    def __init__(self, chunk: int) -> None:
        self._chunk = chunk  # IDs per chunk, about
        self.listed = 0
        self._chunks: list[list[int]] = []  # each ascending and not empty, one after the other
        # A lower bound for the IDs in each chunk, greater than all before it.
        self._firsts: list[int] = []
        self._highest = -1

    def parts(self) -> Iterable[object]:
        """Return the IDs in their chunks, and where chunks begin."""
        return self._chunks, self._firsts

    def append(self, numbers: list[int]) -> None:
        """List IDs that ascend and are all greater than those that were ever listed."""
        chunks = self._chunks
        if chunks and len(chunks[-1]) + len(numbers) <= self._chunk:
            chunks[-1] += numbers
        else:
            for at in range(0, len(numbers), self._chunk):
                chunks.append(numbers[at : at + self._chunk])
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
        if len(chunk) > 2 * self._chunk:
            chunks.insert(which + 1, chunk[self._chunk :])
            firsts.insert(which + 1, chunk[self._chunk])
            del chunk[self._chunk :]

    def runs(
        self, is_there: Callable[[int], bool], start: int = 0, piece: int | None = None
    ) -> Iterator[list[int]]:
        """The IDs from ``start`` on that still are there, in lists that are not empty.

        Nothing may be added before the walk is over. ``piece`` is how many are looked at first, None for a chunk; a walk
        that may end soon asks for few.
        """
        chunks = self._chunks
        piece = piece or self._chunk
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
            piece = min(piece * 4, self._chunk)
            if living:
                yield living

    def check_invariants(self, pending: set[int]) -> None:
        """Assert that chunks are in order, and that these IDs are listed; for tests."""
        assert len(self._chunks) == len(self._firsts)
        before = -1
        for chunk, first in zip(self._chunks, self._firsts, strict=True):
            assert before < first <= chunk[0]
            assert chunk == sorted(set(chunk))
            assert len(chunk) <= 2 * self._chunk
            before = chunk[-1]
        assert before <= self._highest
        assert pending <= {number for chunk in self._chunks for number in chunk}
        assert self.listed >= len(pending)
