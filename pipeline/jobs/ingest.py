"""``rillet pipeline ingest --streams orders --out DIR``: write streams to Parquet, Delta or Iceberg, each entry once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import runner

if TYPE_CHECKING:
    import argparse

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from ..group.acknowledger import Acknowledger

_MOST_ROWS = "100000"  # of a batch, unless asked otherwise: a lake's batch goes through the driver


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``ingest``."""
    from ..cli.endpoint_arguments import add_endpoint_arguments

    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--streams", metavar="NAMES", help="names, with commas between them")
    which.add_argument("--streams-pattern", metavar="GLOB", help="all streams that match, new ones too")
    parser.add_argument(
        "--schema", metavar="DDL", help="columns to make of the entries: 'id STRING, amount BIGINT'"
    )
    runner.add_target_arguments(parser)
    add_endpoint_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the existing entries to files, or with ``--follow`` also new ones; return the exit status."""

    def read(spark: SparkSession) -> tuple[DataFrame, Column | None]:
        from pyspark.sql import functions as f

        reader = spark.readStream.format("redis-streams").options(**_options(arguments))
        if arguments.schema:
            reader = reader.schema(arguments.schema)
        frame = reader.load()
        day = f.date_format("ts", "yyyy-MM-dd") if "ts" in frame.columns else None
        return frame, day

    def follow(query: StreamingQuery) -> Acknowledger | None:
        from ..group.acknowledger import Acknowledger
        from ..redis.options import Options
        from ..source.options import MODE

        options = _options(arguments)
        is_group = Options(options)[MODE] == "group"
        return Acknowledger(query, options) if is_group else None

    return runner.run(arguments, "ingest", read, follow)


def _options(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the options of the source."""
    from ..cli.endpoint_arguments import endpoint_options

    options = {"startingOffsets": "earliest", "maxRowsPerTrigger": _MOST_ROWS}
    options |= endpoint_options(arguments) | runner.given_options(arguments)
    if arguments.streams:
        return options | {"streams": arguments.streams}
    return options | {"streamsPattern": arguments.streams_pattern}
