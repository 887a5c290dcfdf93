"""The keys of a PEL in ID order, at the cost of next to nothing while deliveries come in order.

The texts stand in chunks, ascending. A removal does not touch them: what is no longer in the PEL is skipped, and
dropped when a walk passes it or when removals have paid for a sweep.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from .stream_id import MAX_ID, encode, parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

CHUNK: Final = 512  # ids per chunk, about
# How many listed ids are looked at for each removal: what is removed stays listed in small part only.
_PACE: Final = 2
_DASH: Final = ord("-")


def first_piece(count: int | None) -> int:
    """How many ids a walk looks at first if so many are wanted."""
    return CHUNK if count is None else max(count, 16)


def collect(runs: Iterable[list[bytes]], end: int, count: int | None) -> list[bytes]:
    """Up to ``count`` ids, none greater than ``end``, of ascending ids in lists that are not empty."""
    found: list[bytes] = []
    if count == 0:
        return found
    for run in runs:
        found += run
        if count is not None and len(found) >= count:
            del found[count:]
            break
        if end < MAX_ID and parse(run[-1]) > end:
            break
    if end < MAX_ID and found and parse(found[-1]) > end:
        del found[bisect_right(found, end, key=parse) :]
    return found


def _position(chunk: list[bytes], number: int) -> int:
    """Where an ID stands among ascending ones, or would stand; as bisect does, but parsing is dear."""
    text = encode(number)
    size, dash = len(text), text.index(b"-")
    low, high = 0, len(chunk)
    while low < high:
        middle = (low + high) >> 1
        other = chunk[middle]
        # Numbers with as many digits are in the order of their texts.
        is_alike = len(other) == size and other[dash] == _DASH
        if other < text if is_alike else parse(other) < number:
            low = middle + 1
        else:
            high = middle
    return low


class IdOrder:
    """An index over a dict whose keys are canonical ID texts.

    The owner adds ids to both and removes them from the dict alone, telling the number of removals (``removed``).

    Attributes:
        highest: the greatest ID that was ever listed (an int; -1: none). Greater ones are in no chunk.
    """

    __slots__ = ("_chunks", "_firsts", "_members", "_owed", "_sample", "_sweep_at", "highest")

    def __init__(self, members: Mapping[bytes, object]) -> None:
        self._members = members
        self._chunks: list[list[bytes]] = []  # each ascending and not empty, one after the other
        # A lower bound for the ids (as integers) in each chunk, greater than all ids before it.
        self._firsts: list[int] = []
        self._owed = 0  # ids the sweep may look at
        self._sweep_at = 0
        self._sample = 0
        self.highest = -1

    def append(self, ids: list[bytes], last: int) -> None:
        """List ids that ascend and are all greater than ``highest``; ``last`` is the last of them."""
        chunks = self._chunks
        if chunks and len(chunks[-1]) + len(ids) <= CHUNK:
            chunks[-1] += ids
        else:
            for at in range(0, len(ids), CHUNK):
                chunks.append(ids[at : at + CHUNK])
                self._firsts.append(parse(ids[at]))
        self.highest = last

    def insert(self, text: bytes, number: int) -> None:
        """List one id wherever it belongs; it may be listed already."""
        if number > self.highest:
            self.append([text], number)
            return
        chunks, firsts = self._chunks, self._firsts
        if not chunks:
            chunks.append([text])
            firsts.append(number)
            return
        which = bisect_right(firsts, number) - 1
        if which < 0:
            which = 0
            firsts[0] = number
        chunk = chunks[which]
        at = _position(chunk, number)
        if at < len(chunk) and chunk[at] == text:
            return
        chunk.insert(at, text)
        if len(chunk) > 2 * CHUNK:
            chunks.insert(which + 1, chunk[CHUNK:])
            firsts.insert(which + 1, parse(chunk[CHUNK]))
            del chunk[CHUNK:]

    def removed(self, count: int) -> None:
        """So many keys have left the dict: look after some chunks in return."""
        self._owed += count * _PACE
        if self._owed < CHUNK:
            return
        chunks, members = self._chunks, self._members
        while self._owed > 0 and chunks:
            at = self._sweep_at = self._sweep_at if self._sweep_at < len(chunks) else 0
            chunk = chunks[at]
            # A sample tells whether it pays; its place moves, so that no pattern escapes it.
            stride = len(chunk) // 8 + 1
            self._sample += 1
            sample = chunk[self._sample % stride :: stride]
            self._owed -= 64  # what it costs, in ids of a whole look
            if 4 * sum(map(members.__contains__, sample)) > 3 * len(sample):
                self._sweep_at += 1
                continue
            self._owed -= len(chunk)
            chunk[:] = filter(members.__contains__, chunk)
            if at and len(chunks[at - 1]) + len(chunk) <= CHUNK:
                chunks[at - 1] += chunk
                self._drop(at)
            elif not chunk:
                self._drop(at)
            else:
                self._sweep_at += 1
        self._owed = min(self._owed, 0)

    def _drop(self, at: int) -> None:
        del self._chunks[at]
        del self._firsts[at]

    def runs(self, start: int = 0, piece: int = CHUNK) -> Iterator[list[bytes]]:
        """The ids from ``start`` on, in lists that are not empty. Nothing may be added before the walk is over.

        ``piece`` is how many are looked at first; a walk that may end soon asks for few.
        """
        chunks, members = self._chunks, self._members
        at = offset = 0
        if start and chunks and self._firsts[0] < start:  # walks mostly begin at the beginning
            at = bisect_right(self._firsts, start) - 1
            offset = _position(chunks[at], start)
        while at < len(chunks):
            chunk = chunks[at]
            part = chunk[offset : offset + piece]
            living = list(filter(members.__contains__, part))
            if len(living) * 2 < len(part):
                chunk[offset : offset + piece] = living
                if not chunk:
                    self._drop(at)
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

    def take(self, start: int = 0, end: int = MAX_ID, count: int | None = None) -> list[bytes]:
        """Up to ``count`` ids from ``start`` to ``end``, both included."""
        return collect(self.runs(start, first_piece(count)), end, count)

    def first(self) -> bytes | None:
        """The smallest id."""
        return next((run[0] for run in self.runs(piece=16)), None)

    def last(self) -> bytes | None:
        """The greatest id."""
        chunks, members = self._chunks, self._members
        while chunks:
            chunk = chunks[-1]
            while chunk and chunk[-1] not in members:
                chunk.pop()
            if chunk:
                return chunk[-1]
            self._drop(-1)
        return None
