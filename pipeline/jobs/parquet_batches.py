"""Write micro-batches to a folder of Parquet files, each exactly once.

A folder holds ``day=2026-11-20/batch=00000007/part-….parquet`` and, in ``_checkpoint``, the progress of the Spark
query. A repeated batch has the same rows (the sources guarantee that) and replaces its earlier files. So no row is
duplicated or missing, whenever the job dies, for any reader of Parquet.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ..folders import Folder, JobError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

CHECKPOINT: Final = "_checkpoint"


# Writes a micro-batch with this number of a query with this id; doing it twice has the effect of doing it once.
Write = Callable[["DataFrame", int, str], None]


def parquet_writer(folder: Folder, day: Column | None) -> Write:
    """Return a function that writes batches as Parquet files, each batch in a folder of its own.

    ``day``: the column by which rows go to a sub-folder for each day; None: without.
    """

    def write(batch: DataFrame, number: int, _query: str) -> None:
        from pyspark.sql import functions as f

        keys = ["batch"]
        if day is not None:
            batch = batch.withColumn("day", f.coalesce(day, f.lit("unknown")))
            keys = ["day", "batch"]
        (
            batch.withColumn("batch", f.lit(f"{number:08d}"))
            .write.mode("overwrite")
            .option("partitionOverwriteMode", "dynamic")
            .partitionBy(*keys)
            .parquet(folder.path())
        )

    return write


def start(
    frame: DataFrame,
    folder: Folder,
    write: Write,
    follow: str | None,
    report: Callable[[int], None],
    name: str,
) -> StreamingQuery:
    """Start a query that writes batches, or continue where the last run ended; return the query.

    Raises JobError: there is data without a checkpoint: its rows would be written a second time.

    Args:
        follow: how often to look for new rows (``"10 seconds"``); None: write the existing rows, then end.
        report: called with the number of each finished batch.
        name: the query's name, for its listeners.
    """
    there = folder.names()
    if there and CHECKPOINT not in there:
        raise JobError(
            f"{folder} is not empty and has no {CHECKPOINT}: what it holds would be written once more; choose a new folder"
        )
    folder.make()

    def take(batch: DataFrame, number: int) -> None:
        query = json.loads(folder.text(CHECKPOINT, "metadata"))["id"]
        write(batch, number, query)
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
