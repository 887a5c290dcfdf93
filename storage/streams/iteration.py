"""Reading all entries of a stream, once, for files and copies; what is packed stays so."""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter
from typing import TYPE_CHECKING, Final, TypeAlias

from .chunk import ids_in
from .ids import MAX_ID

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Iterable, Iterator

    from .chunk import Chunk, Piece

    # Entries at positions of other columns: their chunk, the first position there, the first position in the columns,
    # and how many they are.
    Run: TypeAlias = tuple[Chunk, int, int, int]

_SAMPLES: Final = 64  # chunks


class Sweeping:
    """The part of ``Stream`` that goes through all of it."""

    __slots__ = ()

    length: int
    first_id: int
    last_id: int
    _chunks: list[Chunk]
    _firsts: list[int]

    def iter_entries(self) -> Iterator[tuple[int, bytes, bytes]]:
        r"""Every entry in order, for rewriting: ID, ID text, and the field part ``*<2k>\r\n$…``."""
        for each in self._chunks:
            chunk = each.opened()
            offsets, heads, ms, seq = chunk.offsets, chunk.heads, chunk.ms, chunk.seq
            base = offsets[0]
            raw = bytes(chunk.data[base:])
            for position, text in enumerate(chunk.texts(0, len(chunk), raw)):
                begin = offsets[position] + heads[position] - base
                yield ms[position] << 64 | seq[position], text, raw[begin : offsets[position + 1] - base]

    def pieces_between(self, start: int, end: int) -> Iterator[Piece]:
        """The entries from start to end, both included, in pieces; the chunks may be copies."""
        for each in self._chunks[max(bisect_right(self._firsts, start) - 1, 0) :]:
            chunk = each.opened()
            stop = chunk.position(end + 1)
            first = chunk.position(start)
            if first < stop:
                yield chunk, first, stop
            if stop < len(chunk):
                return

    def find_runs(
        self, ms: array[int], seq: array[int], start: int, stop: int, are_many: bool = False
    ) -> list[Run]:
        """Which of some IDs, ascending, are entries of the stream: runs that are neighbours here as well.

        Args:
            ms: the first halves of the IDs; fastest if it is the column of a chunk.
            seq: the second halves.
            start: the position of the first ID in these columns.
            stop: the position after the last one.
            are_many: whether packed chunks shall stay packed, because many are read.
        """
        chunks, firsts = self._chunks, self._firsts
        runs: list[Run] = []
        at = start
        while at < stop and chunks:
            number = ms[at] << 64 | seq[at]
            index = max(bisect_right(firsts, number) - 1, 0)
            chunk = chunks[index].opened() if are_many else chunks[index]
            if chunk.ms is ms:
                runs.append((chunk, at, at, stop - at))
                break
            position = chunk.find(number)
            if position < 0:
                at += 1
                continue
            size = _common(chunk, position, ms, seq, at, stop)
            runs.append((chunk, position, at, size))
            at += size
        return runs

    def ids_from(self, start: int) -> Iterator[int]:
        """The IDs of the entries from ``start`` on."""
        for piece in self.pieces_between(start, MAX_ID):
            yield from ids_in([piece])

    def pieces(self, starts: Iterable[int]) -> Iterator[tuple[int, int, bytes]]:
        """All entries in pieces, for going through once: where a piece starts, how many entries, and their bytes.

        Args:
            starts: the smallest ID of each piece, ascending; no entry comes before the first of them.
        """
        borders = iter(starts)
        start = next(borders, MAX_ID + 1)
        border = next(borders, MAX_ID + 1)
        number = 0
        parts: list[bytes] = []
        for each in self._chunks:
            chunk = each.opened()
            offsets, data = chunk.offsets, bytes(chunk.data)
            position, size = 0, len(chunk)
            while position < size:
                stop = chunk.position(border)
                number += stop - position
                parts.append(data[offsets[position] : offsets[stop]])
                position = stop
                if stop < size:
                    yield start, number, b"".join(parts)
                    number = 0
                    parts.clear()
                    start, border = border, next(borders, MAX_ID + 1)
        while start <= MAX_ID:
            yield start, number, b"".join(parts)
            number = 0
            parts.clear()
            start, border = border, next(borders, MAX_ID + 1)

    def check_invariants(self) -> None:
        """Assert that chunks, lower bounds and counters agree; for tests."""
        assert len(self._chunks) == len(self._firsts)
        number, before = 0, -1
        for each, first in zip(self._chunks, self._firsts, strict=True):
            chunk = each.opened()
            size = len(chunk)
            assert size == len(chunk.seq) == len(chunk.heads) == len(chunk.offsets) - 1 > 0
            assert len(chunk.data) == chunk.offsets[-1]
            assert before < first <= chunk.id_at(0)
            for at in range(1, size):
                assert chunk.id_at(at - 1) < chunk.id_at(at)
            number, before = number + size, chunk.id_at(-1)
        assert self.length == number
        assert before <= self.last_id
        assert self.first_id == (self._chunks[0].id_at(0) if self._chunks else 0)

    @property
    def payload_bytes(self) -> int:
        """About the bytes of the entries as they are sent; the groups are not counted."""
        return self._estimate(_SAMPLES, attrgetter("payload_bytes"))

    def estimated_bytes(self, samples: int) -> int:
        """About the bytes of memory that the entries take, judged by so many chunks; 0: by all."""
        return self._estimate(samples, attrgetter("size"))

    def _estimate(self, samples: int, size_of: Callable[[Chunk], int]) -> int:
        chunks = self._chunks
        some = chunks[:: -(-len(chunks) // samples)] if chunks and samples else chunks
        return sum(map(size_of, some)) * len(chunks) // len(some) if some else 0


def _common(chunk: Chunk, position: int, ms: array[int], seq: array[int], at: int, stop: int) -> int:
    """How many IDs of a chunk from a position on are those of other columns; the first one is."""
    most = min(stop - at, len(chunk.ms) - position)
    size, step = 1, most - 1
    # As many as stand there, then half of the rest, and so on: slices are compared faster than IDs.
    while step:
        end = size + step
        if (
            chunk.ms[position + size : position + end] == ms[at + size : at + end]
            and chunk.seq[position + size : position + end] == seq[at + size : at + end]
        ):
            size = end
            step = min(step, most - size)
        else:
            step //= 2
    return size
