"""Where a query's first batch begins, kept in the offset with which it ends.

Spark's log has the end of each batch, and the start of none: it is the end of the one before. A query that dies in its first
batch is asked once more where it starts, and ``latest`` is somewhere else by then: what had come in between would never be read.
"""

from __future__ import annotations

from typing import Any, Final

Tree = dict[str, Any]
_BEGIN: Final = "begin"


class FirstBatch:
    """Knows which batch is the first one of a query."""

    def __init__(self) -> None:
        self._initial: Tree | None = None

    def begins_at(self, start: Tree) -> Tree:
        """Note, and return, where a new query starts."""
        self._initial = start
        return start

    def following(self, start: Tree, end: Tree) -> Tree:
        """Return the end of a batch; that of the first one says where it began."""
        return end | {_BEGIN: start} if start == self._initial else end


def begin_of(start: Tree, end: Tree) -> Tree:
    """Return where a batch begins, which Spark says that it begins at ``start``."""
    found: Tree = end.get(_BEGIN, start)
    return found
