"""Entries of one stream after the other as batches of rows, which bytes bound as well as rows: what a task of either mode yields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .sizes import BATCH_BYTES, cut

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from .entry_batches import Columns


class RowBatches:
    """Gathers entries until they are worth a batch.

    Args:
        columns: of the rows.
        rows: from so many on a batch is full.
        extra: names of columns that the caller gives the values of.
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
        """Add entries of a stream; yield what is full then.

        Args:
            stream: its name.
            entries: as XRANGE gives them.
            size: their bytes.
            extra: what all of them have in the extra columns.
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
        """Yield what is left, if anything is."""
        if self._entries:
            yield self._batch()

    def _batch(self) -> pa.RecordBatch:
        found = self._columns.batch(self._streams, self._entries, self._extra)
        self._empty()
        return found
