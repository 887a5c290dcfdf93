"""The Spark pipeline in one run: batch read, micro-batch latency, sink, ledger; ratios to the plain ways, and floors.

python benchmarks/spark.py [--only batch latency sink ledger] [--entries 1000000] [--seconds 10]
"""

from __future__ import annotations

import argparse
import logging
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
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
LATENCY_FLOOR_MS: Final = 250.0
WARM_UP_SECONDS: Final = 20.0
LEDGER_FLOOR: Final = 0.3  # of hiredis
COUNT: Final = 1000
TYPED: Final = "id string, customer string, amount bigint, currency string, note string"
# Sends entries that carry their time, so many a second, in slices of 5 ms, until it is ended.
PRODUCER: Final = """
import socket, sys, time
port, rate = int(sys.argv[1]), int(sys.argv[2])
sock = socket.create_connection(("127.0.0.1", port)); sent, began = 0, time.perf_counter()
while True:
    due = int((time.perf_counter() - began) * rate)
    if due > sent:
        t = b"%d" % time.time_ns()
        sock.sendall(b"*5\\r\\n$4\\r\\nXADD\\r\\n$4\\r\\nlive\\r\\n$1\\r\\n*\\r\\n$1\\r\\nt\\r\\n$%d\\r\\n%b\\r\\n" % (len(t), t) * (due - sent))
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
        "latency": lambda: latencies(spark, options.seconds),
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
    spark.stop()
    return int(below > 0)


# Batch reads


def batch_reads(spark: SparkSession, entries: int, rounds: int) -> Iterator[Line]:
    """All entries of a stream with four fields: two cores of Spark against one loop, on each server."""
    for program in SERVERS:
        with Server(program) as server:
            _fill(server, "orders", entries)
            best = {"redis-py": 0.0, "hiredis": 0.0, "default": 0.0, "typed": 0.0}
            frame = spark.read.format("redis-streams").options(port=server.port, streams="orders")
            ways: dict[str, Callable[[], int]] = {
                "redis-py": lambda server=server: _loop_redis_py(server.port),
                "hiredis": lambda server=server: _loop_hiredis(server.port),
                "default": lambda frame=frame: _discard(frame.load()),
                "typed": lambda frame=frame: _discard(frame.schema(TYPED).load()),
            }
            ways["default"]()  # workers start
            for _ in range(rounds):
                for name, way in ways.items():
                    began = time.perf_counter()
                    way()
                    best[name] = max(best[name], entries / (time.perf_counter() - began))
        for name in ("redis-py", "hiredis"):
            yield Line(f"{program}: {name} XRANGE loop", f"{best[name]:,.0f} rows/s")
        for name in ("default", "typed"):
            ratio = best[name] / best["redis-py"]
            beside = f"{ratio:.2f}x redis-py, {best[name] / best['hiredis']:.2f}x hiredis"
            yield Line(
                f"{program}: Spark batch read, {name} columns",
                f"{best[name]:,.0f} rows/s",
                beside,
                ratio >= READ_FLOOR,
            )


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


def _fill(server: Server, stream: str, entries: int) -> None:
    note = b"n" * 40
    for start in range(0, entries, 50_000):
        server.control.pipeline(
            [
                encode("XADD", stream, f"{1_790_000_000_000 + at // 20}-{at % 20}", "customer", f"c-{at % 977}",
                       "amount", at, "currency", "EUR", "note", note)
                for at in range(start, min(start + 50_000, entries))
            ]
        )  # fmt: skip


# Latency


def latencies(spark: SparkSession, seconds: float) -> Iterator[Line]:
    """From XADD to the rows in foreachBatch, at steady rates."""
    with Server(SERVERS[0]) as server:
        _latencies(spark, server.port, RATES[-1], WARM_UP_SECONDS)  # else who comes first meets a cold JVM
    for program in SERVERS:
        for rate in RATES:
            with Server(program) as server:
                found = _latencies(spark, server.port, rate, seconds)
            p50, p99 = found[len(found) // 2], found[len(found) * 99 // 100]
            what = f"{program}: {rate:,}/s to foreachBatch"
            yield Line(
                what, f"p50 {p50:.0f} p99 {p99:.0f} ms", f"{len(found):,} entries", p50 <= LATENCY_FLOOR_MS
            )


def _latencies(spark: SparkSession, port: int, rate: int, seconds: float) -> list[float]:
    found: list[float] = []
    lock = threading.Lock()

    def each(rows: DataFrame, _: int) -> None:
        sent = [row.t for row in rows.collect()]
        now = time.time_ns()
        with lock:
            found.extend((now - at) / 1e6 for at in sent)

    frame = (
        spark.readStream.format("redis-streams").options(port=port, streams="live").schema("t bigint").load()
    )
    producer = subprocess.Popen([sys.executable, "-c", PRODUCER, str(port), str(rate)])
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
    parser.add_argument("--only", nargs="+", choices=("batch", "latency", "sink", "ledger"))
    parser.add_argument("--entries", type=int, default=1_000_000, help="of a batch read")
    parser.add_argument("--rows", type=int, default=300_000, help="of the sink")
    parser.add_argument("--rounds", type=int, default=3, help="the best of so many batch reads counts")
    parser.add_argument("--seconds", type=float, default=10, help="of each latency")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
