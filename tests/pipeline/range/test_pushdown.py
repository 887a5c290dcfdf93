"""pipeline/range/pushdown.py: what is pushed leaves exactly the rows that the filters leave."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import datasource as ds

from rillet.pipeline.range.batch_reader import PushingBatchReader
from rillet.pipeline.range.pushdown import COLUMNS, narrow
from rillet.pipeline.redis import ids
from rillet.pipeline.redis.connection import Connection
from rillet.pipeline.redis.options import Endpoint
from rillet.pipeline.source.entry_batches import default_schema
from rillet.pipeline.source.options import BatchOptions

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NAMES = {name: name for name in COLUMNS}
LAST_MS = 253_402_300_799_999
MEANING = {
    ds.EqualTo: lambda cell, value: cell == value,
    ds.GreaterThan: lambda cell, value: cell > value,
    ds.GreaterThanOrEqual: lambda cell, value: cell >= value,
    ds.LessThan: lambda cell, value: cell < value,
    ds.LessThanOrEqual: lambda cell, value: cell <= value,
    ds.In: lambda cell, value: cell in value,
    ds.StringStartsWith: str.startswith,
    ds.StringContains: lambda cell, value: value in cell,
    ds.IsNotNull: lambda cell, _: cell is not None,
}

near = st.one_of(st.integers(0, 12), st.integers(LAST_MS - 1, LAST_MS + 2), st.just(2**64 - 1))
ids_near = st.builds(ids.join, near, st.integers(0, 2))
streams = st.sampled_from(["a", "ab", "b"])


def moment(ms, micros=0):
    return EPOCH + timedelta(milliseconds=ms, microseconds=micros)


@st.composite
def filters(draw):
    column = draw(st.sampled_from([*COLUMNS, "total"]))
    values = {
        "stream": streams,
        "id": st.one_of(ids_near.map(ids.text), st.sampled_from(["5", "05-0", "x", ""])),
        "id_key": st.one_of(ids_near.map(ids.key), st.binary(max_size=17)),
        "ts": st.one_of(
            st.builds(moment, st.integers(-2, 12), st.integers(0, 999)),
            st.builds(moment, st.integers(LAST_MS - 1, LAST_MS)),
        ),
        "total": st.integers(0, 3),
    }[column]
    of_text = {ds.StringStartsWith, ds.StringContains}
    kind = draw(st.sampled_from([each for each in MEANING if column == "stream" or each not in of_text]))
    if kind is ds.IsNotNull:
        return ds.IsNotNull((column,))
    value = tuple(draw(st.lists(values, min_size=1, max_size=3))) if kind is ds.In else draw(values)
    return kind((column,), value)


def holds(each, row):
    cell = row[each.attribute[0]]
    return cell is not None and MEANING[type(each)](cell, getattr(each, "value", None))


@given(st.lists(filters(), max_size=4), st.lists(st.tuples(streams, ids_near, st.integers(0, 3)), min_size=1))
def test_bounds_and_what_is_left_are_the_filters(given_filters, entries):
    narrowed, left = narrow(given_filters, NAMES)
    for stream, stream_id, total in entries:
        ms = stream_id >> 64
        row = {
            "stream": stream, "id": ids.text(stream_id), "id_key": ids.key(stream_id),
            "ts": moment(ms) if ms <= LAST_MS else None, "total": total,
        }  # fmt: skip
        read = narrowed.wants(stream) and narrowed.low <= stream_id <= narrowed.high
        assert (read and all(holds(each, row) for each in left)) == all(
            holds(each, row) for each in given_filters
        )
        assert read or not all(holds(each, row) for each in given_filters)


@pytest.mark.parametrize(
    "each",
    [
        ds.GreaterThan(("id",), "5-0"),  # as text, 10-0 is less
        ds.Not(ds.EqualTo(("stream",), "a")),
        ds.EqualTo(("fields", "name"), "a"),
        ds.EqualTo(("ts",), datetime(2026, 1, 1)),  # noqa: DTZ001 - Spark hands over none such
    ],
)
def test_what_bounds_cannot_say_is_left_to_spark(each):
    narrowed, left = narrow([each], NAMES)
    assert left == [each]
    assert narrowed == narrow([], NAMES)[0]


def test_a_column_of_the_same_name_that_is_a_field_is_left_to_spark():
    each = ds.EqualTo(("ts",), moment(5))
    assert narrow([each], {"_ts": "ts"})[1] == [each]
    assert narrow([ds.EqualTo(("_ts",), moment(5))], {"_ts": "ts"})[1] == []


def test_a_reader_asks_only_for_what_is_left(running):
    with Connection(Endpoint(port=running("redis7").port)) as connection:
        connection.call("FLUSHALL")
        for name in ("a", "b"):
            connection.pipeline([("XADD", name, f"{n}-0", "n", n) for n in range(1, 101)])
        given = {"port": str(connection.endpoint.port), "streams": "a,b,missing"}
        reader = PushingBatchReader(default_schema(), BatchOptions.of(given))
        asked = [
            ds.EqualTo(("stream",), "a"), ds.GreaterThan(("ts",), moment(10)), ds.LessThanOrEqual(("id_key",), ids.key(ids.join(15))),
        ]  # fmt: skip
        assert reader.pushFilters(asked) == []
        [partition] = reader.partitions()
        [part] = partition.ranges
        assert (part.stream, ids.text(part.after + 1), ids.text(part.upto)) == ("a", "11-0", "15-0")
        rows = [row for batch in reader.read(partition) for row in batch.to_pylist()]
        assert [row["id"] for row in rows] == [f"{n}-0" for n in range(11, 16)]
        asked = [ds.EqualTo(("stream",), "b"), ds.EqualTo(("id",), "7-0")]
        assert reader.pushFilters(asked) == []
        [partition] = reader.partitions()
        assert [row["id"] for batch in reader.read(partition) for row in batch.to_pylist()] == ["7-0"]
        assert reader.pushFilters([ds.EqualTo(("stream",), "a"), ds.EqualTo(("id",), "007")]) == []
        assert reader.partitions() == []
