"""Compute the ordinal of each record of a file from the block in which the record ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import schema as on

if TYPE_CHECKING:
    from .scan import Cursor


class Ordinals:
    """Numbers the records of a file, starting at some place.

    Args:
        origin: added to all ordinals.
        start: the place of the first record.
    """

    def __init__(self, origin: int, start: Cursor) -> None:
        self._origin = origin
        self._block = start.position // on.BLOCK
        self._index = start.index  # of the next record, if it ends in this block

    def of_block(self, block: int, number: int) -> range:
        """Return the ordinals of the next records, all of which end in one block."""
        if block != self._block:
            self._block, self._index = block, 0
        first = self._origin + block * on.BLOCK_ORDINAL + self._index * on.RECORD
        self._index += number
        return range(first, first + number * on.RECORD, on.RECORD)
