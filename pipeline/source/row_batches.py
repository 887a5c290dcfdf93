"""Collect entries of one stream after another into batches of rows, limited by bytes and by rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from .entry_batches import Columns
from .sizes import BATCH_BYTES, cut


class RowBatches:
    """Collects entries until they fill a batch of rows.

    Args:
        rows: a batch with this many rows is full.
        extra: names of columns whose values the caller supplies.
    """

    def __init__(self, columns: Columns, rows: int, extra: Sequence[str] = ()) -> None:
        self._columns = columns
        self._rows = rows
        self._names = extra
        self._empty()

    def _empty(self) -> None:
        self._entries: list[Any] = []
        self._streams: list[tuple[str, int]] = []
        self._extra: dict[str, list[Any]] = {name: [] for name in self._names}
        self._size = 0

    def add(self, stream: str, entries: Sequence[Any], size: int, *extra: Any) -> Iterator[pa.RecordBatch]:
        """Add entries of a stream; yield the batches that are now full.

        Args:
            size: their bytes.
            extra: values for the extra columns; each holds for all of these entries.
        """
        for part, length in cut(entries, size):
            if self._entries and self._size + length > BATCH_BYTES:
                yield self._batch()
            self._entries += part
            self._size += length
            self._streams.append((stream, len(part)))
            for name, value in zip(self._names, extra, strict=True):
                self._extra[name] += [value] * len(part)
            if len(self._entries) >= self._rows:
                yield self._batch()

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yield the last, incomplete batch, if there is one."""
        if self._entries:
            yield self._batch()

    def _batch(self) -> pa.RecordBatch:
        found = self._columns.batch(self._streams, self._entries, self._extra)
        self._empty()
        return found
