"""What the installed PySpark has, from 4.0 on; all that differs between its versions is decided here.

Before 4.2 a stream's reader is asked for its latest offset without a word of where the query stands and how much it
wants: `stream_reader` keeps both. Before 4.1 filters are not handed over, and a streaming sink gets rows instead of Arrow
batches: `stream_writer` makes batches of them.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from pyspark import __version__
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, DataSourceStreamWriter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
            """How much a batch may read."""

        class ReadAllAvailable(ReadLimit):
            """All."""

        @dataclass(frozen=True)
        class ReadMaxRows(ReadLimit):
            """So many rows, or fewer."""

            max_rows: int

        @dataclass(frozen=True)
        class ReadMinRows(ReadLimit):
            """So many rows, or none yet."""

            min_rows: int

        @dataclass(frozen=True)
        class ReadMaxBytes(ReadLimit):
            """So many bytes, or a little more."""

            max_bytes: int

        class SupportsTriggerAvailableNow:
            """Nobody asks for it."""

    DataSourceStreamArrowWriter = getattr(datasource, "DataSourceStreamArrowWriter", DataSourceStreamWriter)

__all__ = [
    "DataSourceStreamArrowWriter",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "ReadMaxRows",
    "ReadMinRows",
    "SupportsTriggerAvailableNow",
    "arrow_schema",
    "stream_reader",
    "stream_writer",
]

VERSION: Final = tuple(map(int, __version__.split(".")[:2]))
HANDS_OVER_FILTERS: Final = hasattr(DataSourceReader, "pushFilters")
HAS_LIMITS: Final = hasattr(DataSourceStreamReader, "getDefaultReadLimit")
_STREAMS_ARROW: Final = hasattr(datasource, "DataSourceStreamArrowWriter")
# Of a table function that has the rows of a partition: before 4.2 it gets one after the other.
HAS_ARROW_UDTF: Final = VERSION >= (4, 2)
# For each file of a checkpoint Hadoop's FileContext, which Spark would take, starts a chmod or readlink about ten
# times: 60 ms of a micro-batch. Its FileSystem does the same, with the same files and checksums, in two.
_MANAGERS: Final = "org.apache.spark.sql.execution.streaming."
CHECKPOINT_MANAGER: Final = (
    f"{_MANAGERS}{'checkpointing.' if VERSION >= (4, 1) else ''}FileSystemBasedCheckpointFileManager"
)
_ROWS: Final = 10_000


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return what Arrow calls the types of columns; times are in UTC."""
    from pyspark.sql.pandas.types import to_arrow_schema

    is_asked = "timezone" in inspect.signature(to_arrow_schema).parameters
    return to_arrow_schema(schema, timezone="UTC") if is_asked else to_arrow_schema(schema)


def stream_reader(reader: Any) -> DataSourceStreamReader:
    """Return a reader that Spark can ask, of one that is written for 4.2."""
    found: DataSourceStreamReader = reader if HAS_LIMITS else UnaskedReader(reader)
    return found


def stream_writer(writer: Any, schema: StructType) -> DataSourceStreamWriter:
    """Return a writer that Spark can give rows, of one that takes Arrow batches."""
    found: DataSourceStreamWriter = writer if _STREAMS_ARROW else RowWriter(writer, schema)
    return found


class UnaskedReader(DataSourceStreamReader):
    """Remembers where its query stands, and keeps the limits of the options itself.

    Spark 4.0 and 4.1 ask a new query's reader for the latest offset, and only then for the first one. A query that starts again
    asks for the partitions between its log's last offset and that same offset first of all; then it runs the batch that was
    not committed, if there is one; then it asks for the latest offset. So what was returned last is committed by then.

    Args:
        reader: of ours.
    """

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self._first: dict[str, Any] | None = None
        self._at: dict[str, Any] | None = None

    def __reduce__(self) -> tuple[type, tuple[Any]]:
        return type(self), (self._reader,)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return where a new query starts: the same each time."""
        if self._first is None:
            self._first = self._reader.initialOffset()
        return self._first

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override] # noqa: N802 - as Spark 4.0 has it
        """Return how far the next batch goes."""
        start = self.initialOffset() if self._at is None else self._at
        self._at = self._reader.latestOffset(start, self._reader.getDefaultReadLimit())
        return self._at

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the parts of a batch; none where a query that starts again says where it stands."""
        if self._at is None:
            self._at = end
        if start == end:
            return []
        found: Sequence[InputPartition] = self._reader.partitions(start, end)
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of one."""
        found: Iterator[pa.RecordBatch] = self._reader.read(partition)
        return found

    def commit(self, end: dict[str, Any]) -> None:
        """Tell the reader that a batch is done."""
        self._reader.commit(end)

    def stop(self) -> None:
        """Close its connections."""
        self._reader.stop()


class RowWriter(DataSourceStreamWriter):
    """Makes Arrow batches of a streaming query's rows.

    Args:
        writer: takes the batches.
        schema: of the rows.
    """

    def __init__(self, writer: Any, schema: StructType) -> None:
        self._writer = writer
        self._schema = schema

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        """Write, or hand on, the rows of a task."""
        found: WriterCommitMessage = self._writer.write(self._batches(iterator))
        return found

    def _batches(self, rows: Iterator[Row]) -> Iterator[pa.RecordBatch]:
        from pyspark.sql.conversion import LocalDataToArrowConversion

        while some := list(islice(rows, _ROWS)):
            yield from LocalDataToArrowConversion.convert(
                some, self._schema, use_large_var_types=False
            ).to_batches()

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Publish the rows of all tasks."""
        self._writer.commit(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Remove what tasks staged."""
        self._writer.abort(messages, batchId)
