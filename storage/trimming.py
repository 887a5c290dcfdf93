"""MAXLEN and MINID: how a stream loses its oldest entries, exactly or by whole macro nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .chunk import Chunk
    from .nodes import Nodes


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

        def _rank(self, stream_id: int) -> int: ...

        def _cut_left(self, number: int, removed_ids: list[bytes] | None) -> None: ...

    def trim_to_length(
        self,
        threshold: int,
        *,
        approximate: bool = False,
        limit: int = 0,
        removed_ids: list[bytes] | None = None,
    ) -> int:
        """MAXLEN: remove the oldest entries until at most ``threshold`` are left.

        Args:
            threshold: 0 or more.
            approximate: remove only whole nodes (``~``).
            limit: approximate only: remove no node that would bring the number above it; 0 for no limit.
            removed_ids: takes the ID texts of the entries removed, if given.

        Returns:
            How many entries were removed.
        """
        excess = self.length - threshold
        if excess <= 0:
            return 0
        if not threshold and not limit:
            return self._remove_everything(removed_ids)
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
        self._cut_left(removed, removed_ids)
        return removed

    def trim_before(
        self,
        threshold: int,
        *,
        approximate: bool = False,
        limit: int = 0,
        removed_ids: list[bytes] | None = None,
    ) -> int:
        """MINID: remove the entries whose IDs are smaller than ``threshold``.

        The options and the result are those of ``trim_to_length``.
        """
        if self.first_physical_id >= threshold:
            return 0
        if threshold > self.last_id and not limit:
            return self._remove_everything(removed_ids)
        excess = self._rank(threshold)
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
        self._cut_left(removed, removed_ids)
        return removed

    def _forget_nodes(self, whole: int) -> int:
        """The first nodes go; answers the index of the first one left: 0."""
        if whole:
            self._nodes.forget_first(whole)
        return 0

    def _remove_everything(self, removed_ids: list[bytes] | None) -> int:
        removed = self.length
        self._nodes.clear()
        self._cut_left(removed, removed_ids)
        return removed
