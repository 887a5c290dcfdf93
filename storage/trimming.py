"""MAXLEN and MINID: how a stream loses its oldest entries, exactly or by whole macro nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .stream_id import encode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .chunk import Chunk
    from .nodes import Nodes


class Removed:
    """The entries that a trim has removed, for who wants to know their ids.

    Attributes:
        number: how many they are.
    """

    __slots__ = ("_chunks", "_ids", "number")

    def __init__(self) -> None:
        self.number = 0
        self._chunks: list[Chunk] = []
        self._ids: list[int] = []  # of those before the first one that is left, in its chunk

    def add(self, chunks: list[Chunk], whole: int, more: int) -> None:
        """The first chunks of a stream are about to go whole, and so many entries of the next one."""
        self.number += sum(map(len, chunks[:whole])) + more
        self._chunks += chunks[:whole]
        self._ids += [chunks[whole].id_at(position) for position in range(more)]

    def pieces(self) -> Iterator[list[bytes]]:
        """Their canonical texts in order, some at a time."""
        for chunk in self._chunks:
            opened = chunk.opened()
            yield [b"%d-%d" % pair for pair in zip(opened.ms, opened.seq, strict=True)]
        yield list(map(encode, self._ids))

    def texts(self) -> list[bytes]:
        """All of them."""
        return [text for piece in self.pieces() for text in piece]


class Trimming:
    """The part of ``Stream`` that trims."""

    __slots__ = ()

    length: int
    last_id: int
    _chunks: list[Chunk]
    _nodes: Nodes

    if TYPE_CHECKING:

        @property
        def first_physical_id(self) -> int:
            """See ``Stream``."""

        def rank(self, stream_id: int) -> int:
            """See ``Stream``."""

        def _cut_left(self, number: int, gone: Removed | None) -> None: ...

    def trim_to_length(
        self,
        threshold: int,
        *,
        approximate: bool = False,
        limit: int = 0,
        gone: Removed | None = None,
    ) -> int:
        """MAXLEN: remove the oldest entries until at most ``threshold`` are left.

        Args:
            threshold: 0 or more.
            approximate: remove only whole nodes (``~``).
            limit: approximate only: remove no node that would bring the number above it; 0 for no limit.
            gone: takes the entries that are removed, if given.

        Returns:
            How many entries were removed.
        """
        excess = self.length - threshold
        if excess <= 0:
            return 0
        if not threshold and not limit:
            return self._remove_everything(gone)
        known = self._nodes.known
        if approximate and known and known[0].live > excess:
            return 0  # and it can only grow: no need to look for its end
        removed = whole = 0
        while removed < excess:
            if len(known) - whole < 2:
                whole = self._forget_nodes(whole)
                self._nodes.settle_first(self._chunks)
            node = known[whole]
            if limit and removed + node.live > limit:
                break
            if removed + node.live <= excess:
                removed += node.live
                whole += 1
            elif approximate:
                break
            else:
                node.live -= excess - removed
                node.deleted += excess - removed
                removed = excess
        self._forget_nodes(whole)
        self._cut_left(removed, gone)
        return removed

    def untrimmed(self, threshold: int) -> int:
        """How many entries can surely be added before an approximate ``trim_to_length`` removes any; may be negative."""
        known = self._nodes.known
        return threshold - self.length + (known[0].live - 1 if known else 0)

    def trim_before(
        self,
        threshold: int,
        *,
        approximate: bool = False,
        limit: int = 0,
        gone: Removed | None = None,
    ) -> int:
        """MINID: remove the entries whose IDs are smaller than ``threshold``.

        The options and the result are those of ``trim_to_length``.
        """
        if self.first_physical_id >= threshold:
            return 0
        if threshold > self.last_id and not limit:
            return self._remove_everything(gone)
        excess = self.rank(threshold)
        known = self._nodes.known
        removed = whole = 0
        while True:
            if len(known) - whole < 2:
                whole = self._forget_nodes(whole)
                self._nodes.settle_first(self._chunks)
            if whole == len(known):
                break
            node = known[whole]
            if limit and removed + node.live > limit:
                break
            if node.last_id < threshold:
                removed += node.live
                whole += 1
            elif approximate:
                break
            else:
                node.live -= excess - removed
                node.deleted += excess - removed
                removed = excess
                break
        self._forget_nodes(whole)
        self._cut_left(removed, gone)
        return removed

    def _forget_nodes(self, whole: int) -> int:
        """The first nodes go; answers the index of the first one left: 0."""
        if whole:
            self._nodes.forget_first(whole)
        return 0

    def _remove_everything(self, gone: Removed | None) -> int:
        removed = self.length
        self._nodes.clear()
        self._cut_left(removed, gone)
        return removed
