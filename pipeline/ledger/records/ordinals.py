"""Which ordinal each record of a file gets: by the block in which it ends, whoever finds where that is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from .. import schema as on
from .column_builders import spread, upto

if TYPE_CHECKING:
    from .scan import Cursor


class Numbering:
    """Goes along a file with those who read it.

    Args:
        origin: what is added to all ordinals.
        start: where it begins.
    """

    def __init__(self, origin: int, start: Cursor) -> None:
        self._origin = origin
        self._block = start.position // on.BLOCK
        self._index = start.index  # of the next record, if it ends in this block

    def of_block(self, block: int, number: int) -> range:
        """The ordinals of the next records, which all end in one block."""
        if block != self._block:
            self._block, self._index = block, 0
        first = self._origin + block * on.BLOCK_ORDINAL + self._index * on.RECORD
        self._index += number
        return range(first, first + number * on.RECORD, on.RECORD)

    def of_ends(self, ends: Any) -> Any:
        """The ordinals of the next records, by where in the file they end; ``pass_by`` says which were taken."""
        runs = pc.run_end_encode(pc.divide(pc.subtract(ends, 1), on.BLOCK))
        begin, bases = 0, []
        for end, block in zip(runs.run_ends.to_pylist(), runs.values.to_pylist(), strict=True):
            index = self._index if block == self._block else 0
            bases.append((end, self._origin + block * on.BLOCK_ORDINAL + (index - begin) * on.RECORD))
            begin = end
        return pc.add(pc.multiply(upto(len(ends)), on.RECORD), spread(bases, pa.int64()))

    def pass_by(self, ordinal: int) -> None:
        """Go on behind the record with this ordinal."""
        self._block, rest = divmod(ordinal - self._origin, on.BLOCK_ORDINAL)
        self._index = rest // on.RECORD + 1
