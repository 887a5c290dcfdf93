"""A stream, its group and who reads it: what tests of group mode are made of."""

import itertools
from collections.abc import Iterable
from typing import Any, Self

from pyspark.sql.streaming.datasource import ReadAllAvailable

from rillet.pipeline.group.stream_reader import GroupStreamReader, group_columns
from rillet.pipeline.source.entry_batches import default_schema

from .micro_batches import Engine

SCHEMA = default_schema("", group_columns())
numbers = itertools.count()


class Scene:
    """One stream of one server, its group, and others who read it."""

    def __init__(self, server: Any, **options: object) -> None:
        self.connection = server.wire()
        self.stream = f"orders{next(numbers)}"
        self.dead = f"{self.stream}-dead"
        self.given = {
            "port": server.port, "streams": self.stream, "group": "g", "consumer": "me",
            "startingOffsets": "earliest", "retryIntervalMs": 1,
        } | options  # fmt: skip
        if "maxDeliveries" in options:
            self.given["deadLetterStream"] = self.dead
        self.rows: dict[int, list[dict[str, Any]]] = {}
        self._readers: list[GroupStreamReader] = []
        self.engine = Engine(self.reader, self.keep)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for reader in self._readers:
            reader.stop()
        self.connection.close()

    def reader(self, **more: object) -> GroupStreamReader:
        self._readers.append(GroupStreamReader(SCHEMA, self.words(self.given | more)))
        return self._readers[-1]

    def planned(self) -> tuple[GroupStreamReader, Any, Any]:
        """A reader, and the offsets of the batch of all that there is."""
        reader = self.reader()
        start = reader.initialOffset()
        return reader, start, reader.latestOffset(start, ReadAllAvailable())

    @staticmethod
    def words(given: dict[str, object]) -> dict[str, str]:
        return {name: str(value) for name, value in given.items() if value is not None}

    def keep(self, batch: int, batches: list[Any]) -> None:
        self.rows[batch] = [row for each in batches for row in each.to_pylist()]

    def call(self, *words: object) -> Any:
        reply = self.connection.call(*(str(word).encode(errors="surrogateescape") for word in words))
        assert reply.kind != "-", f"{words}: {reply.value!r}"
        return reply.plain()

    def add(self, count: int, held: int = 0, by: str = "other") -> list[str]:
        """Add entries, the first of which another consumer reads and holds, in a group that it makes."""
        return self._add(range(count), held, by)

    def add_long(self, count: int, held: int = 0, by: str = "other") -> list[str]:
        return self._add(["x" * 499] * count, held, by)

    def _add(self, values: Iterable[object], held: int, by: str) -> list[str]:
        added = [self.call("XADD", self.stream, "*", "n", value).decode() for value in values]
        if held:
            self.create()
            assert self.other_reads(held, by) == added[:held]
        return added

    def create(self) -> None:
        self.call("XGROUP", "CREATE", self.stream, "g", "0", "MKSTREAM")

    def other_reads(self, count: int, consumer: str = "other") -> list[str]:
        reply = self.call("XREADGROUP", "GROUP", "g", consumer, "COUNT", count, "STREAMS", self.stream, ">")
        return [entry[0].decode() for entry in reply[0][1]] if reply else []

    def pending(self) -> int:
        return self.call("XPENDING", self.stream, "g")[0]

    def dead_letters(self) -> list[tuple[str, ...]]:
        entries = self.call("XRANGE", self.dead, "-", "+")
        return [tuple(word.decode() for word in fields) for _, fields in entries]

    @property
    def read(self) -> list[str]:
        return [row["id"] for rows in self.rows.values() for row in rows]
