"""Build the tables of a report from an append-only folder, as Parquet files and as the rows that the page shows.

Spark's tasks read, replay and write large folders. This process itself reads and replays a small one (``HERE`` bytes),
collects each table once and writes it. For a small folder, starting Spark's Python workers, and jobs that write and
read again, would take longer than everything else: a report of 6 MB takes 23 and 33 s, with tasks 43 and 60 s (two
runs each, a busy machine, 2026-11-27).
"""

from __future__ import annotations

import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from . import page, tables
from .stories import Message, message_of, story_key
from .tables import Bounds, Settings

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from ..cli.progress import Progress

HERE: Final = 32 << 20
_CURVES: Final = 100_000  # rows of a curve's table that may come to the driver
_IS_ID: Final = re.compile(r"[0-9]{1,20}-[0-9]{1,20}")
_AT_ONCE: Final = 4  # queries; each has long steps of one thread


@dataclass(frozen=True)
class Gathering:
    """Builds one report."""

    spark: SparkSession
    aof: str
    folder: Path  # where the tables are written
    settings: Settings  # the user's choices
    progress: Progress
    here: bool = False  # whether this process replays the files; otherwise Spark does
    # Whether the page shows the fields of messages; this process then walks over the files once more.
    contents: bool = True

    def run(self) -> page.Report:
        """Write all tables of the report, and return the data that its page shows.

        Raises LedgerError: the ledger has no event of a stream.
        """
        bounds = self._replay()
        tables.define(self.spark)
        with self.progress.step(f"answering {len(tables.TABLES)} questions"):
            shown, counts, sums = self._collect(bounds) if self.here else self._write(bounds)
            shown["histories"] = steps = self._histories([*shown["poison"], *shown["pending"]])
            counts["histories"] = len(steps)
            contents = self._read_contents(steps) if self.contents else None
            self.progress.note(f"{sum(counts.values()):,} rows")
        return page.Report(self.aof, self.settings, bounds, sums, shown, counts, contents)

    def _histories(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Look up and write the deliveries of each message that the page shows."""
        import pyarrow as pa

        # In a damaged file an id may be any bytes.
        known = [row for row in messages if _IS_ID.fullmatch(row["entry_id"])]
        wanted = set(map(story_key, known))
        found = tables.histories(self.spark, {row["entry_id"] for row in known}).toArrow()
        steps = [row for row in found.to_pylist() if story_key(row) in wanted]
        self._write_here(pa.Table.from_pylist(steps, found.schema), "histories")
        return steps

    def _read_contents(self, steps: list[dict[str, Any]]) -> dict[Message, list[bytes]]:
        from ..ledger.entries import find_contents

        wanted = {message_of(row) for row in steps}
        return find_contents(self.aof, wanted) if wanted else {}

    # Events and spans

    def _replay(self) -> Bounds:
        """Keep the rows of the files as ``ledger``, and what they mean as ``spans``; return the bounds of the ledger."""
        import pyarrow as pa

        from ..ledger import schema
        from ..ledger.files.plan import read_ledger
        from ..ledger.spans import views
        from ..ledger.spans.arrow import replay

        spark = self.spark
        with self.progress.step("reading the append-only files"):
            if self.here:
                rows = read_ledger(self.aof)
                self._keep(pa.Table.from_batches(rows, schema.arrow()), "ledger")
            else:
                reader = spark.read.format("redis-aof")
                self._kept(reader.load(self.aof), "ledger", files=None)
            bounds = tables.define_events(spark, self.settings)
            self.progress.note(f"{bounds.events:,} events")
            if words := bounds.outside():
                self.progress.say(f"--at {words}")
        with self.progress.step("replaying them: who held what from when to when"):
            events = spark.table("events").drop("clock_ms").withColumnRenamed("ms", "clock_ms")
            if self.here:
                spans = replay(events.orderBy("file_seq", "ordinal").toArrow())
                self._keep(spans, "spans")
                count = spans.num_rows
            else:
                views.register(spark, events, tables.REPLAYED)
                count = self._kept(spark.table(f"{tables.REPLAYED}_spans"), "spans", files=None).count()
            self.progress.note(f"{count:,} spans")
        return bounds

    # Tables

    def _collect(self, bounds: Bounds) -> tuple[dict[str, Any], dict[str, int], dict[str, Any]]:
        """Collect each table once, several at a time."""
        frames = {}
        for name, query in tables.TABLES.items():
            frames[name] = query(self.spark, bounds, self.settings)
            frames[name].createOrReplaceTempView(name)  # a later one may read it
        sums = tables.sums(self.spark)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            asked = {name: pool.submit(frame.toArrow) for name, frame in (frames | sums).items()}
            found = {name: each.result() for name, each in asked.items()}
        for name in tables.TABLES:
            self._write_here(found[name], name)
        shown = {name: found[name].slice(0, _most(name)).to_pylist() for name in tables.TABLES}
        counts = {name: found[name].num_rows for name in tables.TABLES}
        return shown, counts, tables.summed({name: found[name].to_pylist() for name in sums}, bounds)

    def _write(self, bounds: Bounds) -> tuple[dict[str, Any], dict[str, int], dict[str, Any]]:
        """Let Spark write one table after another, and read the first rows of each."""
        shown, counts = {}, {}
        for name, query in tables.TABLES.items():
            found = self._kept(query(self.spark, bounds, self.settings), name, files=1)
            shown[name] = [row.asDict() for row in found.limit(_most(name)).collect()]
            counts[name] = found.count() if len(shown[name]) == _most(name) else len(shown[name])
        rows = {
            name: [row.asDict() for row in frame.collect()] for name, frame in tables.sums(self.spark).items()
        }
        return shown, counts, tables.summed(rows, bounds)

    # Parquet

    def _keep(self, rows: pa.Table, name: str) -> None:
        """Write rows of this process, and register them as a view in one partition, so that no query shuffles them."""
        self._write_here(rows, name)
        self.spark.createDataFrame(rows).coalesce(1).createOrReplaceTempView(name)

    def _write_here(self, rows: pa.Table, name: str) -> None:
        """Write a table in Spark's layout: a folder with one file."""
        import pyarrow.parquet as pq

        path = self.folder / name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        pq.write_table(rows, path / "part-00000.parquet")

    def _kept(self, frame: DataFrame, name: str, *, files: int | None) -> DataFrame:
        """Let Spark write a table; return the written table, registered under its name."""
        path = str(self.folder / name)
        (frame if files is None else frame.coalesce(files)).write.mode("overwrite").parquet(path)
        written = self.spark.read.schema(frame.schema).parquet(path)
        written.createOrReplaceTempView(name)
        return written


def _most(name: str) -> int:
    return _CURVES if name in page.WHOLE else tables.SHOWN
