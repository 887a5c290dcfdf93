"""SIGKILL of drivers and of Python workers under load: nothing missing, nothing doubled, nothing left pending.

One driver runs four queries, range and group mode to Parquet and to a stream, so that each kill hits all of them
wherever they are. RILLET_SPARK_KILLS says how often (`make crash`: 100); RILLET_SEED repeats a run's choices.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support import spark_driver
from support.servers import start_server

from rillet.pipeline.options import Endpoint
from rillet.pipeline.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

KILLS = int(os.environ.get("RILLET_SPARK_KILLS", "5"))
SEED = int(os.environ.get("RILLET_SEED", "0")) or random.randrange(1, 1 << 30)
NAMES = [f"{source}-{sink}" for source in spark_driver.SOURCES for sink in spark_driver.SINKS]
PATIENCE = 400  # seconds; a machine that others use, too


class Producer(threading.Thread):
    """Adds numbered entries to all four streams, and has another consumer of the groups take some and die."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._wire = Wire(Endpoint(port=port))
        self._enough = threading.Event()
        self.count = 0
        self.failure: Exception | None = None

    def run(self) -> None:
        try:
            while not self._enough.is_set():
                for name in NAMES:
                    numbers = range(self.count, self.count + 20)
                    self._wire.pipeline([("XADD", f"in-{name}", "*", "n", number) for number in numbers])
                    if name.startswith("group") and self.count % 100 == 0:
                        self._wire.call(
                            "XREADGROUP", "GROUP", "g", "deserter", "COUNT", 5, "STREAMS", f"in-{name}", ">"
                        )
                self.count += 20
                time.sleep(0.25)
        except Exception as error:  # noqa: BLE001 - told by finish
            self.failure = error

    def finish(self) -> int:
        self._enough.set()
        self.join()
        self._wire.close()
        if self.failure:
            raise self.failure
        return self.count


class Driver:
    """A driver process in a group of its own; its JVM and its Python workers are in that group, too."""

    def __init__(self, port: int, folder: Path) -> None:
        self.log = folder / "driver.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, spark_driver.__file__, str(port), str(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )

    def wait_until_ready(self) -> None:
        assert self.process.stdout is not None
        if self.process.stdout.readline() != b"ready\n":
            pytest.fail(f"the driver did not start:\n{self.log.read_text()[-3000:]}")

    def kill(self) -> None:
        """SIGKILL the driver, its JVM, and its Python processes, which are in a group of their own."""
        for pid, _ in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.close()

    def kill_workers(self) -> int:
        """SIGKILL all Python processes that execute tasks; how many."""
        killed = 0
        for pid, command in self.processes():
            if b"pyspark.daemon" in command and command.rstrip(b"\0").endswith(b"pyspark.worker"):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    killed += 1
        return killed

    def processes(self) -> list[tuple[int, bytes]]:
        """All processes of the driver's session: their ids and command lines."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                    session = int((entry / "stat").read_text().rpartition(")")[2].split()[3])
                    if session == self.process.pid:
                        found.append((int(entry.name), (entry / "cmdline").read_bytes()))
        return found

    def check(self) -> None:
        if self.process.poll() is not None:
            pytest.fail(f"the driver ended by itself:\n{self.log.read_text()[-6000:]}")

    def close(self) -> None:
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


@pytest.fixture(params=["rillet", "redis7"] if KILLS >= 20 else ["rillet"])
def port(request) -> Iterator[int]:
    with start_server(request.param) as server:
        yield server.port


@pytest.fixture
def wire(port) -> Iterator[Wire]:
    with Wire(Endpoint(port=port)) as found:
        for name in NAMES:
            found.call("XGROUP", "CREATE", f"in-{name}", "g", "0", "MKSTREAM")
        yield found


@pytest.fixture
def producer(port, wire) -> Iterator[Producer]:
    found = Producer(port)
    found.start()
    yield found
    found.finish()


class Series:
    """One driver after the other, in the same folder."""

    def __init__(self, port: int, folder: Path) -> None:
        self._port, self._folder = port, folder
        self.driver = Driver(port, folder)

    def again(self) -> None:
        self.driver.kill()
        self.driver = Driver(self._port, self._folder)
        self.driver.wait_until_ready()


@pytest.fixture
def series(port, wire, tmp_path) -> Iterator[Series]:
    found = Series(port, tmp_path)
    yield found
    found.driver.kill()


def test_nothing_is_lost_or_doubled_when_spark_is_killed(wire, producer, series, tmp_path):
    chance = random.Random(SEED)
    series.driver.wait_until_ready()
    workers_killed = 0
    for number in range(KILLS):
        # Kills of drivers that have not recovered from the kill before count, too.
        wait_for_progress(tmp_path, series, chance.choice([all, any]))
        series.driver.check()
        if number % 2 == 0:
            await_moment(wire, chance)
            series.again()
        else:
            # The driver lives, and tries their tasks again.
            time.sleep(chance.uniform(0, 1.0))
            workers_killed += series.driver.kill_workers()
    count = producer.finish()
    wait_for_the_end(wire, tmp_path, series, count)
    assert workers_killed or KILLS < 2
    wanted = [str(number) for number in range(count)]
    for name in NAMES:
        found = Counter(read(wire, tmp_path, name))
        doubled = {number: times for number, times in found.items() if times > 1}
        missing = [number for number in wanted if number not in found]
        assert not doubled, f"{name}: {len(doubled)} doubled, as {list(doubled.items())[:5]}"
        assert not missing, f"{name}: {len(missing)} missing, as {missing[:5]}"
        assert len(found) == count
    # In order, too, where one writes who reads in order.
    assert read(wire, tmp_path, "range-stream") == wanted


def read(wire: Wire, folder: Path, name: str) -> list[str]:
    """The numbers that a query wrote."""
    if name.endswith("stream"):
        entries = wire.call("XRANGE", f"out-{name}", "-", "+")
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
    """How many batches each query has committed."""
    return {
        name: sum(path.name.isdigit() for path in (folder / f"{name}-checkpoint" / "commits").glob("*"))
        for name in NAMES
    }


def await_moment(wire: Wire, chance: random.Random) -> None:
    """Any moment; or the ones that hurt: just published and not committed, just delivered and in no offset."""
    kind = chance.choice(["any", "published", "delivered"])
    looks = {
        "published": ("XLEN", "out-group-stream"),
        "delivered": ("XINFO", "GROUPS", "in-group-parquet"),
    }
    if kind == "any":
        time.sleep(chance.uniform(0, 1.0))
        return
    end = time.monotonic() + 30
    before = wire.call(*looks[kind])
    while wire.call(*looks[kind]) == before and time.monotonic() < end:
        time.sleep(0.001)  # Spark needs the processors more than we do


def wait_for_progress(folder: Path, series: Series, enough: Callable[[list[bool]], bool]) -> None:
    """Wait until all queries, or any, have committed a batch since now."""
    before = commits(folder)
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        series.driver.check()
        now = commits(folder)
        if enough([now[name] > before[name] for name in NAMES]):
            return
        time.sleep(0.02)
    pytest.fail(f"no progress: {before} -> {commits(folder)}\n{series.driver.log.read_text()[-6000:]}")


def wait_for_the_end(wire: Wire, folder: Path, series: Series, count: int) -> None:
    """Wait until everything is written and nothing is pending."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        series.driver.check()
        pending = {name: wire.call("XPENDING", f"in-{name}", "g")[0] for name in NAMES}
        written = {name: len(read(wire, folder, name)) for name in NAMES}
        if not any(pending.values()) and all(number >= count for number in written.values()):
            return
        time.sleep(0.2)
    pytest.fail(
        f"RILLET_SEED={SEED}: of {count} written: {written}, pending: {pending}\n{series.driver.log.read_text()[-6000:]}"
    )
