"""Shared by ingest and ledger: the arguments for the destination, and running until there are no more rows."""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ..cli.progress import Progress
from ..cli.spark import add_spark_arguments, has_session, spark_session
from ..extras import need
from ..folders import Folder, JobError, LocalFolder, folder_of
from ..redis.connection import RedisError
from .parquet_batches import CHECKPOINT, Write, begun, committed, parquet_writer, start

if TYPE_CHECKING:
    import argparse

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from ..group.acknowledger import Acknowledger

_LOOK: Final = 0.1  # seconds
_PACKAGES: Final = {"parquet": (), "delta": ("deltalake",), "iceberg": ("pyiceberg", "sqlalchemy")}


def add_target_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments for the destination of the rows, and for how long the job runs."""
    parser.add_argument(
        "--out",
        required=True,
        metavar="DIR",
        help="where the data and its checkpoint are kept: a folder, or s3a://… and the like",
    )
    parser.add_argument("--format", choices=("parquet", "delta", "iceberg"), default="parquet")
    parser.add_argument(
        "--table", default="rillet.rows", help="the table's name, for iceberg (default rillet.rows)"
    )
    parser.add_argument(
        "--follow",
        metavar="INTERVAL",
        help="go on until SIGTERM or Ctrl-C, looking every '10 seconds'; else take what is there",
    )
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option of the source; repeatable",
    )
    parser.add_argument("--metrics-port", type=int, metavar="PORT", help="lag and progress for Prometheus")
    parser.add_argument("--metrics-host", default="127.0.0.1", metavar="HOST", help="default 127.0.0.1")
    add_spark_arguments(parser)


def given_options(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the options given with ``--option NAME=VALUE``. Raises JobError: a word has no =."""
    pairs = [word.partition("=") for word in arguments.option]
    for name, sign, value in pairs:
        if not sign:
            raise JobError(f"--option takes NAME=VALUE, not {name + value!r}")
    return {name: value for name, _, value in pairs}


def run(
    arguments: argparse.Namespace,
    name: str,
    read: Callable[[SparkSession], tuple[DataFrame, Column | None]],
    acknowledging: Callable[[StreamingQuery], Acknowledger | None] = lambda _: None,
) -> int:
    """Run a job to its end; return the exit status: 1 if it failed.

    Args:
        arguments: with those of ``add_target_arguments``.
        read: returns the rows, and the column of their day.
        acknowledging: returns the acknowledger of a query that reads as a member of a group, else None.
    """
    from pyspark.errors import StreamingQueryException

    from ..spark_versions import HAS_LIMITS

    need(*_PACKAGES[arguments.format], by=f"--format {arguments.format}", extra="lake")
    progress = Progress(1 + (not has_session()))
    try:
        with spark_session(arguments, progress) as spark, ExitStack() as around:
            folder = folder_of(arguments.out, spark)
            if arguments.follow is not None or arguments.metrics_port is not None:
                around.enter_context(_listening(spark, arguments, progress))
            frame, day = read(spark)
            done: list[int] = []
            write = _writer(arguments, folder, day)
            asked = around.enter_context(stopping())
            with progress.step("moving batches"):

                def report(number: int) -> None:
                    done.append(number)
                    progress.say(f"batch {number} is there")

                query = start(frame, folder, write, arguments.follow, report, name)
                if (acknowledger := acknowledging(query)) is not None:
                    around.enter_context(_acknowledging(spark, acknowledger, folder, progress))
                wait(query, folder, asked)
    except StreamingQueryException as error:
        progress.say(f"rillet pipeline {name}: {error}")
        return 1
    state = "is up to date"
    if asked.is_set():
        state = "has all until it was stopped"
    elif done and not HAS_LIMITS:
        state = "has what one batch may take: before 4.2 Spark makes one a run, so run it again for the rest"
    progress.say(f"{folder} {state}: {len(done):,} new batch{'' if len(done) == 1 else 'es'}")
    return 0


@contextmanager
def _listening(spark: SparkSession, arguments: argparse.Namespace, progress: Progress) -> Iterator[None]:
    """Log how far behind the job is after each batch, and serve Prometheus metrics if asked to."""
    from ..monitoring.listener import LOG, LagListener

    listener = LagListener()
    lines = logging.StreamHandler(sys.stderr)
    level = LOG.level
    try:
        if arguments.follow is not None:
            LOG.addHandler(lines)
            LOG.setLevel(logging.INFO)
        spark.streams.addListener(listener)
        if arguments.metrics_port is not None:
            port = listener.serve(arguments.metrics_port, arguments.metrics_host)
            progress.say(f"metrics at http://{arguments.metrics_host}:{port}/metrics")
        yield
    finally:
        spark.streams.removeListener(listener)
        listener.close()
        LOG.removeHandler(lines)
        LOG.setLevel(level)


@contextmanager
def _acknowledging(
    spark: SparkSession, acknowledger: Acknowledger, folder: Folder, progress: Progress
) -> Iterator[None]:
    """Acknowledge each batch when it is committed, and the last one at the end, even after an error."""
    spark.streams.addListener(acknowledger)
    try:
        yield
    finally:
        spark.streams.removeListener(acknowledger)
        try:
            acknowledger.settle(
                folder.local / CHECKPOINT if isinstance(folder, LocalFolder) else folder.path(CHECKPOINT)
            )
        except RedisError as error:
            progress.say(f"the last batch is there, but not acknowledged; the next run does it: {error}")


@contextmanager
def stopping() -> Iterator[threading.Event]:
    """During a ``with`` block, treat SIGINT and SIGTERM as a request to end after the current batch.

    A second signal has its usual effect.
    """
    asked = threading.Event()
    before: dict[int, Any] = {}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)
        before.clear()

    def ask(*_: object) -> None:
        restore()
        asked.set()

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, ask)
    try:
        yield asked
    finally:
        restore()


def wait(query: StreamingQuery, folder: Folder, asked: threading.Event) -> None:
    """Wait until a query ends; after a stop request, until the batch that has begun is committed, then stop the query.

    Raises StreamingQueryException: the query failed.

    Args:
        folder: has the checkpoint, whose logs show which batches have begun and which are committed.
        asked: is set by a stop request.
    """
    while query.isActive:
        if asked.wait(_LOOK):
            last = begun(folder)
            while query.isActive and committed(folder) < last:
                time.sleep(_LOOK)
            if query.isActive:
                # A batch that has started since is repeated by the next run.
                query.stop()
                return
    query.awaitTermination()


def _writer(arguments: argparse.Namespace, folder: Folder, day: Column | None) -> Write:
    if arguments.format == "parquet":
        return parquet_writer(folder, day)
    if not isinstance(folder, LocalFolder):
        raise JobError(
            f"--format {arguments.format} is written by this process and not by Spark: {folder} is not on this machine"
        )
    from .lake_tables import write_delta, write_iceberg

    if arguments.format == "delta":
        return partial(write_delta, folder.local)
    return partial(write_iceberg, folder.local, arguments.table)
