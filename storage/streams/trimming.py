"""MAXLEN and MINID: how a stream loses its oldest entries, exactly or by whole macro nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .chunk import Chunk, ids_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .chunk import Piece
    from .macro_nodes import Nodes


class Removed:
    """The entries that a trim has removed, for who wants to know their ids.

    Attributes:
        number: how many they are.
    """

    __slots__ = ("_pieces", "number")

    def __init__(self) -> None:
        self.number = 0
        self._pieces: list[Piece | Chunk] = []  # chunks stand for all that they have

    def add(self, chunks: list[Chunk], whole: int, more: int) -> None:
        """The first chunks of a stream are about to go whole, and so many entries of the next one."""
        self.number += sum(map(len, chunks[:whole])) + more
        self._pieces += chunks[:whole]
        if more:
            self._pieces.append((chunks[whole].copy(), 0, more))

    def pieces(self) -> Iterator[list[Piece]]:
        """All of them in order, some at a time."""
        for each in self._pieces:
            if isinstance(each, Chunk):
                chunk = each.opened()
                yield [(chunk, 0, len(chunk))]
            else:
                yield [each]

    def ids(self) -> list[int]:
        """Their IDs."""
        return [number for pieces in self.pieces() for number in ids_in(pieces)]


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
