"""Encode rows as XADD commands (trim options, IDMP, ids, fields), packed as RESP, once for each Arrow batch.

Beside `redis.connection.packed`, only this module packs commands: it encodes the parts common to all rows once. With
hiredis.pack_command for each row the encoder takes 1.1 to 1.9 times as long (CPU time, medians of 7, alternating, 1 to
30 fields, 2026-11-24). `tests/pipeline/sink/test_xadd_encoding.py` compares both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import hiredis
import pyarrow as pa
import pyarrow.compute as pc

from ..error_tokens import LabelledError
from ..redis.key_names import name_of
from .options import SinkOptions
from .texts import texts

# With at most this many rows per producer, the server's window (100 ids per producer by default) never forgets one.
_ROWS_OF_A_PRODUCER: Final = 100


class RowError(LabelledError, ValueError):
    """A row cannot be an entry; the text says which and why."""

    label = "BAD_ROW"


@dataclass(frozen=True)
class Chunk:
    """Some packed XADD commands, and their number."""

    data: bytes
    rows: int

    def commands(self) -> list[list[bytes]]:
        """Return the words of the chunk's commands; only errors need them."""
        reader = hiredis.Reader()
        reader.feed(self.data)
        return [reader.gets() for _ in range(self.rows)]


class RowEncoder:
    """Makes chunks of at most ``chunk_rows`` commands from Arrow batches.

    ``producer``: with IDMP, the prefix of the producer ids; a repeated task gives equal rows equal ids.
    """

    def __init__(self, options: SinkOptions, producer: str = "") -> None:
        self._options = options
        self._producer = producer
        self._rows = 0
        self._trim = b"".join(_bulk(word.encode()) for word in options.trim)
        self._fixed_words = 3 + len(options.trim) + (3 if options.delivery == "idmp" else 0)

    def chunks(self, batches: Iterable[pa.RecordBatch], chunk_rows: int) -> Iterator[Chunk]:
        """Encode all batches of rows as chunks of XADD commands.

        Raises RowError: a row has no fields, no stream, or a null that ``nullPolicy=fail`` forbids.
        ``chunk_rows``: the most rows of a chunk; 0: one chunk per batch.
        """
        for batch in batches:
            size = chunk_rows or max(batch.num_rows, 1)
            for at in range(0, batch.num_rows, size):
                yield self._chunk(batch.slice(at, size))

    def _chunk(self, batch: pa.RecordBatch) -> Chunk:
        options = self._options
        rows = batch.num_rows
        if options.stream_column is not None:
            streams = self._given(batch, options.stream_column, "stream")
            self._refuse_other_slots(streams)
            keys = [_bulk(stream) for stream in streams]
        else:
            assert options.stream is not None
            keys = [_bulk(options.stream.encode())] * rows
        given: list[bytes] | None = None
        if options.id_column is not None:
            given = self._given(batch, options.id_column, "id")
        stream_ids = b"$1\r\n*\r\n" if given is None or options.delivery == "idmp" else None
        idempotent = self._idempotent(rows, given)
        counts, fields = self._fields(batch)
        commands = []
        for row in range(rows):
            if not counts[row]:
                raise RowError(
                    f"row {self._rows + row} of its task has no fields, and an entry needs one (all its columns are "
                    "null: see option 'nullPolicy')"
                )
            entry_id = stream_ids or _bulk(given[row])  # type: ignore[index]
            commands.append(
                b"*%d\r\n$4\r\nXADD\r\n%b%b%b%b%b"
                % (
                    self._fixed_words + 2 * counts[row],
                    keys[row],
                    idempotent[row],
                    self._trim,
                    entry_id,
                    fields[row],
                )
            )
        self._rows += rows
        return Chunk(b"".join(commands), rows)

    def _refuse_other_slots(self, streams: Iterable[bytes]) -> None:
        options = self._options
        if options.endpoint.kind == "cluster" and options.delivery == "exactly-once":
            for stream in set(streams):
                if not options.is_in_marker_slot(name_of(stream)):
                    raise RowError(
                        f"stream {name_of(stream)!r} is in another hash slot than marker {options.marker!r}: "
                        "exactly once, all streams of a cluster have one hash tag; or use delivery=at-least-once"
                    )

    def _given(self, batch: pa.RecordBatch, column: str, what: str) -> list[bytes]:
        values = texts(batch.column(batch.schema.get_field_index(column)))
        for row, value in enumerate(values):
            if not value:
                raise RowError(
                    f"row {self._rows + row} of its task has no {what}: column {column!r} is empty"
                )
        return values  # type: ignore[return-value]

    def _idempotent(self, rows: int, given: list[bytes] | None) -> list[bytes]:
        if self._options.delivery != "idmp":
            return [b""] * rows
        if given is not None:
            producer = _bulk(self._producer.encode())
            return [b"$4\r\nIDMP\r\n%b%b" % (producer, _bulk(word)) for word in given]
        words = []
        for row in range(self._rows, self._rows + rows):
            producer = _bulk(b"%b:%d" % (self._producer.encode(), row // _ROWS_OF_A_PRODUCER))
            words.append(b"$4\r\nIDMP\r\n%b%b" % (producer, _bulk(b"%d" % (row % _ROWS_OF_A_PRODUCER))))
        return words

    def _fields(self, batch: pa.RecordBatch) -> tuple[list[int], list[bytes]]:
        """Return the number of fields of each row, and their RESP."""
        options = self._options
        if options.fields_column is not None:
            return self._own_fields(batch.column(batch.schema.get_field_index(options.fields_column)))
        columns: list[list[bytes]] = []
        nulls = 0
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if name in {options.stream_column, options.id_column}:
                continue
            word, values = _bulk(name.encode()), texts(column)
            nulls += column.null_count
            if nulls and options.null_policy == "fail":
                row = self._rows + values.index(None)
                raise RowError(f"row {row} of its task has no {name!r} (nullPolicy=fail)")
            null = b"" if options.null_policy == "skip" else word + _bulk(b"")
            columns.append(
                [
                    null if value is None else b"%b$%d\r\n%b\r\n" % (word, len(value), value)
                    for value in values
                ]
            )
        counts = [len(columns)] * batch.num_rows
        if nulls:
            counts = [len(row) - row.count(b"") for row in zip(*columns, strict=True)]
        return counts, [b"".join(row) for row in zip(*columns, strict=True)]

    def _own_fields(self, column: pa.Array) -> tuple[list[int], list[bytes]]:
        """Return fields that the rows name themselves; a repeated name stays a repeated field."""
        if pa.types.is_map(column.type):
            pair = pa.struct([("name", column.type.key_type), ("value", column.type.item_type)])
            column = column.cast(pa.list_(pair))
        lengths = [length or 0 for length in pc.list_value_length(column).to_pylist()]
        names, values = (texts(part) for part in column.flatten().flatten())
        counts, rows, at = [], [], 0
        for row, length in enumerate(lengths):
            parts = []
            for name, value in zip(names[at : at + length], values[at : at + length], strict=True):
                if name is None:
                    raise RowError(f"row {self._rows + row} of its task has a field without a name")
                if value is None and self._options.null_policy == "fail":
                    raise RowError(f"row {self._rows + row} of its task has no {name!r} (nullPolicy=fail)")
                if value is not None or self._options.null_policy == "empty":
                    parts.append(_bulk(name) + _bulk(value or b""))
            at += length
            counts.append(len(parts))
            rows.append(b"".join(parts))
        return counts, rows


def _bulk(word: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(word), word)
