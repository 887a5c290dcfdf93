"""The Spark pipeline in one run: batch reads, many streams, latency, sink, ledger; ratios to the plain ways, and floors.

Where a figure was measured several times it is the median. `spark_parts.py` measures planning without a JVM.

python benchmarks/spark.py [--only batch streams latency sink ledger] [--entries 100000 1000000 5000000] [--seconds 10]
"""

from __future__ import annotations

import argparse
import logging
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import redis
from servers import Server, encode

import rillet.pipeline
from rillet.pipeline.redis.connection import Connection
from rillet.pipeline.redis.options import Endpoint

if TYPE_CHECKING:
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
LEDGER_FLOOR: Final = 0.3  # of hiredis
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
    options = _options()
    logging.getLogger("py4j").setLevel(logging.ERROR)
    spark = _session()
    measures: dict[str, Callable[[], Iterator[Line]]] = {
        "batch": lambda: batch_reads(spark, options.entries, options.rounds),
        "streams": lambda: many_streams(spark, options.streams, options.rounds),
        "latency": lambda: latencies(spark, options.seconds, options.live_streams),
        "sink": lambda: sinks(spark, options.rows),
        "ledger": ledger,
    }
    print(
        f"# {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Spark {spark.version}, Python {sys.version.split()[0]}"
    )
    below = 0
    for name in options.only or measures:
        for line in measures[name]():
            print(line, flush=True)
            below += line.passed is False
        for line in memory():
            print(line, flush=True)
    spark.stop()
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
    speeds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            speeds[name].append(entries / _timed(way))
    middle = {name: statistics.median(found) for name, found in speeds.items()}
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
    """The most that the driver's JVM and the largest Python process below it have had, by the system's count."""
    peaks = {"JVM": 0, "largest Python process": 0}
    for pid in _descendants(os.getpid()):
        try:
            status = Path(f"/proc/{pid}/status").read_text()
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue  # it has ended
        lines = (line.split() for line in status.splitlines() if line.startswith("VmHWM"))
        kind = (
            "JVM"
            if b"org.apache.spark" in command
            else "largest Python process"
            if b"pyspark" in command
            else ""
        )
        if kind:
            peaks[kind] = max(peaks[kind], *(int(words[1]) for words in lines), 0)
    for name, kilobytes in peaks.items():
        yield Line(f"memory so far: {name}", f"{kilobytes / 1024:,.0f} MB")


def _descendants(pid: int) -> Iterator[int]:
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found = children.read_text().split()
        except OSError:
            continue
        for child in map(int, found):
            yield child
            yield from _descendants(child)


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
    """What one core reads of an append-only file."""
    from spark_ledger import measure

    found = measure()
    beside = f"{found['ratio']:.2f}x hiredis, {found['ledger_events_s']:,.0f} events/s"
    yield Line("ledger, one core", f"{found['ledger_mb_s']:.0f} MB/s", beside, found["ratio"] >= LEDGER_FLOOR)


def _session() -> SparkSession:
    spark = rillet.pipeline.session("bench", **{"spark.master": "local[2]", "spark.driver.memory": "1g"})
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=("batch", "streams", "latency", "sink", "ledger"))
    parser.add_argument(
        "--entries", type=int, nargs="+", default=[100_000, 1_000_000, 5_000_000], help="of batch reads"
    )
    parser.add_argument("--streams", type=int, default=10_000, help="of one entry each")
    parser.add_argument(
        "--live-streams", type=int, nargs="+", default=[1, 100, 1000], help="that latency is measured with"
    )
    parser.add_argument("--rows", type=int, default=300_000, help="of the sink")
    parser.add_argument(
        "--rounds", type=int, default=5, help="of batch reads and micro-batches; their median counts"
    )
    parser.add_argument("--seconds", type=float, default=10, help="of each latency")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
