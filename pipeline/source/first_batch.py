"""Keep the start of a query's first batch in the offset of its end.

Spark logs the end of each batch; its start is the end of the previous batch. If a query dies in its first batch, Spark
asks it again for its start. By then ``latest`` is a later position, so entries that arrived in between would never be
read.
"""

from __future__ import annotations

from typing import Any, Final

Tree = dict[str, Any]
_BEGIN: Final = "begin"


class FirstBatch:
    """Recognises the first batch of a query, and keeps its start in the offset of its end."""

    def __init__(self) -> None:
        self._initial: Tree | None = None

    def begins_at(self, start: Tree) -> Tree:
        """Record the start offset of a new query, and return it."""
        self._initial = start
        return start

    def following(self, start: Tree, end: Tree) -> Tree:
        """Return the offset ``end`` of a batch; for the first batch, with the start added."""
        return end | {_BEGIN: start} if start == self._initial else end


def begin_of(start: Tree, end: Tree) -> Tree:
    """Return the start of the batch that ends at ``end``: the one kept in it, or else ``start``, from Spark."""
    found: Tree = end.get(_BEGIN, start)
    return found
