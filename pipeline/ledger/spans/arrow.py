"""Replay Arrow batches of rows into batches of spans, in this process or as a function of ``mapInArrow``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa

from ..schema import NAMES, Span, arrow
from .spans import Replay

_SCHEMA: Final = arrow(spans=True)
_BATCH: Final = 1 << 13


def replay(rows: pa.Table) -> pa.Table:
    """Return the spans of a whole ledger as a table; ``rows`` are in order."""
    lineage = pa.repeat(pa.scalar(""), rows.num_rows)
    return pa.Table.from_batches(replayed(rows.append_column("lineage", lineage).to_batches()), _SCHEMA)


def replayed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the spans of rows in batches.

    The rows have a column ``lineage``, the group of keys that were renamed or copied into one another. They are
    sorted by it, and in order within one lineage; each lineage is replayed alone.
    """
    state, lineage = Replay(), None
    found: list[Span] = []
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in ("lineage", *NAMES)]
        for line, *row in zip(*columns, strict=True):
            if line != lineage:
                found += state.rest()
                state, lineage = Replay(), line
            found += state.feed(row)
        if len(found) >= _BATCH:
            yield _batch(found)
            found.clear()
    found += state.rest()
    if found:
        yield _batch(found)


def _batch(spans: list[Span]) -> pa.RecordBatch:
    columns = zip(zip(*spans, strict=True), _SCHEMA, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(values, field.type) for values, field in columns], schema=_SCHEMA
    )
