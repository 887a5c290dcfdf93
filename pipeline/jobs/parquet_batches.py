"""Write micro-batches to a folder of Parquet files, each exactly once.

A folder holds ``day=2026-11-20/batch=00000007/part-….parquet`` and, in ``_checkpoint``, the progress of the Spark
query. A repeated batch has the same rows (the sources guarantee that) and replaces its earlier files. So no row is
duplicated or missing, whenever the job dies, for any reader of Parquet.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, Protocol

from ..folders import Folder, JobError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

CHECKPOINT: Final = "_checkpoint"


class Target(Protocol):
    """The destination of batches; writing a batch twice must have the effect of writing it once."""

    def write(self, batch: DataFrame, number: int, query: str) -> None:
        """Write a micro-batch of a query, unless it was written before."""


class ParquetTarget:
    """A folder with a sub-folder for each day and batch.

    Args:
        folder: on any file system that Spark can reach.
        day: the day of a row; None: no folders for days.
    """

    def __init__(self, folder: Folder, day: Column | None) -> None:
        self._folder = folder
        self._day = day

    def write(self, batch: DataFrame, number: int, query: str) -> None:  # noqa: ARG002 - one query a folder
        """Write the rows of a batch; the folders of an earlier try are replaced."""
        from pyspark.sql import functions as f

        keys = ["batch"]
        if self._day is not None:
            batch = batch.withColumn("day", f.coalesce(self._day, f.lit("unknown")))
            keys = ["day", "batch"]
        (
            batch.withColumn("batch", f.lit(f"{number:08d}"))
            .write.mode("overwrite")
            .option("partitionOverwriteMode", "dynamic")
            .partitionBy(*keys)
            .parquet(self._folder.path())
        )


def start(
    frame: DataFrame,
    folder: Folder,
    target: Target,
    follow: str | None,
    report: Callable[[int], None],
    name: str,
) -> StreamingQuery:
    """Start a query that writes batches, or continue where the last run ended; return the query.

    Args:
        frame: from ``readStream``.
        folder: keeps the checkpoint.
        target: the destination.
        follow: how often to look for new rows (``"10 seconds"``); None: write the existing rows, then end.
        report: called with the number of each finished batch.
        name: the query's name, for its listeners.

    Raises:
        JobError: there is data without a checkpoint: its rows would be written a second time.
    """
    there = folder.names()
    if there and CHECKPOINT not in there:
        raise JobError(
            f"{folder} is not empty and has no {CHECKPOINT}: what it holds would be written once more; choose a new folder"
        )
    folder.make()

    def take(batch: DataFrame, number: int) -> None:
        query = json.loads(folder.text(CHECKPOINT, "metadata"))["id"]
        target.write(batch, number, query)
        report(number)

    writer = frame.writeStream.foreachBatch(take).queryName(name)
    writer = writer.option("checkpointLocation", folder.path(CHECKPOINT))
    trigger = writer.trigger(availableNow=True) if follow is None else writer.trigger(processingTime=follow)
    return trigger.start()


def committed(folder: Folder) -> int:
    """Return the number of the last batch in Spark's commit log, which it will not repeat; -1 without any."""
    return _last(folder, "commits")


def begun(folder: Folder) -> int:
    """Return the number of the last batch in Spark's offset log, whose rows are determined; -1 without any."""
    return _last(folder, "offsets")


def _last(folder: Folder, log: str) -> int:
    return max((int(name) for name in folder.names(CHECKPOINT, log) if name.isdigit()), default=-1)
