"""Values of 2 MiB under a real Spark: bytes bound the memory of its Python workers, and not rows."""

import contextlib
import os
import threading
from pathlib import Path
from typing import Self

import pytest
from support.spark.queries import run

from rillet.pipeline.redis.connection import Connection
from rillet.pipeline.redis.options import Endpoint

pytestmark = pytest.mark.heavy  # two gigabytes in the server; test_sizes.py has a tenth of it, without a JVM

COUNT, SIZE = 1100, 2 << 20


class WorkerMemory(threading.Thread):
    """Looks at Spark's Python processes of this session while it runs; `.peak` is the most that one ever had, in bytes.

    They are forks of one process (support/spark/forked_python.py), so they and only they have a parent with their own words;
    what Spark started is a small program that waits for its fork.
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._ended = threading.Event()
        self.peak = 0

    def run(self) -> None:
        while not self._ended.wait(0.02):
            for place in Path("/proc").iterdir():
                # A process may end while it is looked at.
                with contextlib.suppress(FileNotFoundError, ProcessLookupError, NotADirectoryError):
                    words = (place / "cmdline").read_bytes()
                    if b"pyspark.worker" in words and is_ours(int(place.name)):
                        facts = dict(
                            line.split(":", 1) for line in (place / "status").read_text().splitlines()
                        )
                        if (Path("/proc") / facts["PPid"].strip() / "cmdline").read_bytes() != words:
                            continue  # it is the process that forks
                        self.peak = max(self.peak, int(facts["VmHWM"].split()[0]) << 10)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.join()


def is_ours(pid: int) -> bool:
    return os.getsid(pid) == os.getsid(0)


@pytest.fixture(scope="module")
def port(running):
    found = running("rillet").port
    with Connection(Endpoint(port=found)) as connection:
        for _ in range(COUNT):
            connection.call("XADD", "large", "*", "n", b"x" * SIZE)
        yield found
        connection.call("DEL", "large")


def drained(frame, checkpoint):
    """How many rows and bytes one run of a streaming query reads."""
    found = []
    frame = frame.selectExpr("length(fields[0].value) as size")

    def add(batch, _):
        found.append(batch.selectExpr("count(*)", "coalesce(sum(size), 0)").first())

    run(frame.writeStream.foreachBatch(add), checkpoint)
    return tuple(map(sum, zip(*found, strict=True)))


@pytest.mark.parametrize("way", ["batch", "range", "group"])
def test_large_values_take_less_than_a_gigabyte_of_a_worker(spark, port, tmp_path, way):
    given = {"port": port, "streams": "large"}
    with WorkerMemory() as memory:
        if way == "batch":
            read = spark.read.format("redis-streams").options(**given).load()
            found = tuple(read.selectExpr("count(*)", "sum(length(fields[0].value))").first())
        else:
            more = {"mode": "group", "group": "g"} if way == "group" else {}
            read = spark.readStream.format("redis-streams").options(
                **given, **more, startingOffsets="earliest"
            )
            found = drained(read.load(), tmp_path / "checkpoint")
    print(f"{way}: {memory.peak >> 20} MiB")  # noqa: T201 - with -s
    assert found == (COUNT, COUNT * SIZE)
    assert 0 < memory.peak < 1 << 30
