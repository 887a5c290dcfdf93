"""Hide the differences between the versions of PySpark, from 4.0 on; no other module tests the version.

Before 4.2 Spark asks a stream's reader for its latest offset without passing the query's position and the limit:
`stream_reader` keeps both. Before 4.1 Spark passes no filters, and a streaming sink gets rows instead of Arrow
batches: `stream_writer` makes batches of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from pyspark import __version__
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, DataSourceStreamWriter

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition, WriterCommitMessage
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )
    from pyspark.sql.types import Row, StructType

    DataSourceStreamArrowWriter = datasource.DataSourceStreamArrowWriter
else:
    try:
        from pyspark.sql.streaming.datasource import (
            ReadAllAvailable,
            ReadLimit,
            ReadMaxBytes,
            ReadMaxRows,
            ReadMinRows,
            SupportsTriggerAvailableNow,
        )
    except ImportError:

        class ReadLimit:
            """A limit of a batch, as in PySpark 4.2."""

        class ReadAllAvailable(ReadLimit):
            """No limit."""

        @dataclass(frozen=True)
        class ReadMaxRows(ReadLimit):
            """At most this many rows."""

            max_rows: int

        @dataclass(frozen=True)
        class ReadMinRows(ReadLimit):
            """At least this many rows, or none yet."""

            min_rows: int

        @dataclass(frozen=True)
        class ReadMaxBytes(ReadLimit):
            """About this many bytes."""

            max_bytes: int

        class SupportsTriggerAvailableNow:
            """A marker class of PySpark 4.2; older versions ignore it."""

    DataSourceStreamArrowWriter = getattr(datasource, "DataSourceStreamArrowWriter", DataSourceStreamWriter)

__all__ = [
    "DataSourceStreamArrowWriter", "ReadAllAvailable", "ReadLimit", "ReadMaxBytes", "ReadMaxRows",
    "ReadMinRows", "SupportsTriggerAvailableNow", "arrow_schema", "stream_reader", "stream_writer",
]  # fmt: skip

VERSION: Final = tuple(map(int, __version__.split(".")[:2]))
HANDS_OVER_FILTERS: Final = hasattr(DataSourceReader, "pushFilters")
HAS_LIMITS: Final = hasattr(DataSourceStreamReader, "getDefaultReadLimit")
_STREAMS_ARROW: Final = hasattr(datasource, "DataSourceStreamArrowWriter")
# For each checkpoint file Hadoop's FileContext, Spark's default, starts chmod or readlink about ten times: 60 ms of a
# micro-batch. Its FileSystem writes the same files and checksums with two.
_MANAGERS: Final = "org.apache.spark.sql.execution.streaming."
CHECKPOINT_MANAGER: Final = (
    f"{_MANAGERS}{'checkpointing.' if VERSION >= (4, 1) else ''}FileSystemBasedCheckpointFileManager"
)
_ROWS: Final = 10_000


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow types of Spark columns; times are in UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    is_asked = "timezone" in inspect.signature(to_arrow_schema).parameters
    return to_arrow_schema(schema, timezone="UTC") if is_asked else to_arrow_schema(schema)


def stream_reader(reader: Any) -> DataSourceStreamReader:
    """Return a reader for the installed version of PySpark from one written for PySpark 4.2."""
    found: DataSourceStreamReader = reader if HAS_LIMITS else UnaskedReader(reader)
    return found


def stream_writer(writer: Any, schema: StructType) -> DataSourceStreamWriter:
    """Return a writer for the installed version of PySpark from one that takes Arrow batches."""
    found: DataSourceStreamWriter = writer if _STREAMS_ARROW else RowWriter(writer, schema)
    return found


class UnaskedReader(DataSourceStreamReader):
    """Keeps the position of its query and the limits of the options, because older versions of Spark pass neither.

    Spark 4.0 and 4.1 ask a new query's reader for the latest offset, and only then for the first one. For a restarted
    query Spark first asks for the partitions from its log's last offset to that same offset. Then it runs the
    uncommitted batch, if there is one, and then asks for the latest offset. So at that moment the previous result is
    committed.

    ``reader``: written for PySpark 4.2.
    """

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self._first: dict[str, Any] | None = None
        self._at: dict[str, Any] | None = None

    def __reduce__(self) -> tuple[type, tuple[Any]]:
        return type(self), (self._reader,)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the offset of a new query; the same each time."""
        if self._first is None:
            self._first = self._reader.initialOffset()
        return self._first

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override] # noqa: N802 - as Spark 4.0 has it
        """Return the offset after the next batch."""
        start = self.initialOffset() if self._at is None else self._at
        self._at = self._reader.latestOffset(start, self._reader.getDefaultReadLimit())
        return self._at

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the partitions of a batch; none when a restarted query only passes its position."""
        if self._at is None:
            self._at = end
        if start == end:
            return []
        found: Sequence[InputPartition] = self._reader.partitions(start, end)
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one partition, from the wrapped reader."""
        found: Iterator[pa.RecordBatch] = self._reader.read(partition)
        return found

    def commit(self, end: dict[str, Any]) -> None:
        """Pass the commit to the wrapped reader."""
        self._reader.commit(end)

    def stop(self) -> None:
        """Close the connections of the wrapped reader."""
        self._reader.stop()


class RowWriter(DataSourceStreamWriter):
    """A streaming writer for Spark before 4.1: converts the rows that it gets to Arrow batches."""

    def __init__(self, writer: Any, schema: StructType) -> None:
        self._writer = writer
        self._schema = schema

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        """Write or stage the rows of a task; return its message to the driver."""
        found: WriterCommitMessage = self._writer.write(self._batches(iterator))
        return found

    def _batches(self, rows: Iterator[Row]) -> Iterator[pa.RecordBatch]:
        from pyspark.sql.conversion import LocalDataToArrowConversion

        while some := list(islice(rows, _ROWS)):
            yield from LocalDataToArrowConversion.convert(
                some, self._schema, use_large_var_types=False
            ).to_batches()

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Pass the commit to the wrapped writer, which publishes the rows of all tasks."""
        self._writer.commit(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Pass the failure to the wrapped writer, which removes the staged rows of the tasks."""
        self._writer.abort(messages, batchId)
