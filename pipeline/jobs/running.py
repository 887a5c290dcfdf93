"""What ingest and ledger share: the words for where batches go, and running until there is no more."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .batches import JobError, ParquetTarget, Target, start

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame, SparkSession


def add_target_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare where rows go, and how long the job runs."""
    parser.add_argument(
        "--out", required=True, metavar="DIR", help="where the data and its checkpoint are kept"
    )
    parser.add_argument("--format", choices=("parquet", "delta", "iceberg"), default="parquet")
    parser.add_argument(
        "--table", default="rillet.rows", help="the table's name, for iceberg (default rillet.rows)"
    )
    parser.add_argument(
        "--follow",
        metavar="INTERVAL",
        help="go on for ever, looking every '10 seconds'; else take what is there",
    )
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option of the source; repeatable",
    )
    parser.add_argument("--metrics-port", type=int, metavar="PORT", help="lag and progress for Prometheus")
    parser.add_argument("--master", help="Spark's master (default: all cores of this machine)")


def given_options(arguments: argparse.Namespace) -> dict[str, str]:
    """What ``--option`` said.

    Raises:
        JobError: a word has no =.
    """
    pairs = [word.partition("=") for word in arguments.option]
    for name, sign, value in pairs:
        if not sign:
            raise JobError(f"--option takes NAME=VALUE, not {name + value!r}")
    return {name: value for name, _, value in pairs}


def run(
    arguments: argparse.Namespace, name: str, read: Callable[[SparkSession], tuple[DataFrame, Column | None]]
) -> int:
    """Run a job to its end; 1 if it could not.

    Args:
        arguments: with the words of ``add_target_arguments``.
        name: of the verb.
        read: gives the rows, and what tells their day.
    """
    from pyspark.errors import StreamingQueryException
    from pyspark.sql import SparkSession

    from ..sessions import session

    is_ours = SparkSession.getActiveSession() is None
    conf: dict[str, Any] = {} if arguments.master is None else {"spark.master": arguments.master}
    spark = session(f"rillet {name}", **conf)
    listener = None
    try:
        if is_ours:
            spark.sparkContext.setLogLevel("ERROR")
        if arguments.metrics_port is not None:
            from ..listener import LagListener

            listener = LagListener()
            spark.streams.addListener(listener)
            _say(f"metrics on port {listener.serve(arguments.metrics_port)}")
        frame, day = read(spark)
        folder = Path(arguments.out)
        done: list[int] = []
        query = start(frame, folder, _target(arguments, folder, day), arguments.follow, partial(_told, done))
        try:
            query.awaitTermination()
        except KeyboardInterrupt:
            query.stop()
        _say(f"{folder} is up to date: {len(done):,} new batch{'' if len(done) == 1 else 'es'}")
    except (JobError, StreamingQueryException) as error:
        _say(f"rillet pipeline {name}: {error}")
        return 1
    finally:
        if listener is not None:
            spark.streams.removeListener(listener)
            listener.close()
        if is_ours:
            spark.stop()
    return 0


def _target(arguments: argparse.Namespace, folder: Path, day: Column | None) -> Target:
    if arguments.format == "parquet":
        return ParquetTarget(folder, day)
    from ..lake import DeltaTarget, IcebergTarget

    return DeltaTarget(folder) if arguments.format == "delta" else IcebergTarget(folder, arguments.table)


def _told(done: list[int], number: int) -> None:
    done.append(number)
    _say(f"batch {number} is there")


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
