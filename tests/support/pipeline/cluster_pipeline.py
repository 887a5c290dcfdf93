"""A pipeline over a cluster, without a JVM: numbered entries in streams of all shards, a source in either mode, a sink."""

import itertools
from collections import Counter
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema
from support.pipeline.micro_batches import Engine

from rillet.pipeline.group.stream_reader import GroupStreamReader, group_columns
from rillet.pipeline.range.stream_reader import RangeStreamReader
from rillet.pipeline.redis.connection import Connection, ConnectionLost, checked
from rillet.pipeline.sink import spark_writers
from rillet.pipeline.sink.spark_writers import StreamWriter
from rillet.pipeline.source.entry_batches import default_schema
from rillet.pipeline.source.options import RangeStreamOptions

numbers = itertools.count()
ROWS = pa.schema({"n": pa.string()})


def reader(mode: str, given: dict[str, str]) -> Any:
    """Return a reader of streams in either mode."""
    if mode == "range":
        return RangeStreamReader(default_schema(), RangeStreamOptions.of(given))
    return GroupStreamReader(default_schema("", group_columns()), given | {"mode": "group", "group": "g"})


class Pipeline:
    """One query from streams to one stream.

    Args:
        connection: to the cluster.
        given: options that say where it is.
        mode: of the source.
    """

    def __init__(
        self, connection: Connection, given: dict[str, str], mode: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        number = next(numbers)
        self.connection = connection
        self.inputs = [f"in{number}-{each}" for each in range(6)]
        self.output = f"out{number}"
        self.added = 0
        self._given = given | {
            "streams": ",".join(self.inputs),
            "startingOffsets": "earliest",
            "fetchSize": "7",
        }
        self._mode = mode
        sink = given | {"stream": self.output, "chunkRows": "20", "inlineBytes": "100"}
        self._writer = StreamWriter(from_arrow_schema(ROWS), sink, False)
        self._batch = 0
        context = SimpleNamespace(getLocalProperty=self._property, partitionId=lambda: 0)
        self._context = SimpleNamespace(get=lambda: context)
        self._monkeypatch = monkeypatch
        self.engine = Engine(self._reader, self._write)

    def _property(self, name: str) -> str:
        return {"streaming.sql.batchId": str(self._batch), "sql.streaming.queryId": self.output}[name]

    def _reader(self) -> Any:
        of_group = {"consumer": "me", "claimMinIdleMs": "0"}
        return reader(
            self._mode, self._given | (of_group if self._mode == "group" else {"maxRowsPerTrigger": "50"})
        )

    def _write(self, batch: int, batches: list[Any]) -> None:
        self._batch = batch
        self._monkeypatch.setattr(spark_writers, "TaskContext", self._context)
        found = [row["fields"][0]["value"].decode() for each in batches for row in each.to_pylist()]
        rows = pa.table({"n": found}, schema=ROWS).to_batches(max_chunksize=9)
        self._writer.commit([self._writer.write(iter(rows))], batch)

    def add(self, count: int, connection: Connection | None = None) -> None:
        """Add so many numbered entries, spread over the streams."""
        for at, stream in enumerate(self.inputs):
            new = range(self.added, self.added + count)[at :: len(self.inputs)]
            _add(connection or self.connection, stream, new)
        self.added += count

    def written(self) -> Counter[int]:
        """How often each number was written."""
        entries = self.connection.call("XRANGE", self.output, "-", "+")
        return Counter(int(fields[1]) for _, fields in entries)

    def pending(self) -> int:
        """How many entries the group still has as pending."""
        return sum(self.connection.call("XPENDING", name, "g")[0] for name in self.inputs)


def _add(connection: Connection, stream: str, new: Sequence[int]) -> None:
    """Add numbers, all or none; when that is not known, those that the stream does not have."""
    while new:
        steps = [("MULTI",), *(("XADD", stream, "*", "n", number) for number in new), ("EXEC",)]
        try:
            checked(connection.pipeline(steps))
        except ConnectionLost:
            newest = connection.call("XREVRANGE", stream, "+", "-", "COUNT", 1)
            last = int(newest[0][1][1]) if newest else -1
            new = [number for number in new if number > last]
        else:
            return
