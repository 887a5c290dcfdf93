"""Drivers of Spark to be killed, who adds what their queries read, and what those wrote: for tests/crash."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Self

import pytest
from support.spark import spark_driver
from support.spark.quick import quick_conf_dir, quick_home

from rillet.pipeline.redis.connection import ConnectionLost, checked
from rillet.pipeline.redis.options import Endpoint
from rillet.pipeline.redis.shards import connect

PATIENCE = 600  # seconds; a machine that others use, too


class Producer(threading.Thread):
    """Adds numbered entries to all streams, and has another consumer of the groups take some and die."""

    def __init__(self, url: str, names: Sequence[str]) -> None:
        super().__init__(daemon=True)
        self._names = names
        self._connection = connect(Endpoint.of({"url": url}))
        self._enough = threading.Event()
        self.count = 0
        self.failure: Exception | None = None

    def run(self) -> None:
        try:
            while not self._enough.is_set():
                for name in self._names:
                    for stream in spark_driver.inputs(name):
                        self._add(stream, self.count, self.count + 20, twice=name.endswith("distinct"))
                        if name.startswith("group") and self.count % 100 == 0:
                            # Whether the deserter got them or not: they are pending, or new.
                            desert = (
                                "XREADGROUP", "GROUP", "g", "deserter", "COUNT", 5, "STREAMS", stream, ">",
                            )  # fmt: skip
                            with contextlib.suppress(ConnectionLost):
                                self._connection.call(*desert)
                self.count += 20
                time.sleep(0.25)
        except Exception as error:  # noqa: BLE001 - finish reports it
            self.failure = error

    def _add(self, stream: str, first: int, end: int, *, twice: bool) -> None:
        """Add numbers; after a failover, those that the stream does not have."""
        while first < end:
            try:
                steps = [
                    ("MULTI",),
                    *(("XADD", stream, "*", "n", n) for n in range(first, end) for _ in range(1 + twice)),
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

    def __init__(self, url: str, folder: Path, master: str, work: str) -> None:
        self.log = folder / "driver.log"
        home, conf = quick_home(folder), quick_conf_dir(folder)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, spark_driver.__file__, url, str(folder), master, work],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                env=os.environ
                | {
                    "PYTHONPATH": str(Path(__file__).parents[2]), "SPARK_HOME": str(home),
                    "SPARK_CONF_DIR": str(conf), "SPARK_LOCAL_IP": "127.0.0.1",
                },
            )  # fmt: skip

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
            text = self.log.read_text()
            ours = [
                line for line in text.splitlines() if "REDIS_STREAMS" in line
            ]  # thousands of lines of Java may follow
            pytest.fail("\n".join(["the driver ended by itself:", *ours, text[-6000:]]))


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

    def __init__(self, url: str, folder: Path, master: str, work: str) -> None:
        self._words = (url, folder, master, work)
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


class Scene:
    """A server, a producer, and a driver whose queries must write each number once whatever is killed."""

    def __init__(self, url: str, folder: Path, master: str = "local[2,8]", work: str = "plain") -> None:
        self.names = spark_driver.WORK[work]
        self._folder = folder
        self._stack = contextlib.ExitStack()
        self.connection = self._stack.enter_context(connect(Endpoint.of({"url": url})))
        for stream in (stream for name in self.names for stream in spark_driver.inputs(name)):
            self.connection.call("XGROUP", "CREATE", stream, "g", "0", "MKSTREAM")
        self._producer = Producer(url, self.names)
        self._producer.start()
        self._stack.callback(self._producer.finish)
        self.drivers = Drivers(url, folder, master, work)
        self._stack.callback(self.drivers.end)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def commits(self) -> dict[str, int]:
        """The last batch that each query has committed; Spark keeps the files of a hundred."""
        return {
            name: max(
                (int(path.name) for path in (self._folder / f"{name}-checkpoint" / "commits").glob("*") if path.name.isdigit()),
                default=-1,
            )
            for name in self.names
        }  # fmt: skip

    def await_moment(self, chance: random.Random) -> None:
        """Any moment; or the ones that hurt: just published and not committed, just delivered and in no offset or not read."""
        # Of a group that nobody reads only the lag moves, with each entry that is added.
        groups = [
            name for name in self.names if name.startswith("group") and name.endswith(("stream", "windows"))
        ]
        kind = chance.choice(["any", "published", *(["delivered"] if groups else [])])
        if kind == "any":
            time.sleep(chance.uniform(0, 1.0))
            return
        if kind == "delivered":
            look: tuple[object, ...] = ("XINFO", "GROUPS", f"in-{chance.choice(groups)}")
        else:
            names = [name for name in self.names if name.endswith(("stream", "windows"))]
            look = ("XLEN", f"out-{chance.choice(names)}")
        end = time.monotonic() + 30
        before = self.connection.call(*look)
        while self.connection.call(*look) == before and time.monotonic() < end:
            time.sleep(0.002)  # Spark needs the processors more than we do
        time.sleep(chance.choice([0, chance.uniform(0, 0.5)]))

    def wait_for_progress(self, enough: Callable[[list[bool]], bool] = all) -> None:
        """Wait until all queries, or any, have committed a batch since now."""
        before = self.commits()
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            self.drivers.driver.check()
            now = self.commits()
            if enough([now[name] > before[name] for name in self.names]):
                return
            time.sleep(0.02)
        pytest.fail(
            f"no progress: {before} -> {self.commits()}\n{self.drivers.driver.log.read_text()[-6000:]}"
        )

    def check_all_written(self, note: str) -> int:
        """End the producer; see that each of its numbers is written once by each query, and nothing left pending.

        Returns:
            how many numbers there are.
        """
        count = self._producer.finish()
        self._wait_for_the_end(count, note)
        wanted = [str(number) for number in range(count)]
        for name in self.names:
            found = Counter(self.read(name))
            doubled = {number: times for number, times in found.items() if times > 1}
            missing = [number for number in wanted if number not in found]
            assert not doubled, f"{note}: {name}: {len(doubled)} doubled, as {list(doubled.items())[:5]}"
            assert not missing, f"{note}: {name}: {len(missing)} missing, as {missing[:5]}"
            assert len(found) == count
        # In order, too, where the writer reads in order.
        if "range-stream" in self.names:
            assert self.read("range-stream") == wanted
        return count

    def _wait_for_the_end(self, count: int, note: str) -> None:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            self.drivers.driver.check()
            # Reading all that was written takes a processor from Spark: only of one query that is not done.
            if all(len(self.read(name)) >= count for name in self.names) and not any(
                self._pending().values()
            ):
                return
            time.sleep(0.2)
        written = {name: len(self.read(name)) for name in self.names}
        log = self.drivers.driver.log.read_text()[-6000:]
        pytest.fail(f"{note}: of {count} written: {written}, pending: {self._pending()}\n{log}")

    def _pending(self) -> dict[str, int]:
        """How many entries each stream has pending."""
        streams = (stream for name in self.names for stream in spark_driver.inputs(name))
        return {stream: self.connection.call("XPENDING", stream, "g")[0] for stream in streams}

    def read(self, name: str) -> list[str]:
        """The numbers that a query wrote."""
        if not name.endswith(("stream", "windows")):
            return read_parquet(self._folder / name)
        entries = self.connection.call("XRANGE", f"out-{name}", "-", "+")
        rows = [dict(zip(words[::2], words[1::2], strict=True)) for _, words in entries]
        if name.endswith("stream"):
            return [row[b"n"].decode() for row in rows]
        windows = {
            row[b"start"]: row[b"n"].decode().split(",") for row in rows
        }  # the last of each window is whole
        return [number for numbers in windows.values() for number in numbers]


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
