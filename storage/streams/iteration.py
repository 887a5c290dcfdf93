"""Read many entries of a stream once, for files and trimming; packed chunks stay packed."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from .chunk import AnyChunk, ChunkRun, ids_in, opened
from .ids import MAX_ID

if TYPE_CHECKING:
    from .stream import Stream


def iter_entries(stream: Stream) -> Iterator[tuple[int, bytes, bytes]]:
    r"""Yield every entry in order, for rewriting: ID, ID text, and the field part ``*<2k>\r\n$…``."""
    for each in stream.chunks:
        chunk = opened(each)
        offsets, heads, ms, seq = chunk.offsets, chunk.heads, chunk.ms, chunk.seq
        base = offsets[0]
        raw = bytes(chunk.data[base:])
        for position, text in enumerate(chunk.texts(0, len(chunk), raw)):
            begin = offsets[position] + heads[position] - base
            yield ms[position] << 64 | seq[position], text, raw[begin : offsets[position + 1] - base]


def pieces_between(stream: Stream, start: int, end: int) -> Iterator[ChunkRun]:
    """Yield the entries from ``start`` to ``end``, both inclusive, in pieces; the chunks may be unpacked copies."""
    for each in stream.chunks[max(bisect_right(stream.firsts, start) - 1, 0) :]:
        chunk = opened(each)
        stop = chunk.position(end + 1)
        first = chunk.position(start)
        if first < stop:
            yield chunk, first, stop
        if stop < len(chunk):
            return


def ids_from(stream: Stream, start: int) -> Iterator[int]:
    """Yield the IDs of the entries from ``start`` on, inclusive."""
    for piece in pieces_between(stream, start, MAX_ID):
        yield from ids_in([piece])


def pieces(chunks: Iterable[AnyChunk], starts: Iterable[int]) -> Iterator[tuple[int, int, bytes]]:
    """Yield all entries of chunks in pieces: the start of the piece, its number of entries, and their bytes.

    Args:
        chunks: the chunks, which are read once.
        starts: the smallest ID of each piece, ascending; no entry comes before the first of them.
    """
    borders = iter(starts)
    start = next(borders, MAX_ID + 1)
    border = next(borders, MAX_ID + 1)
    number = 0
    parts: list[bytes] = []
    for each in chunks:
        chunk = opened(each)
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
