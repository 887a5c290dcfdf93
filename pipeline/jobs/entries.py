"""Read the past entries of a stream from the Parquet files of ``ingest``, or from an append-only folder."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from ..folders import JobError
from ..ledger.entries import Entry, aof_entries
from ..redis import ids
from ..redis.key_names import printable_name

_SOME: Final = 10_000


def read_entries(source: Path, stream: str, first: int, last: int, *, db: int = 0) -> Iterator[Entry]:
    """Return the entries of a stream between two ids, both inclusive, in ID order.

    Args:
        source: the folder of an ingest job (with the default columns), or an append-only folder, manifest or file.
        db: the database, for append-only files.

    Raises:
        JobError: the source is neither.
        LedgerError: the append-only file cannot be read.
    """
    if not source.exists():
        raise JobError(f"{source} does not exist")
    if source.is_file() or any(source.glob("*.manifest")):
        return aof_entries(str(source), stream, first, last, db)
    return _parquet_entries(source, stream, first, last)


def _parquet_entries(source: Path, stream: str, first: int, last: int) -> Iterator[Entry]:
    """Merge the entries of several files in order; only files with overlapping ids are open at the same time."""
    import pyarrow.dataset as ds

    dataset = ds.dataset(source, format="parquet", partitioning=None)
    missing = {"stream", "id_key", "fields"} - set(dataset.schema.names)
    if missing:
        raise JobError(
            f"{source} has no column {', '.join(sorted(missing))}: only what ingest wrote without --schema can be replayed"
        )
    low, high = ids.key(first), ids.key(last)
    wanted = (
        (ds.field("stream") == printable_name(stream))
        & (ds.field("id_key") >= low)
        & (ds.field("id_key") <= high)
    )
    waiting = sorted(
        (_least(fragment), number, fragment) for number, fragment in enumerate(dataset.get_fragments())
    )
    waiting.reverse()
    heap: list[tuple[bytes, int, list[bytes], Iterator[tuple[bytes, list[bytes]]]]] = []
    while waiting or heap:
        while waiting and (not heap or waiting[-1][0] <= heap[0][0]):
            _, number, fragment = waiting.pop()
            rows = _rows(fragment.to_table(columns=["id_key", "fields"], filter=wanted))
            if (head := next(rows, None)) is not None:
                heapq.heappush(heap, (head[0], number, head[1], rows))
        if not heap:
            continue
        key, number, words, rows = heap[0]
        yield Entry(ids.from_key(key), words)
        if (following := next(rows, None)) is None:
            heapq.heappop(heap)
        else:
            heapq.heapreplace(heap, (following[0], number, following[1], rows))


def _least(fragment: Any) -> bytes:
    """Return a lower bound of a file's ids."""
    metadata = fragment.metadata
    column = metadata.schema.names.index("id_key")
    found = [metadata.row_group(group).column(column).statistics for group in range(metadata.num_row_groups)]
    return min((each.min if each is not None and each.has_min_max else b"" for each in found), default=b"")


def _rows(table: pa.Table) -> Iterator[tuple[bytes, list[bytes]]]:
    ordered = table.sort_by("id_key")
    for batch in ordered.to_batches(_SOME):
        keys, fields = (column.to_pylist() for column in batch.columns)
        for key, pairs in zip(keys, fields, strict=True):
            yield key, [word for pair in pairs for word in (_bytes(pair["name"]), _bytes(pair["value"]))]


def _bytes(word: str | bytes) -> bytes:
    return word.encode() if isinstance(word, str) else word
