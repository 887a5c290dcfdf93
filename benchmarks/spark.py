"""The Spark pipeline in one run: batch reads, many streams, latency, sink, ledger; ratios to the plain ways, and floors.

Where a figure was measured several times it is the median. `planning` calls the readers itself.

python benchmarks/spark.py [--only batch streams latency sink ledger planning casts] [--entries 100000 1000000] [--seconds 10]
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import hiredis
import pyspark
import redis
from loading import write_file
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType
from servers import Server, alternate, encode
from tables import options

import rillet.pipeline
from rillet.pipeline.group.stream_reader import GroupStreamReader, group_columns
from rillet.pipeline.ledger.files.piece import FilePiece, read_piece
from rillet.pipeline.range.batch_reader import RangeBatchReader
from rillet.pipeline.range.stream_reader import RangeStreamReader
from rillet.pipeline.redis.connection import Connection
from rillet.pipeline.redis.options import Endpoint
from rillet.pipeline.source.entry_batches import ColumnOptions, Columns, default_schema
from rillet.pipeline.source.options import BatchOptions, RangeStreamOptions

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame, SparkSession

SERVERS: Final = tuple(os.environ.get("BENCH_SERVERS", "redis-server rillet").split())
RATES: Final = (200, 5000)
READ_FLOOR: Final = 0.8  # of a redis-py loop
FLOOR_ENTRIES: Final = 1_000_000
LATENCY_FLOOR_MS: Final = 250.0
MANY_BATCH_SECONDS: Final = 20.0
MANY_MICRO_BATCH_SECONDS: Final = 2.0  # beyond what the same rows of one stream take
WARM_UP_SECONDS: Final = 20.0
LEDGER_FLOOR: Final = 0.25  # of hiredis
LEDGER_ENTRIES: Final = 250_000
BAD_CEILING: Final = 2.0  # of what a column takes in which all is well
WORDS: Final = ("", "n/a", "a text of some words")
# By type, a text as programs write it, and others: {0} is a number, {1} a day of a month.
TEXTS: Final = {
    "long": ("{0}", "1.5", "1234567{0:016}", " {0}", *WORDS),
    "double": ("{0}.25", "inf", "NaN", "-Infinity", "+{0}", "1{0}e400", *WORDS),
    "decimal(12,2)": ("{0}.25", "{0}.99999", "{0}.123456789012345", "1234567{0:016}", *WORDS),
    "boolean": ("true", "yes", "F", *WORDS),
    "date": ("2026-11-{1:02}", "2026-11-{1:02}T10:00:00", "2026-11-{1:02} 10:00:00.{0:06} Europe/Berlin", *WORDS),
    "timestamp": ("2026-11-{1:02}T10:00:00.{0:06}Z", "2026-11-{1:02}T10:00:00", "2026-11-{1:02}", "2026-11-{1:02} 10:00", *WORDS),
}  # fmt: skip
COUNT: Final = 1000
TYPED: Final = "id string, customer string, amount bigint, currency string, note string"
# Sends entries that carry their time, so many a second, to streams in turn, in slices of 5 ms, until it is ended.
PRODUCER: Final = """
import socket, sys, time
port, rate, streams = map(int, sys.argv[1:])
keys = [b"live:%d" % n for n in range(streams)]
sock = socket.create_connection(("127.0.0.1", port)); sent, began = 0, time.perf_counter()
while True:
    due = int((time.perf_counter() - began) * rate)
    if due > sent:
        t = b"%d" % time.time_ns()
        tail = b"$1\\r\\n*\\r\\n$1\\r\\nt\\r\\n$%d\\r\\n%b\\r\\n" % (len(t), t)
        named = (keys[n % streams] for n in range(sent, due))
        sock.sendall(b"".join(b"*5\\r\\n$4\\r\\nXADD\\r\\n$%d\\r\\n%b\\r\\n%b" % (len(k), k, tail) for k in named))
        sent = due
    time.sleep(0.005); sock.setblocking(False)
    try: sock.recv(1 << 20)
    except BlockingIOError: pass
    sock.setblocking(True)
"""


@dataclass(frozen=True)
class Line:
    """One measured figure; ``passed`` is None where there is no floor."""

    what: str
    value: str
    beside: str = ""
    passed: bool | None = None

    def __str__(self) -> str:
        verdict = {None: "", True: "ok", False: "BELOW THE FLOOR"}[self.passed]
        return f"{self.what:46} {self.value:>22}  {self.beside:42} {verdict}".rstrip()


def main() -> int:
    asked = _options()
    logging.getLogger("py4j").setLevel(logging.ERROR)
    measures: dict[str, Callable[[], Iterator[Line]]] = {
        "batch": lambda: batch_reads(_session(), asked.entries, asked.rounds),
        "streams": lambda: many_streams(_session(), asked.streams[-1], asked.rounds),
        "latency": lambda: latencies(_session(), asked.seconds, asked.live_streams),
        "sink": lambda: sinks(_session(), asked.rows),
        "ledger": ledger,
        "planning": lambda: planning(asked.streams, asked.rounds),
        "casts": lambda: casts(asked.rounds),
    }
    load, python = os.getloadavg()[0], sys.version.split()[0]
    print(f"# {os.cpu_count()} cores, load {load:.1f}, Spark {pyspark.__version__}, Python {python}")
    below = 0
    for name in asked.only or measures:
        for line in measures[name]():
            print(line, flush=True)
            below += line.passed is False
        for line in memory():
            print(line, flush=True)
    return int(below > 0)


# Batch reads


def batch_reads(spark: SparkSession, sizes: list[int], rounds: int) -> Iterator[Line]:
    """All entries of a stream with four fields: two cores of Spark against one loop, on each server."""
    for program in SERVERS:
        with Server(program) as server:
            there = 0
            for entries in sorted(sizes):
                _fill(server, "orders", there, entries)
                there = entries
                yield from _batch_read(spark, server.port, f"{program}, {entries:,}", entries, rounds)


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
    with Connection(Endpoint(port=port)) as connection:
        while chunk := connection.call("XRANGE", "orders", last, "+", "COUNT", COUNT):
            seen += len(chunk)
            last = b"(" + chunk[-1][0]
    return seen


def _discard(frame: DataFrame) -> int:
    frame.write.format("noop").mode("overwrite").save()
    return 0


def _fill(server: Server, stream: str, there: int, entries: int) -> None:
    note = b"n" * 40
    for start in range(there, entries, 50_000):
        server.control.pipeline(
            [
                encode("XADD", stream, f"{1_790_000_000_000 + at // 20}-{at % 20}", "customer", f"c-{at % 977}",
                       "amount", at, "currency", "EUR", "note", note)
                for at in range(start, min(start + 50_000, entries))
            ]
        )  # fmt: skip


# Many streams


def many_streams(spark: SparkSession, count: int, rounds: int) -> Iterator[Line]:
    """So many streams with one entry each, beside as many entries of one stream: a batch read, and a micro-batch."""
    for program in SERVERS:
        with Server(program) as server:
            names = [f"s:{number}" for number in range(count)]

            def add(server: Server = server, names: list[str] = names) -> None:
                server.control.pipeline([encode("XADD", name, "*", "n", 1) for name in names])
                server.control.pipeline([encode("XADD", "one", "*", "n", 1) for _ in names])

            add()
            ways = {"many": {"streamsPattern": "s:*"}, "one": {"streams": "one"}}
            batch, micro = (dict.fromkeys(ways, 0.0) for _ in range(2))
            for name, which in ways.items():
                reader = spark.read.format("redis-streams").options(port=server.port, **which)
                _discard(reader.load())
                batch[name] = statistics.median(
                    _timed(lambda r=reader: _discard(r.load())) for _ in range(rounds)
                )
                micro[name] = _micro_batch(spark, server.port, which, add, count, rounds)
        yield Line(
            f"{program}: {count:,} streams of one entry, batch", f"{batch['many']:.2f} s",
            f"one stream: {batch['one']:.2f} s", batch["many"] <= MANY_BATCH_SECONDS,
        )  # fmt: skip
        beyond = micro["many"] - micro["one"]
        yield Line(
            f"{program}: the same as a micro-batch", f"{micro['many']:.2f} s",
            f"one stream: {micro['one']:.2f} s", beyond <= MANY_MICRO_BATCH_SECONDS,
        )  # fmt: skip


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


def latencies(spark: SparkSession, seconds: float, streams: list[int]) -> Iterator[Line]:
    """From XADD to the rows in foreachBatch, at steady rates, of entries that go to so many streams in turn."""
    with Server(SERVERS[0]) as server:
        _latencies(spark, server.port, RATES[-1], 1, WARM_UP_SECONDS)  # else who comes first meets a cold JVM
    for program in SERVERS:
        for count in streams:
            for rate in RATES:
                with Server(program) as server:
                    found = _latencies(spark, server.port, rate, count, seconds)
                p50, p99 = found[len(found) // 2], found[len(found) * 99 // 100]
                what = f"{program}: {rate:,}/s to {count:,} stream{'' if count == 1 else 's'}, foreachBatch"
                passed = p50 <= LATENCY_FLOOR_MS if count == 1 else None
                yield Line(what, f"p50 {p50:.0f} p99 {p99:.0f} ms", f"{len(found):,} entries", passed)


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
    producer = subprocess.Popen([sys.executable, "-c", PRODUCER, str(port), str(rate), str(streams)])
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
            producer.wait()
            query.stop()
    if producer.returncode > 0 or not found:
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
    for program in SERVERS:
        with Server(program) as server, tempfile.TemporaryDirectory() as checkpoint:
            where = {"port": str(server.port)}
            made = spark.range(rows).selectExpr(
                "cast(id as string) customer", "cast(id % 7 as string) amount"
            )
            made.write.format("redis-streams").options(**where, stream="warm").mode("append").save()
            began = time.perf_counter()
            made.write.format("redis-streams").options(**where, stream="out").mode("append").save()
            yield Line(f"{program}: df.write", f"{rows / (time.perf_counter() - began):,.0f} rows/s")
            frame = (
                spark.readStream.format("redis-streams").options(**where, streams="out", startingOffsets="earliest")
                .option("maxRowsPerTrigger", 100_000).schema("customer string, amount string").load()
            )  # fmt: skip
            for delivery in ("exactly-once", "at-least-once"):
                began = time.perf_counter()
                query = (
                    frame.writeStream.format("redis-streams").options(**where, stream=f"copy-{delivery}", delivery=delivery)
                    .option("checkpointLocation", f"{checkpoint}/{delivery}").trigger(availableNow=True).start()
                )  # fmt: skip
                query.awaitTermination()
                took = time.perf_counter() - began
                yield Line(f"{program}: stream to stream, {delivery}", f"{rows / took:,.0f} rows/s")


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


def planning(counts: list[int], rounds: int) -> Iterator[Line]:
    """What a trigger does in the driver before a task starts, and what tasks do to read streams of one entry each."""
    for program in SERVERS:
        for count in counts:
            with Server(program) as server:
                for name, (planned, read) in Planning(server, count).measure(rounds).items():
                    what = f"{program}: {count:,} streams, {name}, no JVM"
                    yield Line(what, f"planning {planned * 1000:,.1f} ms", f"reading {read * 1000:,.1f} ms")


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
        return {"batch": _Way(batch), "micro-batch": _Way(live), "group": _Way(group)}

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


class _Way:
    """Called, it is a batch read or a trigger, and returns the seconds of planning and of reading."""

    def __init__(self, reader: RangeBatchReader | RangeStreamReader | GroupStreamReader) -> None:
        self._reader = reader
        self._offset: Any = None if isinstance(reader, RangeBatchReader) else reader.initialOffset()

    def __call__(self) -> tuple[float, float]:
        reader = self._reader
        began = time.process_time()
        if isinstance(reader, RangeBatchReader):
            parts = reader.partitions()
        else:
            begin, self._offset = self._offset, reader.latestOffset(self._offset, ReadAllAvailable())
            parts = reader.partitions(begin, self._offset)
        planned = time.process_time()
        for part in parts:
            deque(reader.read(part), 0)
        return planned - began, time.process_time() - planned


def casts(rounds: int) -> Iterator[Line]:
    """A column half of which does not fit, or is written in another way, beside a good one: a batch of 20,000 rows."""
    numbers = random.Random(1)
    for kind, (good, *others) in TEXTS.items():
        columns = Columns(StructType().add("v", kind), ColumnOptions())
        took: dict[str, float] = dict.fromkeys((good, *others), math.inf)
        entries = {
            other: [
                [
                    b"1790000000000-%d" % at,
                    [b"v", text.format(numbers.randrange(10**6), 1 + at % 28).encode()],
                ]
                for at, text in zip(range(20_000), itertools.cycle((good, other)), strict=False)
            ]
            for other in took
        }
        for _ in range(rounds):
            for other, rows in entries.items():
                began = time.process_time()
                columns.batch("orders", rows)
                took[other] = min(took[other], time.process_time() - began)
        for other in others:
            ratio = took[other] / took[good]
            yield Line(f"{kind}, half of it {other!r}", f"{ratio:.2f}x", f"of {good!r}", ratio <= BAD_CEILING)


def _session() -> SparkSession:
    spark = rillet.pipeline.session("bench", **{"spark.master": "local[2]", "spark.driver.memory": "1g"})
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _options() -> argparse.Namespace:
    parser = options(__doc__, rounds=5)

    def add(name: str, default: object, what: str, **more: object) -> None:
        parser.add_argument(name, default=default, help=f"{what} ({default})", **more)  # type: ignore[arg-type]

    parser.add_argument(
        "--only", nargs="+", choices=("batch", "streams", "latency", "sink", "ledger", "planning", "casts")
    )
    add("--entries", [100_000, 1_000_000, 5_000_000], "of batch reads", type=int, nargs="+")
    add("--streams", [1, 100, 1000, 10_000], "of one entry each", type=int, nargs="+")
    add("--live-streams", [1, 100, 1000], "that latency is measured with", type=int, nargs="+")
    add("--rows", 300_000, "of the sink", type=int)
    add("--seconds", 10.0, "of each latency", type=float)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
