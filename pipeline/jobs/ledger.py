"""``rillet pipeline ledger AOF_DIR --out DIR``: write the ledger to Parquet, Delta or Iceberg, each event once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import runner

if TYPE_CHECKING:
    import argparse

    from pyspark.sql import Column, DataFrame, SparkSession


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``ledger``."""
    parser.add_argument("aof", metavar="AOF_DIR", help="appendonlydir of a server, or its manifest")
    runner.add_target_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the existing events of the ledger to files, or with ``--follow`` also new ones.

    Return the exit status.
    """

    def read(spark: SparkSession) -> tuple[DataFrame, Column | None]:
        from pyspark.sql import functions as f

        frame = (
            spark.readStream.format("redis-aof")
            .options(**runner.given_options(arguments))
            .load(arguments.aof)
        )
        when = f.coalesce("clock_ms", f.when(f.col("event").isin("delivered", "claimed"), f.col("at_ms")))
        return frame, f.date_format(f.timestamp_millis(when), "yyyy-MM-dd")

    return runner.run(arguments, "ledger", read)
