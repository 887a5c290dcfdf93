"""Queries in range mode without a JVM, for the tests of tests/pipeline/range."""

from support.pipeline.spark_engine import Engine

from rillet.pipeline.range.stream_reader import RangeStreamReader
from rillet.pipeline.source import offsets
from rillet.pipeline.source.entry_batches import default_schema
from rillet.pipeline.source.options import RangeStreamOptions


def engine(connection, offset=None, **given):
    words = {
        "port": str(connection.endpoint.port), "retries": "0", "startingoffsets": "earliest", "fetchsize": "3",
    } | given  # fmt: skip
    options = RangeStreamOptions.of({name: word for name, word in words.items() if word is not None})
    return Engine(lambda: RangeStreamReader(default_schema(), options), offset)


def add(connection, stream, *words):
    return connection.pipeline([("XADD", stream, word, "f", word) for word in words])


def read_ids(rows):
    return None if rows is None else [row["id"] for row in rows]


def position(engine, stream="s"):
    return offsets.load(engine.offset)[stream]
