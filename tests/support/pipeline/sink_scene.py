"""A stream that the sink writes to, and the driver and tasks that do: what its tests are made of."""

import itertools
import pickle
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Self

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from support.pipeline.micro_batches import Crash, Faults, fail_connections

from rillet.pipeline.sink import spark_writers
from rillet.pipeline.sink.spark_writers import BatchWriter, StreamWriter

numbers = itertools.count()


class Scene:
    """One stream of one server, and a query that writes to it."""

    def __init__(self, server: Any, **options: object) -> None:
        self.connection = server.wire()
        self.stream = f"{{out{next(numbers)}}}"
        self.given = {"port": server.port, "stream": self.stream, "retryIntervalMs": 1} | options
        self.query = f"query-{self.stream}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    @property
    def options(self) -> dict[str, str]:
        return {name: str(value) for name, value in self.given.items() if value is not None}

    def call(self, *words: object) -> Any:
        reply = self.connection.call(*(word if isinstance(word, bytes) else str(word) for word in words))
        assert reply.kind != "-", f"{words}: {reply.value!r}"
        return reply.plain()

    def save(self, *tables: dict[str, Any], overwrite: bool = False, **more: object) -> None:
        """A batch write, one task a table; each part and message goes through a pickle as in Spark."""
        tasks = [pa.table(each).to_batches(max_chunksize=7) for each in tables]
        self.given |= more
        writer = BatchWriter(from_arrow_schema(tasks[0][0].schema), self.options, overwrite)
        messages = [pickle.loads(pickle.dumps(writer)).write(iter(task)) for task in tasks]
        pickle.loads(pickle.dumps(writer)).commit(pickle.loads(pickle.dumps(messages)))

    def writer(self, *, overwrite: bool = False) -> BatchWriter:
        """A batch write of numbers, whose tasks and end are called one by one."""
        return BatchWriter(from_arrow_schema(pa.schema({"n": pa.int64()})), self.options, overwrite)

    def crash(self, commit: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
        """Have a driver that commits twelve rows in four steps die when some of them are out."""
        faults = Faults()
        with monkeypatch.context() as patched:
            fail_connections(patched, faults, spark_writers)
            faults.arm(28, after=True)
            with pytest.raises(Crash):
                commit()
        assert 0 < len(self.entries()) < 12

    def entries(self) -> list[tuple[bytes, ...]]:
        return [tuple(fields) for _, fields in self.call("XRANGE", self.stream, "-", "+")]

    def left(self) -> list[str]:
        """What the sink left, but for the stream."""
        return sorted(
            key.decode() for key in self.call("KEYS", f"*{self.stream}*") if key != self.stream.encode()
        )


class Query:
    """A streaming query that writes; its batches come from outside."""

    def __init__(
        self, scene: Scene, monkeypatch: pytest.MonkeyPatch, *, overwrite: bool = False, **more: pa.DataType
    ) -> None:
        self.scene = scene
        self.batch = 0
        self.schema = pa.schema({"n": pa.int64()} | more)
        self.writer = StreamWriter(from_arrow_schema(self.schema), scene.options, overwrite)
        self.properties = {"sql.streaming.queryId": scene.query}
        context = SimpleNamespace(getLocalProperty=self.property, partitionId=lambda: 0)
        monkeypatch.setattr(spark_writers, "TaskContext", SimpleNamespace(get=lambda: context))

    def property(self, name: str) -> str | None:
        return (self.properties | {"streaming.sql.batchId": str(self.batch)}).get(name)

    def tasks(self, batch: int, tables: list[dict[str, Any]]) -> list[Any]:
        self.batch = batch
        return [
            self.writer.write(iter(pa.table(each, schema=self.schema).to_batches(max_chunksize=3)))
            for each in tables
        ]

    def run(self, batch: int, tables: list[dict[str, Any]]) -> None:
        messages = self.tasks(batch, tables)
        try:
            self.writer.commit(messages, batch)
        except Exception:
            self.writer.abort(messages, batch)
            raise


def rows(count: int, start: int = 0) -> dict[str, list[Any]]:
    return {"n": list(range(start, start + count))}


def numbers_of(scene: Scene) -> list[int]:
    return [int(fields[1]) for fields in scene.entries()]
