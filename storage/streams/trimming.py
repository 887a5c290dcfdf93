"""MAXLEN and MINID: remove a stream's oldest entries, exactly or by whole macro nodes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from .chunk import AnyChunk, ChunkRun, copy_of, ids_in, opened
from .stream import Stream


class Removed:
    """The entries that a trim removed, for callers that need their IDs afterwards."""

    __slots__ = ("_pieces", "number")

    def __init__(self) -> None:
        self.number = 0
        self._pieces: list[ChunkRun | AnyChunk] = []  # a chunk stands for all its entries

    def add(self, chunks: list[AnyChunk], number: int) -> None:
        """Record the first ``number`` entries of a stream's chunks, which are about to be removed."""
        self.number += number
        for chunk in chunks:
            if number < len(chunk):
                break
            self._pieces.append(chunk)
            number -= len(chunk)
        if number:
            self._pieces.append((opened(copy_of(chunk)), 0, number))

    def pieces(self) -> Iterator[list[ChunkRun]]:
        """Yield all removed entries in order, some at a time."""
        for each in self._pieces:
            if isinstance(each, tuple):
                yield [each]
            else:
                chunk = opened(each)
                yield [(chunk, 0, len(chunk))]

    def texts(self) -> Iterator[list[bytes]]:
        """Yield their IDs as texts, some at a time."""
        for ((chunk, start, stop),) in self.pieces():
            yield chunk.texts(start, stop)

    def ids(self) -> list[int]:
        """Return their IDs."""
        return [number for pieces in self.pieces() for number in ids_in(pieces)]


def trim(
    stream: Stream,
    threshold: int,
    *,
    by_length: bool = True,
    approximate: bool = False,
    limit: int = 0,
    gone: Removed | None = None,
) -> int:
    """Remove the oldest entries, and return how many were removed.

    Args:
        threshold: MAXLEN, the maximum number of entries to keep; or MINID, the smallest ID to keep.
        by_length: True for MAXLEN, False for MINID.
        approximate: remove only whole macro nodes (``~``).
        limit: approximate only: maximum number of entries to remove; 0 for no limit.
        gone: records the removed entries, if given.
    """
    nodes = stream.macro_nodes
    known = nodes.known
    if by_length:
        excess = stream.length - threshold
        if excess <= 0:
            return 0
        removes_all = not threshold
        if approximate and threshold and known and known[0].live > excess:
            return 0  # the node can only grow, so its end does not matter
    else:
        if nodes.first_id >= threshold:
            return 0
        removes_all = threshold > stream.last_id
        excess = 0 if removes_all and not limit else stream.rank(threshold)
    if removes_all and not limit:
        removed = stream.length
        nodes.clear()
        _cut(stream, removed, gone)
        return removed
    removed = whole = 0
    while not by_length or removed < excess:
        if len(known) - whole < 2:
            if whole:
                nodes.forget_first(whole)
                whole = 0
            nodes.account_first()
        if whole == len(known):
            break
        node = known[whole]
        if limit and removed + node.live > limit:
            break
        if removed + node.live <= excess if by_length else node.last_id < threshold:
            removed += node.live
            whole += 1
            continue
        if not approximate:
            node.live -= excess - removed
            node.deleted += excess - removed
            removed = excess
        break
    if removed:
        if whole:
            nodes.forget_first(whole)
        _cut(stream, removed, gone)
    return removed


def trims_far(stream: Stream, by_length: bool, threshold: int, limit: int) -> bool:
    """Return True if a trim must first compute the macro nodes of more than ``FAR`` chunks to find its end.

    The arguments are those of ``trim``.
    """
    if not by_length:
        border = bisect_right(stream.firsts, threshold) if threshold <= stream.last_id or limit else 0
    elif threshold or limit:
        border = (stream.length - threshold) // stream.chunk_entries
    else:
        border = 0  # everything is removed
    return stream.macro_nodes.is_far_at(min(border, limit // stream.chunk_entries + 1) if limit else border)


def _cut(stream: Stream, number: int, gone: Removed | None) -> None:
    if gone is not None:
        gone.add(stream.chunks, number)
    stream.cut_left(number)
