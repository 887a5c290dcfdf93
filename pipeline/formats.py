"""The Spark format ``redis-streams``: a source in two modes, and a sink.

Options of the source in range mode (names in any case; ``group.options`` and ``sink.options``
describe those of group mode and of the sink):

==============================================  ==============================================================
url | host port db unixSocket, username password where the server is; a url also says redis+cluster:// or
                                                redis+sentinel:// (sentinelUsername sentinelPassword); readFrom=replica
tls tlsCaCert tlsCert tlsKey tlsSkipVerify      how to speak to it
passwordEnv passwordFile credentialsProvider    instead of password: read for each new connection
timeoutMs retries retryIntervalMs               30,000 ms for a reply, 5 more tries, 200 ms and doubling
streams | streamsPattern | load(name)           names (commas or a JSON list), or a glob looked up every
                                                discoveryIntervalMs (10,000); new streams are read from their start
subscribe subscribePattern                      Kafka's names: streams, and a regular expression over whole names
startingOffsets endingOffsets                   earliest, latest, an id, or JSON by stream: reading begins after the
                                                one and ends with the other; batch: earliest to latest, stream: latest
startingTimestamp endingTimestamp               from this moment on, up to before that one; ms or ISO 8601
starting-, endingOffsetsByTimestamp             the same as JSON by stream
maxRowsPerTrigger maxBytesPerTrigger            how much a micro-batch takes, shared by backlog
minRowsPerTrigger maxTriggerDelay               how little it waits for, and how long (15m)
minPartitions maxRowsPerPartition fetchSize     tasks (100,000 rows each; short ranges share one), XRANGE's COUNT (1000)
failOnDataLoss                                  true: stop when entries are gone, unread, or a stream was rolled back,
                                                deleted or created again; false: report it, go on with what is new
parseMode columnNameOfCorruptRecord             PERMISSIVE, FAILFAST, DROPMALFORMED for schemas of one's own
valueFormat valueField metadataPrefix           fields, or json in one field (value); a prefix for our own columns
timestampFormat                                 of fields in TIMESTAMP columns: iso, or seconds, milliseconds, microseconds since 1970
==============================================  ==============================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource

from .redis.options import OptionError, Options
from .source.entry_batches import Columns, default_schema

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

    from .range.batch_reader import RangeBatchReader

MODES: Final = ("range", "group")


class RedisStreams(DataSource):
    """Register it with ``rillet.pipeline.register(spark)``; then ``format("redis-streams")`` reads and writes."""

    @classmethod
    def name(cls) -> str:
        """Return the word for ``format``."""
        return "redis-streams"

    def schema(self) -> StructType:
        """Return the default columns; group mode adds three about each delivery."""
        from pyspark.sql import types

        options = Options(self.options)
        extra: dict[str, types.DataType] = {}
        if self._mode(options) == "group":
            extra = {
                "consumer": types.StringType(),
                "delivery_count": types.LongType(),
                "claimed": types.BooleanType(),
            }
        return default_schema(options.text("metadataPrefix") or "", extra)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of ``spark.read``."""
        from .source.options import SourceOptions

        options = Options(self.options)
        if self._mode(options) == "group":
            raise OptionError(
                "option 'mode': group is for spark.readStream; a batch read leaves no acknowledgements"
            )
        found = SourceOptions.of(options, streaming=False)
        Columns(schema, found.columns)  # refuse here what tasks would refuse
        return self._batch_reader()(schema, found)

    @staticmethod
    def _batch_reader() -> type[RangeBatchReader]:
        from .range.batch_reader import RangeBatchReader

        return RangeBatchReader

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the reader of ``spark.readStream``."""
        options = Options(self.options)
        if self._mode(options) == "group":
            from .group.stream_reader import GroupStreamReader

            return GroupStreamReader(schema, dict(self.options))
        from .range.stream_reader import RangeStreamReader
        from .source.options import SourceOptions

        found = SourceOptions.of(options, streaming=True)
        Columns(schema, found.columns)  # refuse here what tasks would refuse
        return RangeStreamReader(schema, found)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of ``df.write``."""
        from .sink.writers import BatchWriter

        return BatchWriter(schema, dict(self.options), overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        """Return the writer of ``df.writeStream``; output mode ``complete`` overwrites."""
        from .sink.writers import StreamWriter

        return StreamWriter(schema, dict(self.options), overwrite)

    @staticmethod
    def _mode(options: Options) -> str:
        return options.choice("mode", MODES, "range")


class PushingRedisStreams(RedisStreams):
    """The same for sessions with ``spark.sql.python.filterPushdown.enabled``; without it Spark refuses readers that take filters."""

    @staticmethod
    def _batch_reader() -> type[RangeBatchReader]:
        from .range.batch_reader import PushingBatchReader

        return PushingBatchReader
