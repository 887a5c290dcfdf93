"""The writers that Spark calls, for batches and streams: who writes the rows, and when, under each delivery guarantee.

- ``exactly-once`` (default): Tasks pass their rows to the driver, which publishes them when all tasks are done: each
  micro-batch once in the life of a checkpoint, in one transaction up to ``chunkRows`` rows (see `exactly_once`). A
  batch write is published once per ``writeId``; without one, once per ``save()``. A failed job leaves nothing behind.
- ``at-least-once``: Tasks write directly, at once. This is fastest, but a repeated task writes its rows again.
- ``idmp``: Tasks write directly, and the server drops rows that it already has (XADD IDMP, Redis 8.6 and Rillet)
  within its time window.

Mode ``overwrite``, or a query in output mode ``complete``, replaces the entries of the stream in the transaction that
adds the new ones; the stream keeps its consumer groups and its last id.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from ..redis.options import Options
from ..redis.shards import connect
from ..spark_versions import DataSourceStreamArrowWriter
from ..tcp_quick_ack import QuickAck
from .exactly_once import Publisher, Stage, Staged, marker_of
from .options import SinkOptions
from .xadd_encoding import Chunk, RowEncoder
from .xadd_sending import DIRECT_ROWS, SinkError, send

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


__all__ = ["BatchWriter", "StreamWriter", "TaskRows"]

_BATCH_ID = "streaming.sql.batchId"
_QUERY_ID = "sql.streaming.queryId"


@dataclass(frozen=True)
class TaskRows(WriterCommitMessage):
    """A task's report to the driver: the query, and the rows not yet written."""

    query: str
    parts: tuple[Chunk | Staged, ...] = ()


def _write(options: SinkOptions, query: str, batch: int, batches: Iterator[pa.RecordBatch]) -> TaskRows:
    """Process the rows of a task; return its report."""
    with connect(options.endpoint, at_start=True) as connection:
        if options.delivery == "exactly-once":
            chunks = RowEncoder(options).chunks(batches, options.chunk_rows)
            parts = Stage(connection, options, marker_of(options, query)).collect(chunks)
            return TaskRows(query, parts)
        producer = options.producer or query
        if options.id_column is None:
            context = TaskContext.get()
            producer = f"{producer}:{batch}:{context.partitionId() if context else 0}"
        size = min(options.chunk_rows or DIRECT_ROWS, DIRECT_ROWS)
        send(connection, options, RowEncoder(options, producer).chunks(batches, size))
        return TaskRows(query)


class _Writer(QuickAck):
    """What both writers do in the driver.

    ``overwrite``: replace the entries of the stream; of a streaming query with each batch (output mode ``complete``).
    """

    def __init__(
        self, schema: StructType, options: Options | Mapping[str, str], overwrite: bool = False
    ) -> None:
        self._options = SinkOptions.of(options, schema, overwrite=overwrite)

    def _publish(
        self,
        query: str,
        batch: int,
        messages: Sequence[WriterCommitMessage | None],
        *,
        lasting: bool = True,
        rising: bool = False,
    ) -> None:
        """Publish the rows of all tasks.

        Raises SinkError: the report of a task is missing; nothing may be published then.
        """
        reports = [message for message in messages if isinstance(message, TaskRows)]
        if len(reports) != len(messages):
            raise SinkError(
                f"{len(messages) - len(reports)} of {len(messages)} tasks did not say what they wrote"
            )
        if self._options.delivery != "exactly-once":
            return
        with connect(self._options.endpoint, at_start=True) as connection:
            parts = [part for message in reports for part in message.parts]
            publisher = Publisher(connection, self._options, query, lasting=lasting, rising=rising)
            publisher.publish(batch, parts)
            if not lasting:
                connection.call("DEL", publisher.marker, repeatable=True)

    def abort(self, messages: list[WriterCommitMessage | None], _batch: int = 0) -> None:
        """Remove the staged rows of the tasks."""
        reports = [message for message in messages if isinstance(message, TaskRows)]
        if reports and self._options.delivery == "exactly-once":
            with connect(self._options.endpoint, at_start=True) as connection:
                Publisher(connection, self._options, reports[0].query).discard(
                    part for message in reports for part in message.parts
                )


class BatchWriter(_Writer, DataSourceArrowWriter):
    """``df.write.format("redis-streams").mode("append" or "overwrite").save()``."""

    def __init__(self, schema: StructType, options: Options | Mapping[str, str], overwrite: bool) -> None:
        super().__init__(schema, options, overwrite)
        # Created in the driver and pickled into the tasks, so that all tasks and their repetitions have the same.
        self._write_id = self._options.write_id or uuid.uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskRows:
        """Write or stage the rows of a task."""
        return _write(self._options, self._write_id, 0, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish the rows of all tasks of a batch write."""
        # A write without a writeId cannot be repeated and needs no lasting marker.
        number = self._options.write_number
        self._publish(
            self._write_id, number or 0, messages,
            lasting=self._options.write_id is not None, rising=number is not None,
        )  # fmt: skip


class StreamWriter(_Writer, DataSourceStreamArrowWriter):
    """``df.writeStream.format("redis-streams")``; exactly once for each checkpoint."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskRows:
        """Write or stage the rows of a task. Raises SinkError: Spark does not name the batch and the query."""
        context = TaskContext.get()
        query = context.getLocalProperty(_QUERY_ID) if context else None
        batch = context.getLocalProperty(_BATCH_ID) if context else None
        if not query or batch is None:
            raise SinkError(f"Spark gave this task no {_QUERY_ID} and {_BATCH_ID}: is it a streaming query?")
        return _write(self._options, query, int(batch), iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Publish the rows of all tasks, unless this batch was published before."""
        query = next((message.query for message in messages if isinstance(message, TaskRows)), "")
        if messages:
            self._publish(query, batchId, messages)
