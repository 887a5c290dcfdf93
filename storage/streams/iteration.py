"""Reading many entries of a stream once, for files, claims and trimming; packed chunks stay packed."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, TypeAlias

from .chunk import Chunk, ids_in, opened
from .ids import MAX_ID

if TYPE_CHECKING:
    from array import array
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from .chunk import AnyChunk, ChunkRun
    from .stream import Stream

    # Entries at positions of other columns: their chunk, the first position there, the first position in the columns,
    # and how many they are.
    Run: TypeAlias = tuple[Chunk, int, int, int]


def iter_entries(stream: Stream) -> Iterator[tuple[int, bytes, bytes]]:
    r"""Every entry in order, for rewriting: ID, ID text, and the field part ``*<2k>\r\n$…``."""
    for each in stream.chunks:
        chunk = opened(each)
        offsets, heads, ms, seq = chunk.offsets, chunk.heads, chunk.ms, chunk.seq
        base = offsets[0]
        raw = bytes(chunk.data[base:])
        for position, text in enumerate(chunk.texts(0, len(chunk), raw)):
            begin = offsets[position] + heads[position] - base
            yield ms[position] << 64 | seq[position], text, raw[begin : offsets[position + 1] - base]


def pieces_between(stream: Stream, start: int, end: int) -> Iterator[ChunkRun]:
    """The entries from start to end, both included, in pieces; the chunks may be copies."""
    for each in stream.chunks[max(bisect_right(stream.firsts, start) - 1, 0) :]:
        chunk = opened(each)
        stop = chunk.position(end + 1)
        first = chunk.position(start)
        if first < stop:
            yield chunk, first, stop
        if stop < len(chunk):
            return


def find_runs(
    stream: Stream, ms: array[int], seq: array[int], start: int, stop: int, are_many: bool = False
) -> list[Run]:
    """Which of some IDs, ascending, are entries of the stream: runs that are neighbours here as well.

    Args:
        stream: the stream.
        ms: the first halves of the IDs; fastest if it is the column of a chunk.
        seq: the second halves.
        start: the position of the first ID in these columns.
        stop: the position after the last one.
        are_many: whether packed chunks shall stay packed, because many are read.
    """
    chunks, firsts = stream.chunks, stream.firsts
    runs: list[Run] = []
    at = start
    while at < stop and chunks:
        number = ms[at] << 64 | seq[at]
        index = max(bisect_right(firsts, number) - 1, 0)
        chunk = chunks[index]
        if type(chunk) is not Chunk:
            chunk = Chunk.of(chunk) if are_many else stream.open(index)
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


def missing_in(runs: list[Run], positions: Sequence[int]) -> Collection[int]:
    """Those of some positions, ascending, that lie in no run; the runs lie between the first and the last of them."""
    first, stop = positions[0], positions[-1] + 1
    if sum([size for _, _, _, size in runs]) == stop - first:
        return ()
    there = {at for _, _, begin, size in runs for at in range(begin, begin + size)}
    return {at for at in positions if at not in there}


def entries_at(runs: list[Run], positions: Sequence[int]) -> list[bytes]:
    """The encoded entries at some positions, ascending, all of which lie in the runs; in one or more parts."""
    parts: list[bytes] = []
    rest = iter(runs)
    chunk, place, begin, size = next(rest)
    for start, stop in _segments(positions):
        at = start
        while at < stop:
            while begin + size <= at:
                chunk, place, begin, size = next(rest)
            end = min(stop, begin + size)
            offsets, shift = chunk.offsets, place - begin
            parts.append(bytes(chunk.data[offsets[at + shift] : offsets[end + shift]]))
            at = end
    return parts


def owner_of(stream: Stream, ms: array[int], seq: array[int], at: int) -> Chunk | None:
    """The chunk that owns two columns, by an ID in them; None if none does that is not packed.

    What stands at a position of the columns is the entry at that position of the chunk then.
    """
    index = bisect_right(stream.firsts, ms[at] << 64 | seq[at]) - 1
    if index < 0:
        return None
    chunk = stream.chunks[index]
    return chunk if type(chunk) is Chunk and chunk.ms is ms else None


def _segments(positions: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Positions, ascending, as intervals without gaps: the first of each and that after the last."""
    if type(positions) is range:
        yield positions.start, positions.stop
        return
    first = last = positions[0]
    for at in positions[1:]:
        if at != last + 1:
            yield first, last + 1
            first = at
        last = at
    yield first, last + 1


def ids_from(stream: Stream, start: int) -> Iterator[int]:
    """The IDs of the entries from ``start`` on."""
    for piece in pieces_between(stream, start, MAX_ID):
        yield from ids_in([piece])


def pieces(chunks: Iterable[AnyChunk], starts: Iterable[int]) -> Iterator[tuple[int, int, bytes]]:
    """All entries of chunks in pieces: where a piece starts, how many entries it has, and their bytes.

    Args:
        chunks: they are read once.
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
