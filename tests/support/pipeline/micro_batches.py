"""Spark's micro-batch engine without Spark: its offset log, its commit log, the order of its calls, and its deaths.

faults = Faults()
engine = Engine(lambda: GroupStreamReader(schema, options), write)
engine.trigger()                 # as one trigger of a query does
faults.arm(3, after=True)        # the process dies when it has sent its third request from now on
engine.restart()                 # and comes back with what was in its logs
"""

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadAllAvailable

from rillet.pipeline.redis.connection import Connection, ConnectionLost


class Crash(BaseException):
    """The process is gone: like a SIGKILL it is nothing that code handles."""


@dataclass
class Faults:
    """When the next request fails: before it is sent or after it was done; by a crash or a broken connection."""

    left: int | None = None
    after: bool = False
    crash: bool = True

    def arm(self, count: int, *, after: bool, crash: bool = True) -> None:
        self.left, self.after, self.crash = count, after, crash

    def disarm(self) -> None:
        self.left = None

    def due(self) -> bool:
        if self.left is None:
            return False
        self.left -= 1
        return self.left < 0

    def strike(self) -> None:
        self.left = None
        raise Crash if self.crash else ConnectionLost("the connection broke")


def fail_connections(monkeypatch: pytest.MonkeyPatch, faults: Faults, *modules: Any) -> None:
    """Have all connections of some modules obey the faults."""

    class FaultyWire(Connection):
        def exchange(
            self, request: bytes, names: Any, *, repeatable: bool = False, key: str | bytes = b""
        ) -> list[Any]:
            due = faults.due()
            if due and repeatable and not faults.crash and not self._pinned:
                faults.disarm()  # what the real one does: once more
                if faults.after:
                    super().exchange(request, names, repeatable=repeatable, key=key)
                    self.close()
                due = False
            if due and not faults.after:
                self.close()
                faults.strike()
            replies = super().exchange(request, names, repeatable=repeatable, key=key)
            if due:
                self.close()
                faults.strike()
            return replies

    for module in modules:
        monkeypatch.setattr(module, "connect", lambda endpoint, **_: FaultyWire(endpoint))


@dataclass
class Engine:
    """One query. ``write(batch_id, batches)`` is its sink: called again for a batch that may not have been committed."""

    make_reader: Callable[[], DataSourceStreamReader]
    write: Callable[[int, list[pa.RecordBatch]], None]
    offsets: list[str] = field(default_factory=list)
    commits: int = 0
    reader: Any = None

    def restart(self) -> None:
        """Die, and come back with the logs."""
        if self.reader is not None:
            self.reader.stop()
        self.reader = None

    def trigger(self, stop_before: str = "") -> bool:
        """Run one batch if there is something to run; ``stop_before`` log, write or commit crashes there."""
        is_new = self.reader is None
        if is_new:
            self.reader = self.make_reader()
        if is_new and not self.commits:
            # In no log: it is asked for once more by who has not committed a batch.
            self.offsets[:1] = [json.dumps(self.reader.initialOffset())]
        start = self.offsets[self.commits]
        if len(self.offsets) == self.commits + 1:
            end = json.dumps(self.reader.latestOffset(json.loads(start), ReadAllAvailable()))
            if end == start:
                return False
            _stop(stop_before == "log")
            self.offsets.append(end)
        end = self.offsets[self.commits + 1]
        batches = [
            batch
            for partition in self.reader.partitions(json.loads(start), json.loads(end))
            for batch in self.reader.read(partition)
        ]
        _stop(stop_before == "write")
        self.write(self.commits, batches)
        _stop(stop_before == "commit")
        self.commits += 1
        return True

    def finish(self) -> None:
        """Run until nothing is left."""
        for _ in range(200):
            if not self.trigger():
                return
        raise AssertionError("the query finds ever more to read")


def _stop(now: bool) -> None:
    if now:
        raise Crash


@contextlib.contextmanager
def surviving(engine: Engine, faults: Faults) -> Any:
    """What crashes in it comes back."""
    try:
        yield
    except (Crash, ConnectionLost):
        faults.disarm()
        engine.restart()
