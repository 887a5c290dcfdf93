"""How much is known of the macro nodes that Redis would keep a stream in, and learning more of them in small steps."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final

from .chunk import MAX_ENTRIES
from .ids import MAX_ID

if TYPE_CHECKING:
    from .chunk import Chunk
    from .macro_nodes import Node, Nodes

FAR: Final = 32  # chunks that may wait to be accounted for without anybody noticing


class Accounting:
    """The part of ``Stream`` that tells its macro nodes."""

    __slots__ = ()

    length: int
    first_id: int
    last_id: int
    _chunks: list[Chunk]
    _firsts: list[int]
    _nodes: Nodes

    @property
    def is_behind(self) -> bool:
        """Whether telling all macro nodes would take long; ``settle_some`` mends that."""
        return self._is_far(len(self._chunks))

    def is_far(self, stream_id: int) -> bool:
        """Whether telling the node of an entry would take long."""
        return self._is_far(bisect_right(self._firsts, stream_id))

    def trims_far(self, by_length: bool, threshold: int, limit: int) -> bool:
        """Whether finding the border of a trim (see ``Trimming``) would take long."""
        if not by_length:
            border = bisect_right(self._firsts, threshold) if threshold <= self.last_id or limit else 0
        elif threshold or limit:
            border = (self.length - threshold) // MAX_ENTRIES
        else:
            border = 0  # all goes
        return self._is_far(min(border, limit // MAX_ENTRIES + 1) if limit else border)

    def _is_far(self, chunk: int) -> bool:
        return chunk > FAR and chunk - len(self._chunks) + self._nodes.pending(self._chunks) > FAR

    def settle_some(self) -> bool:
        """Account for about a hundred entries; False if there is little left to do."""
        return self._nodes.settle_chunk(self._chunks)

    @property
    def nodes(self) -> int:
        """How many macro nodes Redis would have (XINFO's radix-tree-keys)."""
        self._nodes.settle_all(self._chunks)
        return len(self._nodes.known)

    @property
    def radix_tree_nodes(self) -> int:
        """How many nodes the tree has that Redis keeps the macro nodes in."""
        self._nodes.settle_all(self._chunks)
        return self._nodes.tree_size

    def known_nodes(self) -> list[Node]:
        """The macro nodes, to be read only; removing entries changes them, and takes away those without any."""
        self._nodes.settle_all(self._chunks)
        return self._nodes.known[:]

    @property
    def node_ids(self) -> list[int]:
        """The first ID of each macro node, deleted entries counted: the keys of Redis' radix tree."""
        self._nodes.settle_all(self._chunks)
        return [node.first_id for node in self._nodes.known]

    def adopt_nodes(self, nodes: list[Node]) -> None:
        """Take the macro nodes that a loader found in a file, which cover all entries, for what they are."""
        self._nodes.adopt(nodes)

    @property
    def first_physical_id(self) -> int:
        """The ID of the first entry in the first macro node, a deleted one included; MAX_ID if there is no node."""
        if self._nodes.known:
            return self._nodes.known[0].first_id
        return self.first_id if self.length else MAX_ID
