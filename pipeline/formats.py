"""The Spark format ``redis-streams``: a source with two modes, and a sink. Options: `READING` and `SinkOptions`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource

from .group.options import GroupOptions
from .redis.options import OptionError, Options, records
from .source.entry_batches import ColumnOptions, Columns, default_schema
from .source.options import MODE, BatchOptions, RangeStreamOptions, SourceOptions
from .spark_versions import stream_reader, stream_writer

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import DataType, StructType

READING: Final[dict[str, type[SourceOptions]]] = {
    "spark.read": BatchOptions,
    "spark.readStream with mode=range": RangeStreamOptions,
    "spark.readStream with mode=group": GroupOptions,
}


class RedisStreams(DataSource):
    """The format; after ``rillet.pipeline.register(spark)``, ``format("redis-streams")`` reads and writes."""

    _is_given_filters = False  # without the session's setting Spark refuses readers that take filters

    @classmethod
    def name(cls) -> str:
        """Return the name of the format: ``redis-streams``."""
        return "redis-streams"

    def schema(self) -> StructType:
        """Return the default columns; group mode adds three columns about the delivery."""
        options = Options(self.options)
        extra: dict[str, DataType] = {}
        if options[MODE] == "group":
            from .group.stream_reader import group_columns

            extra = group_columns()
        return default_schema(ColumnOptions.of(options).prefix, extra)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader for ``spark.read``."""
        if Options(self.options)[MODE] == "group":
            raise OptionError(
                "option 'mode': group is for spark.readStream; a batch read leaves no acknowledgements"
            )
        found = BatchOptions.of(_given(self.options, BatchOptions))
        Columns(schema, found.columns)  # refuse a schema here that tasks would refuse
        from .range.batch_reader import PushingBatchReader, RangeBatchReader

        if not found.push_filters:
            return RangeBatchReader(schema, found)
        if not self._is_given_filters:
            raise OptionError(
                "option 'pushFilters' needs Spark 4.1 and spark.sql.python.filterPushdown.enabled=true before register(spark)"
            )
        return PushingBatchReader(schema, found)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the reader of ``spark.readStream``."""
        if Options(self.options)[MODE] == "group":
            from .group.stream_reader import GroupStreamReader

            return stream_reader(GroupStreamReader(schema, _given(self.options, GroupOptions)))
        from .range.stream_reader import RangeStreamReader

        found = RangeStreamOptions.of(_given(self.options, RangeStreamOptions))
        Columns(schema, found.columns)  # refuse a schema here that tasks would refuse
        return stream_reader(RangeStreamReader(schema, found))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of ``df.write``."""
        from .sink.spark_writers import BatchWriter

        return BatchWriter(schema, dict(self.options), overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        """Return the writer of ``df.writeStream``; output mode ``complete`` overwrites."""
        from .sink.spark_writers import StreamWriter

        return stream_writer(StreamWriter(schema, dict(self.options), overwrite), schema)


class PushingRedisStreams(RedisStreams):
    """The format for sessions with ``spark.sql.python.filterPushdown.enabled``: its readers accept filters."""

    _is_given_filters = True


def _given(options: Mapping[str, str], form: type[SourceOptions]) -> Options:
    """Return the options; refuse options that only another mode or way of reading has.

    Raises OptionError: an option belongs elsewhere; the text names the ways of reading that have it.
    """
    given = Options(options)
    here = records(form)
    for name in (name for other in READING.values() for name in records(other)):
        if name in given and name not in here:
            ways = [way for way, other in READING.items() if name in records(other)]
            raise OptionError(f"option {name!r} is for {' and '.join(ways)}")
    return given
