"""Run ``Replay`` as a table function of Spark: the rows of a lineage go in, in order, and spans come out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from ..schema import NAMES, arrow
from .spans import Replay, Span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql.types import Row

_SCHEMA = arrow(spans=True)
_BATCH = 1 << 13


def replay(rows: pa.Table) -> pa.Table:
    """Return the spans of a whole ledger, computed in this process.

    Args:
        rows: of ``redis-aof``, in order.
    """
    function = Spans()
    found = [spans for batch in rows.to_batches() for spans in function.eval(batch)]
    return pa.concat_tables([_SCHEMA.empty_table(), *found, *function.terminate()])


class Spans:
    """The table function; Spark makes one for each lineage."""

    def __init__(self) -> None:
        self._replay = Replay()
        self._found: list[Span] = []

    def eval(self, rows: pa.RecordBatch) -> Iterator[pa.Table]:
        """Apply rows in order; return the spans that they end."""
        feed, found = self._replay.feed, self._found
        for row in zip(*(rows.column(name).to_pylist() for name in NAMES), strict=True):
            found += feed(row)
        if len(found) >= _BATCH:
            yield self._table()

    def terminate(self) -> Iterator[pa.Table]:
        """Yield the open spans."""
        self._found += self._replay.rest()
        if self._found:
            yield self._table()

    def _table(self) -> pa.Table:
        columns = list(zip(*self._found, strict=True))
        self._found.clear()
        return pa.Table.from_arrays(
            [pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)],
            schema=_SCHEMA,
        )


class RowSpans:
    """The same table function for a Spark version that passes one row at a time instead of Arrow batches."""

    def __init__(self) -> None:
        self._replay = Replay()

    def eval(self, row: Row) -> Iterator[Span]:
        """Apply the next row; return the spans that it ends."""
        yield from self._replay.feed(tuple(row[name] for name in NAMES))

    def terminate(self) -> Iterator[Span]:
        """Yield the open spans."""
        yield from self._replay.rest()
