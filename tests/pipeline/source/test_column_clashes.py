"""A field that shares its name with one of our columns is refused at the start, on each kind of server."""

from types import SimpleNamespace

import pytest
from pyspark.sql.types import StructType
from support.pipeline.group_scene import Scene

from rillet.pipeline.group.stream_reader import GroupStreamReader
from rillet.pipeline.range.batch_reader import RangeBatchReader
from rillet.pipeline.range.stream_reader import RangeStreamReader
from rillet.pipeline.redis.options import OptionError, Options
from rillet.pipeline.source.column_clashes import ColumnClashes
from rillet.pipeline.source.entry_batches import ColumnOptions, default_schema
from rillet.pipeline.source.options import BatchOptions, RangeStreamOptions

ORDER = StructType().add("ts", "timestamp").add("id", "string").add("total", "long")
WORDS = r"entries of stream 'spark-\d+' have a field 'ts', and column 'ts' .* is the time of .* 'metadataPrefix'.*'_ts'"
on_each = pytest.mark.parametrize("redis", ["rillet", "redis7"], indirect=True)


def options(redis, stream, *, streaming, **more):
    given = redis.options | {"streams": stream, "startingOffsets": "earliest"} | more
    return (RangeStreamOptions if streaming else BatchOptions).of(Options(given))


def look(schema, fields, **given):
    watch = ColumnClashes(schema, ColumnOptions.of(given))
    watch.check({"s": SimpleNamespace(samples=(fields,))})


@on_each
def test_a_batch_read_is_refused(redis, stream):
    redis.call("XADD", stream, "*", "ts", "2026-01-01T00:00:00Z", "total", 5)
    with pytest.raises(OptionError, match=WORDS):
        RangeBatchReader(ORDER, options(redis, stream, streaming=False)).partitions()
    prefixed = StructType().add("_id", "string").add("ts", "timestamp").add("total", "long")
    reader = RangeBatchReader(prefixed, options(redis, stream, streaming=False, metadataPrefix="_"))
    [row] = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    assert (row["ts"].year, row["total"]) == (2026, 5)


@on_each
def test_a_query_is_refused_when_the_first_entry_comes(redis, stream):
    redis.call("XGROUP", "CREATE", stream, "g", "$", "MKSTREAM")
    reader = RangeStreamReader(ORDER, options(redis, stream, streaming=True))
    try:
        start = reader.initialOffset()
        limit = reader.getDefaultReadLimit()
        assert reader.latestOffset(start, limit) == start
        redis.call("XADD", stream, "*", "ts", "2026-01-01T00:00:00Z")
        with pytest.raises(OptionError, match=WORDS):
            reader.latestOffset(start, limit)
    finally:
        reader.stop()


def test_a_consumer_is_refused_and_its_entries_stay_pending(running):
    with Scene(running("redis7")) as scene:
        scene.call("XADD", scene.stream, "*", "consumer", "c-7")
        schema = StructType().add("consumer", "string").add("total", "long")
        given = {name: str(value) for name, value in scene.given.items()}
        reader = GroupStreamReader(schema, given)
        start = reader.initialOffset()
        with pytest.raises(OptionError, match="'consumer' of the schema is the consumer that had the entry"):
            reader.latestOffset(start, reader.getDefaultReadLimit())
        assert scene.pending() == 1
        scene.engine.finish()
        assert scene.pending() == 0


def test_the_default_columns_and_fields_that_nobody_asks_for_are_never_refused():
    look(default_schema(), [b"id", b"7", b"fields", b"x"])
    look(ORDER, [b"stream", b"x", b"seq", b"1", b"total", b"5"])


def test_members_of_a_json_document_are_looked_at_instead_of_fields():
    look(ORDER, [b"ts", b"0", b"value", b'{"total": 5}'], valueFormat="json")
    with pytest.raises(OptionError, match="a JSON member 'id'"):
        look(ORDER, [b"value", b'{"id": 7}'], valueFormat="json")


@pytest.mark.parametrize("document", [b"", b"[1]", b"{", b"7"])
def test_a_document_that_is_none_has_no_members(document):
    look(ORDER, [b"value", document], valueFormat="json")
