"""A stream that the sink writes to, and the driver and tasks that do: what its tests are made of."""

from __future__ import annotations

import itertools
import pickle
from typing import Any, Self

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from rillet.pipeline.sink.writers import BatchWriter

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

    def entries(self) -> list[tuple[bytes, ...]]:
        return [tuple(fields) for _, fields in self.call("XRANGE", self.stream, "-", "+")]

    def left(self) -> list[str]:
        """What the sink left, but for the stream."""
        return sorted(
            key.decode() for key in self.call("KEYS", f"*{self.stream}*") if key != self.stream.encode()
        )


def rows(count: int, start: int = 0) -> dict[str, list[Any]]:
    return {"n": list(range(start, start + count))}


def numbers_of(scene: Scene) -> list[int]:
    return [int(fields[1]) for fields in scene.entries()]
