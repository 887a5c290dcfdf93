"""What parts of the pipeline cost by themselves, one process and no JVM: the figures beside those of `spark.py`.

The sink, group mode, and planning by number of streams: what a trigger does in the driver before a task starts, and what
tasks do to read a stream of one entry each. Processor time of this process, without the server's.

python benchmarks/spark_parts.py [--rows 200000] [--streams 1 100 1000 10000] [--rounds 5]
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable
from servers import Server, encode

from rillet.pipeline.group.stream_reader import GroupStreamReader, group_columns
from rillet.pipeline.range.batch_reader import RangeBatchReader
from rillet.pipeline.range.stream_reader import RangeStreamReader
from rillet.pipeline.sink.writers import BatchWriter
from rillet.pipeline.source.entry_batches import default_schema
from rillet.pipeline.source.options import BatchOptions, RangeStreamOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SERVERS: Final = ("redis-server", "rillet")
BATCH: Final = 10_000
FIELDS: Final = ("customer", "amount")


def measure(port: int, rows: int) -> dict[str, float]:
    """Rows a second of each way: ``exactly-once``, ``at-least-once``, ``group-plan`` (driver), ``group-read`` (tasks)."""
    found = {name: _write(port, rows, name) for name in ("exactly-once", "at-least-once")}
    return found | _read(port, rows)


def _write(port: int, rows: int, delivery: str) -> float:
    table = pa.table({name: [str(number) for number in range(rows)] for name in FIELDS})
    options = {"port": str(port), "stream": delivery, "delivery": delivery}
    writer = BatchWriter(from_arrow_schema(table.schema), options, overwrite=False)
    began = time.perf_counter()
    writer.commit([writer.write(iter(table.to_batches(max_chunksize=BATCH)))])
    return rows / (time.perf_counter() - began)


def _read(port: int, rows: int) -> dict[str, float]:
    options = {"port": str(port), "streams": "exactly-once", "group": "g", "startingOffsets": "earliest"}
    reader = GroupStreamReader(default_schema("", group_columns()), options)
    offset, planning, reading, seen = reader.initialOffset(), 0.0, 0.0, 0
    while True:
        began = time.perf_counter()
        end = reader.latestOffset(offset, ReadAllAvailable())
        planning += time.perf_counter() - began
        if end == offset:
            break
        began = time.perf_counter()
        seen += sum(batch.num_rows for part in reader.partitions(offset, end) for batch in reader.read(part))
        reading += time.perf_counter() - began
        offset = end
    reader.stop()
    assert seen == rows
    return {"group-plan": rows / planning, "group-read": rows / reading}


class Planning:
    """The ways to read many streams, called as Spark calls them; each stream gets an entry before each."""

    def __init__(self, server: Server, streams: int) -> None:
        self._server = server
        self._names = [f"s:{number}" for number in range(streams)]
        self._options = {"port": str(server.port), "streamsPattern": "s:*", "startingOffsets": "earliest"}
        self.add()

    def add(self) -> None:
        self._server.control.pipeline([encode("XADD", name, "*", "n", 1) for name in self._names])

    def ways(self) -> dict[str, Callable[[], tuple[float, float]]]:
        schema = default_schema()
        batch = RangeBatchReader(schema, BatchOptions.of(self._options))
        live = RangeStreamReader(schema, RangeStreamOptions.of(self._options))
        group = GroupStreamReader(default_schema("", group_columns()), self._options | {"group": "g"})
        return {"batch": _Batch(batch), "micro-batch": _MicroBatch(live), "group": _MicroBatch(group)}

    def measure(self, rounds: int) -> dict[str, tuple[float, float]]:
        """Seconds of planning and of reading, by way; medians."""
        found: dict[str, tuple[float, float]] = {}
        for name, way in self.ways().items():
            way()  # connects, creates groups, reads what is there
            times = []
            for _ in range(rounds):
                self.add()
                times.append(way())
            found[name] = tuple(map(statistics.median, zip(*times, strict=True)))
        return found


class _Batch:
    def __init__(self, reader: RangeBatchReader) -> None:
        self._reader = reader

    def __call__(self) -> tuple[float, float]:
        began = time.process_time()
        parts = self._reader.partitions()
        planned = time.process_time()
        for part in parts:
            for _ in self._reader.read(part):
                pass
        return planned - began, time.process_time() - planned


class _MicroBatch:
    def __init__(self, reader: RangeStreamReader | GroupStreamReader) -> None:
        self._reader = reader
        self._offset = reader.initialOffset()

    def __call__(self) -> tuple[float, float]:
        began = time.process_time()
        end = self._reader.latestOffset(self._offset, ReadAllAvailable())
        parts = self._reader.partitions(self._offset, end)
        planned = time.process_time()
        for part in parts:
            for _ in self._reader.read(part):
                pass
        self._offset = end
        return planned - began, time.process_time() - planned


def lines(rows: int, counts: list[int], rounds: int) -> Iterator[str]:
    for program in SERVERS:
        with Server(program) as server:
            for name, speed in measure(server.port, rows).items():
                yield f"{program}: {name:16} {speed:>12,.0f} rows/s"
        for count in counts:
            with Server(program) as server:
                for name, (planning, reading) in Planning(server, count).measure(rounds).items():
                    what = f"{count:,} streams, {name}"
                    yield f"{program}: {what:32} planning {planning * 1000:8,.1f} ms, reading {reading * 1000:8,.1f} ms"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 100, 1000, 10_000])
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    for line in lines(given.rows, given.streams, given.rounds):
        print(line, flush=True)
