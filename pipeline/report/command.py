"""``rillet pipeline report AOF_DIR --out report/``: Parquet tables and one HTML page from an append-only folder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..cli.progress import Progress
from ..cli.times import parse_duration, parse_time
from ..ledger.errors import LedgerError
from ..ledger.files.folder import read_folder

if TYPE_CHECKING:
    import argparse

    from pyspark.sql import DataFrame, SparkSession

    from .tables import Bounds, Settings

_SMALL: Final = 256 << 20  # bytes of ledger for which a JVM that starts quickly beats one that runs fast
_SHOWN: Final = 25  # rows of a table on the page
_CURVES: Final = 100_000  # rows of a curve's table that may come to the driver
Rows = list[dict[str, Any]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words of the verb."""
    parser.add_argument(
        "aof", metavar="AOF_DIR", help="appendonlydir of a server, its manifest, or one .aof file"
    )
    parser.add_argument("--out", default="report", metavar="DIR", help="where to write (default: report)")
    parser.add_argument(
        "--at", metavar="TIME", help="pending lists as of this moment: milliseconds or an ISO time"
    )
    parser.add_argument(
        "--poison-from",
        type=int,
        default=3,
        metavar="N",
        help="poison is what was delivered N times (default 3)",
    )
    parser.add_argument(
        "--abandoned-after",
        default="60s",
        metavar="TIME",
        help="a consumer silent for so long is gone (default 60s)",
    )
    parser.add_argument(
        "--no-history", action="store_true", help="leave out files that rewrites have replaced"
    )
    parser.add_argument("--master", help="Spark's master (default: all cores of this machine)")


def run(arguments: argparse.Namespace) -> int:
    """Make the report; 1 if there is nothing to report on."""
    from .tables import Settings

    try:
        settings = Settings(
            at_ms=None if arguments.at is None else parse_time(arguments.at),
            poison_from=arguments.poison_from,
            abandoned_ms=parse_duration(arguments.abandoned_after),
        )
        sizes = [part.size() for part in read_folder(arguments.aof, history=not arguments.no_history)]
    except (ValueError, OSError, LedgerError) as error:
        sys.stderr.write(f"rillet pipeline report: {error}\n")
        return 1
    from pyspark.sql import SparkSession

    from .tables import TABLES

    is_ours = SparkSession.getActiveSession() is None
    progress = Progress(len(TABLES) + 3 + is_ours)
    if is_ours:
        with progress.step("starting Spark"):
            spark = _session(sum(sizes), arguments.master)
    else:
        spark = _session(sum(sizes), None)
    progress.spark = spark
    try:
        page = make(
            spark, arguments.aof, Path(arguments.out), settings, progress, history=not arguments.no_history
        )
    except ValueError as error:
        sys.stderr.write(f"rillet pipeline report: {error}\n")
        return 1
    finally:
        if is_ours:
            spark.stop()
    progress.say(f"The report is at {page.resolve()}")
    return 0


def make(
    spark: SparkSession, aof: str, out: Path, settings: Settings, progress: Progress, *, history: bool = True
) -> Path:
    """Write the tables and the page; the page.

    Args:
        spark: the session.
        aof: the append-only folder.
        out: the folder to write to; tables that are there are replaced.
        settings: what the user chose.
        progress: has as many steps as there are tables, and three more.
        history: read the files that rewrites have replaced, too.

    Raises:
        ValueError: the ledger says nothing about streams.
    """
    from ..ledger.spans import views
    from . import page, tables

    folder = (out / "tables").resolve()
    with progress.step("reading the append-only files"):
        ledger = spark.read.format("redis-aof").option("history", str(history).lower()).load(aof)
        _write(spark, ledger, folder / "ledger", "ledger", files=None)
        bounds = tables.look(spark, settings)
        progress.note(f"{bounds.events:,} events")
    if words := bounds.outside():
        progress.say(f"--at {words}")
    with progress.step("replaying them: who held what from when to when"):
        events = spark.table("events").drop("clock_ms").withColumnRenamed("ms", "clock_ms")
        views.register(spark, events, tables.REPLAYED)
        spans = spark.table(f"{tables.REPLAYED}_spans")
        _write(spark, spans, folder / "spans", "spans", files=None)
        tables.define(spark)
        progress.note(f"{spark.table('spans').count():,} spans")
    shown: dict[str, Rows] = {}
    counts: dict[str, int] = {}
    for name, (query, title) in tables.TABLES.items():
        with progress.step(title):
            found = _write(spark, query(spark, bounds, settings), folder / name, name, files=1)
            most = _CURVES if name in page.WHOLE else _SHOWN
            shown[name] = [row.asDict() for row in found.limit(most).collect()]
            counts[name] = found.count() if len(shown[name]) == most else len(shown[name])
            progress.note(f"{counts[name]:,} row{'' if counts[name] == 1 else 's'}")
    with progress.step("drawing the page"):
        sums = _sums(spark, bounds)
        text = page.render(page.Report(Path(aof), settings, bounds, sums, shown, counts))
        target = out / "index.html"
        target.write_text(text, encoding="utf-8")
        progress.note(f"{len(text) // 1024:,} KB")
    return target


def _sums(spark: SparkSession, bounds: Bounds) -> dict[str, Any]:
    """Return the figures of the whole ledger, and of the pending lists by group and consumer."""
    ends = "percentile(if(ended = 'acked', greatest(ended_ms - first_ms, 0), null), {0})"
    row = spark.sql(f"""
        SELECT count(*) AS messages, coalesce(sum(handed), 0) AS deliveries, count_if(handed > 1) AS redelivered,
            coalesce(sum(greatest(handed - 1, 0)), 0) AS redeliveries,
            count_if(ended = 'acked') AS acked, count_if(ended is null) AS pending,
            {ends.format(0.5)} AS p50, {ends.format(0.99)} AS p99
        FROM messages
    """)  # noqa: S608 - constants of this file
    owners = spark.sql("""
        SELECT db, stream, `group`, consumer, count(*) AS messages, max(deliveries) AS deliveries,
            max(idle_ms) AS oldest_ms, min(idle_ms) AS newest_ms
        FROM pending GROUP BY db, stream, `group`, consumer ORDER BY messages DESC, oldest_ms DESC
    """)
    added = (
        spark.sql("SELECT count_if(event = 'added' and ordinal >= 0) AS added FROM events").collect()[0].added
    )
    return {
        **row.collect()[0].asDict(),
        "added": added,
        "owners": [each.asDict() for each in owners.limit(_SHOWN).collect()],
        "span_ms": bounds.until_ms - bounds.from_ms,
    }


def _write(spark: SparkSession, found: DataFrame, path: Path, name: str, *, files: int | None) -> DataFrame:
    """Write a table, and give it as it was written, under its name."""
    frame = found if files is None else found.coalesce(files)
    frame.write.mode("overwrite").parquet(str(path))
    written = spark.read.schema(frame.schema).parquet(str(path))
    written.createOrReplaceTempView(name)
    return written


def _session(size: int, master: str | None) -> SparkSession:
    from ..sessions import session

    conf = {"spark.sql.session.timeZone": "UTC"}
    if master is not None:
        conf["spark.master"] = master
    if size < _SMALL:
        conf["spark.driver.extraJavaOptions"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
        conf["spark.sql.shuffle.partitions"] = "2"
    else:
        conf["spark.driver.memory"] = "2g"
    spark = session("rillet report", **conf)
    spark.sparkContext.setLogLevel("ERROR")
    return spark
