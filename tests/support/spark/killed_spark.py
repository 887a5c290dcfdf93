"""Drivers of Spark to be killed, who adds what their queries read, and what those wrote: for tests/crash."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.spark import spark_driver
from support.spark.quick import quick_conf_dir
from support.spark.spark_cluster import spark_home

from rillet.pipeline.redis.connection import ConnectionLost, checked
from rillet.pipeline.redis.options import Endpoint
from rillet.pipeline.redis.shards import connect

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable

    from rillet.pipeline.redis.connection import Connection

NAMES = [f"{source}-{sink}" for source in spark_driver.SOURCES for sink in spark_driver.SINKS]
PATIENCE = 400  # seconds; a machine that others use, too


class Producer(threading.Thread):
    """Adds numbered entries to all four streams, and has another consumer of the groups take some and die."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self._connection = connect(Endpoint.of({"url": url}))
        self._enough = threading.Event()
        self.count = 0
        self.failure: Exception | None = None

    def run(self) -> None:
        try:
            while not self._enough.is_set():
                for name in NAMES:
                    self._add(f"in-{name}", self.count, self.count + 20)
                    if name.startswith("group") and self.count % 100 == 0:
                        # Whether the deserter got them or not: they are pending, or new.
                        with contextlib.suppress(ConnectionLost):
                            self._connection.call(
                                "XREADGROUP",
                                "GROUP",
                                "g",
                                "deserter",
                                "COUNT",
                                5,
                                "STREAMS",
                                f"in-{name}",
                                ">",
                            )
                self.count += 20
                time.sleep(0.25)
        except Exception as error:  # noqa: BLE001 - finish reports it
            self.failure = error

    def _add(self, stream: str, first: int, end: int) -> None:
        """Add numbers; after a failover, those that the stream does not have."""
        while first < end:
            try:
                steps = [
                    ("MULTI",),
                    *(("XADD", stream, "*", "n", number) for number in range(first, end)),
                    ("EXEC",),
                ]
                checked(self._connection.pipeline(steps))
            except ConnectionLost:
                newest = self._connection.call("XREVRANGE", stream, "+", "-", "COUNT", 1)
                first = int(newest[0][1][1]) + 1 if newest else 0
                continue
            return

    def finish(self) -> int:
        self._enough.set()
        self.join()
        self._connection.close()
        if self.failure:
            raise self.failure
        return self.count


class Driver:
    """A driver process in a session of its own; its JVMs and its Python processes are in it, too."""

    def __init__(self, url: str, folder: Path, master: str) -> None:
        self.log = folder / "driver.log"
        home, conf = spark_home(folder), quick_conf_dir(folder)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, spark_driver.__file__, url, str(folder), master],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                env=os.environ
                | {"SPARK_HOME": str(home), "SPARK_CONF_DIR": str(conf), "SPARK_LOCAL_IP": "127.0.0.1"},
            )

    def go(self) -> None:
        """Let it start its queries, once Spark runs."""
        assert self.process.stdout is not None
        assert self.process.stdin is not None
        if self.process.stdout.readline() != b"ready\n":
            pytest.fail(f"the driver did not start:\n{self.log.read_text()[-3000:]}")
        self.process.stdin.write(b"go\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """SIGKILL the driver and all its processes."""
        kill(pid for pid, _ in self.processes())
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()

    def kill_some(self, what: str) -> int:
        """SIGKILL all processes of a kind; how many."""
        return kill(pid for pid, command in self.processes() if is_of_kind(what, command))

    def processes(self) -> list[tuple[int, list[bytes]]]:
        """All processes of the driver's session: their ids and the words that started them."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                    session = int((entry / "stat").read_text().rpartition(")")[2].split()[3])
                    if session == self.process.pid:
                        words = (entry / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
                        found.append((int(entry.name), words))
        return found

    def check(self) -> None:
        if self.process.poll() is not None:
            pytest.fail(f"the driver ended by itself:\n{self.log.read_text()[-6000:]}")


def kill(pids: Iterable[int]) -> int:
    killed = 0
    for pid in list(pids):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            killed += 1
    return killed


def is_of_kind(what: str, command: list[bytes]) -> bool:
    """Tasks run in `workers` that a daemon forks; `planners` are the Python processes that sources and sinks have in
    the driver; `executors` are JVMs of their own on a cluster."""
    is_python = b"-m" in command
    is_worker = b"pyspark.daemon" in command and command[-1] == b"pyspark.worker"
    return {
        "workers": is_worker,
        "planners": is_python and not is_worker,
        "executors": any(word.endswith(b".CoarseGrainedExecutorBackend") for word in command),
    }[what]


class Drivers:
    """One driver after the other, in the same folder; the next one is ready when one dies."""

    def __init__(self, url: str, folder: Path, master: str) -> None:
        self._words = (url, folder, master)
        self.driver = Driver(*self._words)
        self._next: Driver | None = None
        self.driver.go()

    def prepare(self) -> None:
        """Start the one that is to follow, if it is not there yet."""
        self._next = self._next or Driver(*self._words)

    def again(self) -> None:
        """Kill the driver; the next one takes its place."""
        self.driver.kill()
        self.driver, self._next = self._next or Driver(*self._words), None
        self.driver.go()

    def end(self) -> None:
        self.driver.kill()
        if self._next is not None:
            self._next.kill()


def make_groups(connection: Connection) -> None:
    """Make the streams, and the groups of those that are read so."""
    for name in NAMES:
        connection.call("XGROUP", "CREATE", f"in-{name}", "g", "0", "MKSTREAM")


def check_all_written(connection: Connection, folder: Path, count: int) -> None:
    """See that each number was written once by each query."""
    wanted = [str(number) for number in range(count)]
    for name in NAMES:
        found = Counter(read(connection, folder, name))
        doubled = {number: times for number, times in found.items() if times > 1}
        missing = [number for number in wanted if number not in found]
        assert not doubled, f"{name}: {len(doubled)} doubled, as {list(doubled.items())[:5]}"
        assert not missing, f"{name}: {len(missing)} missing, as {missing[:5]}"
        assert len(found) == count
    # In order, too, where the writer reads in order.
    assert read(connection, folder, "range-stream") == wanted


def read(connection: Connection, folder: Path, name: str) -> list[str]:
    """The numbers that a query wrote."""
    if name.endswith("stream"):
        entries = connection.call("XRANGE", f"out-{name}", "-", "+")
        return [dict(zip(words[::2], words[1::2], strict=True))[b"n"].decode() for _, words in entries]
    return read_parquet(folder / name)


def read_parquet(folder: Path) -> list[str]:
    """What Spark's log of the sink says is there; files of batches that died are not in it."""
    import json
    from urllib.parse import unquote, urlparse

    import pyarrow.parquet as pq

    numbers: list[str] = []
    log = folder / "_spark_metadata"
    files: dict[str, None] = {}
    batches = {path.name.partition(".")[0]: path for path in log.glob("[0-9]*")} if log.exists() else {}
    compacted = [int(path.name.partition(".")[0]) for path in log.glob("*.compact")] if log.exists() else []
    start = max(compacted, default=-1)
    for name in sorted(batches, key=int):
        if int(name) < start:
            continue
        path = log / f"{name}.compact" if int(name) == start else batches[name]
        for line in path.read_text().splitlines()[1:]:
            files[unquote(urlparse(json.loads(line)["path"]).path)] = None
    for path in files:
        numbers += pq.ParquetFile(path).read(columns=["n"])["n"].to_pylist()
    return numbers


def commits(folder: Path) -> dict[str, int]:
    """The last batch that each query has committed; Spark keeps the files of a hundred."""
    return {
        name: max(
            (int(path.name) for path in (folder / f"{name}-checkpoint" / "commits").glob("*") if path.name.isdigit()),
            default=-1,
        )
        for name in NAMES
    }  # fmt: skip


def await_moment(connection: Connection, chance: random.Random) -> None:
    """Any moment; or the ones that hurt: just published and not committed, just delivered and in no offset or not read."""
    kind = chance.choice(["any", "published", "delivered"])
    looks = {
        "published": ("XLEN", "out-group-stream"),
        "delivered": ("XINFO", "GROUPS", f"in-group-{chance.choice(spark_driver.SINKS)}"),
    }
    if kind == "any":
        time.sleep(chance.uniform(0, 1.0))
        return
    end = time.monotonic() + 30
    before = connection.call(*looks[kind])
    while connection.call(*looks[kind]) == before and time.monotonic() < end:
        time.sleep(0.001)  # Spark needs the processors more than we do
    time.sleep(chance.choice([0, chance.uniform(0, 0.5)]))


def wait_for_progress(folder: Path, drivers: Drivers, enough: Callable[[list[bool]], bool]) -> None:
    """Wait until all queries, or any, have committed a batch since now."""
    before = commits(folder)
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        drivers.driver.check()
        now = commits(folder)
        if enough([now[name] > before[name] for name in NAMES]):
            return
        time.sleep(0.02)
    pytest.fail(f"no progress: {before} -> {commits(folder)}\n{drivers.driver.log.read_text()[-6000:]}")


def wait_for_the_end(connection: Connection, folder: Path, drivers: Drivers, count: int, note: str) -> None:
    """Wait until everything is written and nothing is pending."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        drivers.driver.check()
        pending = {name: connection.call("XPENDING", f"in-{name}", "g")[0] for name in NAMES}
        written = {name: len(read(connection, folder, name)) for name in NAMES}
        if not any(pending.values()) and all(number >= count for number in written.values()):
            return
        time.sleep(0.2)
    pytest.fail(
        f"{note}: of {count} written: {written}, pending: {pending}\n{drivers.driver.log.read_text()[-6000:]}"
    )
