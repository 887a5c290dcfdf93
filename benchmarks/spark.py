"""The Spark pipeline in one run: batch reads, many streams, latency, sink, ledger, planning; ratios to the plain ways, and floors.

    .venv/bin/python benchmarks/spark.py                       everything: `make bench-spark`
    .venv/bin/python benchmarks/spark.py --quick               smaller data, short rounds
    .venv/bin/python benchmarks/spark.py planning latency      only these

Where a figure was measured several times it is the median. `planning` calls the readers itself, without a JVM. It ends
with 1 if a figure is below its floor.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import multiprocessing
import os
import statistics
import sys
import tempfile
import threading
import time
from collections import deque
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import hiredis
import pyspark
import redis
from loading import write_file
from pyspark.sql.streaming.datasource import ReadAllAvailable
from servers import LABELS, Connection, Server, alternate, encode, matches, where
from tables import Table, options

import rillet.pipeline
from rillet.pipeline.group.stream_reader import GroupStreamReader, group_columns
from rillet.pipeline.ledger.files.piece import FilePiece, read_piece
from rillet.pipeline.range.batch_reader import RangeBatchReader
from rillet.pipeline.range.stream_reader import RangeStreamReader
from rillet.pipeline.source.entry_batches import default_schema
from rillet.pipeline.source.options import BatchOptions, RangeStreamOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

SERVERS: Final = ("redis-server", "rillet")
RATES: Final = (200, 5000)
READ_FLOOR: Final = 0.8  # of a redis-py loop
FLOOR_ENTRIES: Final = 1_000_000
LATENCY_FLOOR_MS: Final = 250.0
MANY_BATCH_SECONDS: Final = 20.0
MANY_MICRO_BATCH_SECONDS: Final = 2.0  # beyond what the same rows of one stream take
WARM_UP_SECONDS: Final = 20.0
LEDGER_FLOOR: Final = 0.2  # of hiredis; measured 0.23 to 0.25
LEDGER_ENTRIES: Final = 250_000
COUNT: Final = 1000
TYPED: Final = "id string, customer string, amount bigint, currency string, note string"


class Sizes(NamedTuple):
    """How much is measured: entries of batch reads, streams of one entry each, streams of latencies, rows of the sink."""

    entries: tuple[int, ...] = (100_000, 1_000_000, 5_000_000)
    streams: tuple[int, ...] = (1, 100, 1000, 10_000)
    live: tuple[int, ...] = (1, 100, 1000)
    rows: int = 300_000
    seconds: float = 10.0  # of each latency


QUICK: Final = Sizes((20_000,), (1, 100), (1, 10), 20_000, 3.0)


class Line(NamedTuple):
    """One measured figure; ``passed`` is None where there is no floor."""

    what: str
    value: str
    beside: str = ""
    passed: bool | None = None


def main() -> int:
    """Print a table of what was asked for."""
    asked = options(__doc__, "names", "--quick", rounds=5).parse_args()
    logging.getLogger("py4j").setLevel(logging.ERROR)
    sizes, rounds = QUICK if asked.quick else Sizes(), asked.rounds
    measures: dict[str, Callable[[], Iterator[Line]]] = {
        "batch": lambda: batch_reads(_session(), sizes.entries, rounds),
        "streams": lambda: many_streams(_session(), sizes.streams[-1], rounds),
        "latency": lambda: latencies(_session(), sizes.seconds, sizes.live),
        "sink": lambda: sinks(_session(), sizes.rows),
        "ledger": ledger,
        "planning": lambda: planning(sizes.streams, rounds),
    }
    print(f"{where()}, Spark {pyspark.__version__}; load {os.getloadavg()[0]:.1f}\n")
    table, below = Table("figure | value | beside | floor", words=4), 0
    for name, measure in measures.items():
        if matches(name, asked.names):
            for what, value, beside, passed in itertools.chain(measure(), memory()):
                table.add(what, value, beside, {None: "", True: "ok", False: "BELOW"}[passed])
                below += passed is False
    return int(below > 0)


def each_server() -> Iterator[tuple[str, Server]]:
    """Run one server after the other, each with its label."""
    for program in SERVERS:
        with Server(program) as server:
            yield LABELS[program], server


# Batch reads


def batch_reads(spark: SparkSession, sizes: tuple[int, ...], rounds: int) -> Iterator[Line]:
    """All entries of a stream with four fields: two cores of Spark against one loop, on each server."""
    for label, server in each_server():
        for there, entries in zip((0, *sizes), sizes, strict=False):
            _fill(server, there, entries)
            yield from _batch_read(spark, server.port, f"{label}, {entries:,}", entries, rounds)


def _batch_read(spark: SparkSession, port: int, what: str, entries: int, rounds: int) -> Iterator[Line]:
    frame = spark.read.format("redis-streams").options(port=port, streams="orders")
    ways: dict[str, Callable[[], int]] = {
        "redis-py": lambda: _loop_redis_py(port),
        "hiredis": lambda: _loop_hiredis(port),
        "default": lambda: _discard(frame.load()),
        "typed": lambda: _discard(frame.schema(TYPED).load()),
    }
    ways["default"]()  # workers start
    seconds = alternate(rounds, {name: partial(_timed, way) for name, way in ways.items()})
    middle = {name: entries / statistics.median(found) for name, found in seconds.items()}
    for name in ("redis-py", "hiredis"):
        yield Line(f"{what}: {name} XRANGE loop", f"{middle[name]:,.0f} rows/s")
    for name in ("default", "typed"):
        ratio = middle[name] / middle["redis-py"]
        beside = f"{ratio:.2f}x redis-py, {middle[name] / middle['hiredis']:.2f}x hiredis"
        # Of few rows most of the time is Spark's own.
        passed = ratio >= READ_FLOOR if entries >= FLOOR_ENTRIES else None
        yield Line(f"{what}: batch read, {name} columns", f"{middle[name]:,.0f} rows/s", beside, passed)


def _timed(way: Callable[[], object]) -> float:
    began = time.perf_counter()
    way()
    return time.perf_counter() - began


def _loop_redis_py(port: int) -> int:
    client, last, seen = redis.Redis(port=port), "-", 0
    while chunk := client.xrange("orders", last, "+", count=COUNT):
        seen += len(chunk)
        last = "(" + chunk[-1][0].decode()
    return seen


def _loop_hiredis(port: int) -> int:
    last, seen = b"-", 0
    connection: Any = Connection(port)
    while chunk := connection.call("XRANGE", "orders", last, "+", "COUNT", COUNT):
        seen += len(chunk)
        last = b"(" + chunk[-1][0]
    connection.close()
    return seen


def _discard(frame: DataFrame) -> int:
    frame.write.format("noop").mode("overwrite").save()
    return 0


def _fill(server: Server, there: int, entries: int) -> None:
    words = ("currency", "EUR", "note", b"n" * 40)
    server.control.feed(
        encode("XADD", "orders", f"{1_790_000_000_000 + at // 20}-{at % 20}", "customer", f"c-{at % 977}", "amount", at, *words)
        for at in range(there, entries)
    )  # fmt: skip


# Many streams


def many_streams(spark: SparkSession, count: int, rounds: int) -> Iterator[Line]:
    """So many streams with one entry each, beside as many entries of one stream: a batch read, and a micro-batch."""
    for label, server in each_server():
        names = [f"s:{number}" for number in range(count)]

        def add(server: Server = server, names: list[str] = names) -> None:
            server.control.feed(encode("XADD", name, "*", "n", 1) for name in names)
            server.control.feed(encode("XADD", "one", "*", "n", 1) for _ in names)

        add()
        found = []
        for which in ({"streamsPattern": "s:*"}, {"streams": "one"}):
            reader = spark.read.format("redis-streams").options(port=server.port, **which)
            _discard(reader.load())
            batch = [_timed(lambda r=reader: _discard(r.load())) for _ in range(rounds)]
            found.append(
                (statistics.median(batch), _micro_batch(spark, server.port, which, add, count, rounds))
            )
        (many, many_micro), (one, one_micro) = found
        what, passed = f"{label}: {count:,} streams of one entry, batch", many <= MANY_BATCH_SECONDS
        yield Line(what, f"{many:.2f} s", f"one stream: {one:.2f} s", passed)
        passed = many_micro - one_micro <= MANY_MICRO_BATCH_SECONDS
        what = f"{label}: the same as a micro-batch"
        yield Line(what, f"{many_micro:.2f} s", f"one stream: {one_micro:.2f} s", passed)


def _micro_batch(
    spark: SparkSession, port: int, which: dict[str, str], add: Callable[[], None], rows: int, rounds: int
) -> float:
    """Median seconds of Spark's triggers that read so many rows, as Spark says."""
    source = spark.readStream.format("redis-streams").options(port=port, startingOffsets="earliest", **which)
    with tempfile.TemporaryDirectory() as checkpoint:
        query = source.load().writeStream.format("noop").option("checkpointLocation", checkpoint).start()
        try:
            query.processAllAvailable()
            took: list[float] = []
            while len(took) < rounds:
                add()
                query.processAllAvailable()
                took += [each.durationMs["triggerExecution"] / 1000 for each in query.recentProgress[-3:]
                         if each.numInputRows >= rows * 0.9][-1:]  # fmt: skip
        finally:
            query.stop()
    return statistics.median(took)


# Latency


def latencies(spark: SparkSession, seconds: float, streams: tuple[int, ...]) -> Iterator[Line]:
    """From XADD to the rows in foreachBatch, at steady rates, of entries that go to so many streams in turn."""
    with Server(SERVERS[0]) as server:
        _latencies(spark, server.port, RATES[-1], 1, WARM_UP_SECONDS)  # else who comes first meets a cold JVM
    for count in streams:
        for rate in RATES:
            for label, server in each_server():
                found = _latencies(spark, server.port, rate, count, seconds)
                p50, p99 = found[len(found) // 2], found[len(found) * 99 // 100]
                what = f"{label}: {rate:,}/s to {count:,} stream{'' if count == 1 else 's'}, foreachBatch"
                passed = p50 <= LATENCY_FLOOR_MS if count == 1 else None
                yield Line(what, f"p50 {p50:.0f} p99 {p99:.0f} ms", f"{len(found):,} entries", passed)


def _produce(port: int, rate: int, streams: int) -> None:
    """Send entries that carry their time, so many a second, to streams in turn, in slices of 5 ms, until it is ended."""
    client, sent, began = Connection(port), 0, time.perf_counter()
    while True:
        due = int((time.perf_counter() - began) * rate)
        now = time.time_ns()
        client.feed(encode("XADD", f"live:{number % streams}", "*", "t", now) for number in range(sent, due))
        sent = due
        time.sleep(0.005)


def _latencies(spark: SparkSession, port: int, rate: int, streams: int, seconds: float) -> list[float]:
    found: list[float] = []
    lock = threading.Lock()

    def each(rows: DataFrame, _: int) -> None:
        sent = [row.t for row in rows.collect()]
        now = time.time_ns()
        with lock:
            found.extend((now - at) / 1e6 for at in sent)

    names = ",".join(f"live:{number}" for number in range(streams))
    frame = (
        spark.readStream.format("redis-streams").options(port=port, streams=names).schema("t bigint").load()
    )
    # Not forked: this process has threads.
    producer = multiprocessing.get_context("spawn").Process(target=_produce, args=(port, rate, streams))
    producer.start()
    with tempfile.TemporaryDirectory() as checkpoint:
        query = frame.writeStream.foreachBatch(each).option("checkpointLocation", checkpoint).start()
        try:
            until = time.monotonic() + 120
            while len(found) < rate and query.isActive and time.monotonic() < until:
                time.sleep(0.1)  # the first batches start workers
            with lock:
                found.clear()
            time.sleep(seconds)
        finally:
            producer.terminate()
            producer.join()
            query.stop()
    if (producer.exitcode or 0) > 0 or not found:
        raise SystemExit(f"nothing was measured: {query.exception()}")
    return sorted(found)


# Memory


def memory() -> Iterator[Line]:
    """The most that the JVM and the largest Python process of this session have had, by the system's count."""
    peaks = {b"org.apache.spark": 0, b"pyspark": 0}  # of the JVM, of Spark's Python workers
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            if os.getsid(int(process.name)) == os.getsid(0):
                command, status = (process / "cmdline").read_bytes(), (process / "status").read_text()
                kind = next((each for each in peaks if each in command), b"")
                if kind:
                    peaks[kind] = max(peaks[kind], int(status.partition("VmHWM:")[2].split()[0]))
    for name, kilobytes in zip(("JVM", "largest Python process"), peaks.values(), strict=True):
        yield Line(f"memory so far: {name}", f"{kilobytes / 1024:,.0f} MB")


# Sink


def sinks(spark: SparkSession, rows: int) -> Iterator[Line]:
    """Rows a second into a stream: a batch write, and a stream copied in batches of 100,000."""
    for label, server in each_server():
        where = {"port": str(server.port)}
        made = spark.range(rows).selectExpr("cast(id as string) customer", "cast(id % 7 as string) amount")
        writer = made.write.format("redis-streams").options(**where).mode("append")
        writer.options(stream="warm").save()
        took = _timed(writer.options(stream="out").save)
        yield Line(f"{label}: df.write", f"{rows / took:,.0f} rows/s")
        reader = spark.readStream.format("redis-streams").schema("customer string, amount string")
        frame = reader.options(
            **where, streams="out", startingOffsets="earliest", maxRowsPerTrigger=100_000
        ).load()
        for delivery in ("exactly-once", "at-least-once"):
            with tempfile.TemporaryDirectory() as checkpoint:
                copy = {"stream": f"copy-{delivery}", "delivery": delivery, "checkpointLocation": checkpoint}
                writer = frame.writeStream.format("redis-streams").options(**where, **copy)
                took = _timed(lambda w=writer: w.trigger(availableNow=True).start().awaitTermination())
            yield Line(f"{label}: stream to stream, {delivery}", f"{rows / took:,.0f} rows/s")


# Ledger


def ledger() -> Iterator[Line]:
    """What one core reads of an append-only file, beside hiredis: processor time, the least of three turns."""
    with tempfile.TemporaryDirectory() as folder:
        # Read in tens, acknowledged in tens
        written = write_file(Path(folder), LEDGER_ENTRIES, 10, 10, in_turn=False, kind="AOF")
        path = next(written.glob("*.incr.aof"))
        megabytes = path.stat().st_size / 1e6
        parsing, reading, rows = [], [], 0
        for _ in range(3):
            began = time.process_time()
            _parse_only(path)
            parsing.append(time.process_time() - began)
            began = time.process_time()
            rows = sum(batch.num_rows for batch in read_piece(FilePiece(str(path), 1)))
            reading.append(time.process_time() - began)
    ratio = min(parsing) / min(reading)
    beside = f"{ratio:.2f}x hiredis, {rows / min(reading):,.0f} events/s"
    yield Line("ledger, one core", f"{megabytes / min(reading):.0f} MB/s", beside, ratio >= LEDGER_FLOOR)


def _parse_only(path: Path) -> None:
    """Read the same commands with hiredis."""
    reader = hiredis.Reader()
    with path.open("rb") as file:
        while data := file.read(1 << 16):
            reader.feed(data)
            while reader.gets() is not False:
                pass


# Without a JVM: processor time of this process, without the server's


def planning(counts: tuple[int, ...], rounds: int) -> Iterator[Line]:
    """What a trigger does in the driver before a task starts, and what tasks do to read streams of one entry each."""
    for count in counts:
        for label, server in each_server():
            names = [f"s:{number}" for number in range(count)]

            def add(server: Server = server, names: list[str] = names) -> None:
                server.control.feed(encode("XADD", name, "*", "n", 1) for name in names)

            add()
            for name, way in _ways(server.port).items():
                way()  # connects, creates groups, reads what is there
                times = []
                for _ in range(rounds):
                    add()
                    times.append(way())
                planned, read = (statistics.median(each) * 1000 for each in zip(*times, strict=True))
                what = f"{label}: {count:,} streams, {name}, no JVM"
                yield Line(what, f"planning {planned:,.1f} ms", f"reading {read:,.1f} ms")


def _ways(port: int) -> dict[str, Callable[[], tuple[float, float]]]:
    """The ways to read many streams, called as Spark calls them: each returns seconds of planning and of reading."""
    schema = default_schema()
    given = {"port": str(port), "streamsPattern": "s:*", "startingOffsets": "earliest"}
    batch = RangeBatchReader(schema, BatchOptions.of(given))
    live = RangeStreamReader(schema, RangeStreamOptions.of(given))
    group = GroupStreamReader(default_schema("", group_columns()), given | {"group": "g"})
    return {
        "batch": partial(_read, batch, batch.partitions),
        "micro-batch": partial(_read, live, _trigger(live)),
        "group": partial(_read, group, _trigger(group)),
    }


def _trigger(reader: RangeStreamReader | GroupStreamReader) -> Callable[[], Any]:
    """Return what plans the next micro-batch."""
    offset: Any = reader.initialOffset()

    def plan() -> Any:
        nonlocal offset
        begin, offset = offset, reader.latestOffset(offset, ReadAllAvailable())
        return reader.partitions(begin, offset)

    return plan


def _read(reader: Any, plan: Callable[[], Any]) -> tuple[float, float]:
    began = time.process_time()
    parts = plan()
    planned = time.process_time()
    for part in parts:
        deque(reader.read(part), 0)
    return planned - began, time.process_time() - planned


def _session() -> SparkSession:
    spark = rillet.pipeline.session("bench", **{"spark.master": "local[2]", "spark.driver.memory": "1g"})
    spark.sparkContext.setLogLevel("ERROR")
    return spark


if __name__ == "__main__":
    sys.exit(main())
