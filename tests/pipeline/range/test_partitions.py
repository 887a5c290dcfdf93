"""pipeline/range/partitions.py and task.py: short ranges share a task and its round trips, and all rows are there."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import LongType, StringType, StructType
from support.pipeline.spark_engine import Engine

from rillet.pipeline.range.batch_reader import RangeBatchReader
from rillet.pipeline.range.partitions import pack
from rillet.pipeline.range.stream_reader import RangeStreamReader
from rillet.pipeline.range.task import StreamRange
from rillet.pipeline.redis.options import Options
from rillet.pipeline.source.entry_batches import default_schema
from rillet.pipeline.source.losses import DataLossError
from rillet.pipeline.source.options import BatchOptions, RangeStreamOptions


def options(connection=None, *, streaming=True, **given):
    words = {"streamspattern": "many:*", "startingoffsets": "earliest", "retries": "0"} | given
    if connection is not None:
        words["port"] = str(connection.endpoint.port)
    return (RangeStreamOptions if streaming else BatchOptions).of(Options(words))


def add(connection, count, *, each=1, start=1):
    connection.pipeline(
        [("XADD", f"many:{number}", f"{start + at}-0", "n", number) for number in range(count) for at in range(each)],
    )  # fmt: skip


def ranges(weights):
    return [(StreamRange(str(number), 0, 1, weight), weight) for number, weight in enumerate(weights)]


@given(st.lists(st.integers(1, 30_000), max_size=40), st.integers(1, 8))
def test_tasks_hold_all_ranges_in_order_and_none_too_many(weights, wanted):
    parts = ranges(weights)
    tasks = pack(parts, options(minpartitions=str(wanted)))
    assert [part for task in tasks for part in task.ranges] == [part for part, _ in parts]
    assert all(task.ranges for task in tasks)
    for task in tasks:
        assert len(task.ranges) == 1 or sum(part.rows for part in task.ranges) <= 10_000
    assert len(tasks) >= min(wanted, len(parts)) or max(weights) * 2 > sum(weights) // wanted


def test_a_thousand_streams_of_one_entry_are_few_tasks(connection):
    add(connection, 1000)
    batch = RangeBatchReader(default_schema(), options(connection, streaming=False))
    tasks = batch.partitions()
    assert len(tasks) == 1
    rows = [row for task in tasks for found in batch.read(task) for row in found.to_pylist()]
    assert sorted(row["stream"] for row in rows) == sorted(f"many:{number}" for number in range(1000))
    assert all(row["fields"] == [{"name": "n", "value": row["stream"][5:].encode()}] for row in rows)
    spark = Engine(lambda: RangeStreamReader(default_schema(), options(connection)))
    assert len(spark.drain()) == 1000
    add(connection, 1000, start=2)
    start, end = spark.plan()
    assert len(spark.reader.partitions(start, end)) == 1
    assert len(spark.read(start, end)) == 1000
    spark.reader.stop()


def test_named_fields_of_a_thousand_streams_are_one_query(connection):
    """With other fields, and in another order, in some of them."""
    connection.pipeline(
        [("XADD", f"many:{number}", "1-0", *(("m", "x", "n", number) if number % 3 else ("n", number))) for number in range(1000)],
    )  # fmt: skip
    schema = StructType().add("stream", StringType()).add("n", LongType()).add("m", StringType())
    batch = RangeBatchReader(schema, options(connection, streaming=False))
    rows = [row for task in batch.partitions() for found in batch.read(task) for row in found.to_pylist()]
    assert sorted((int(row["stream"][5:]), row["n"], row["m"]) for row in rows) == [
        (number, number, "x" if number % 3 else None) for number in range(1000)
    ]


def test_as_many_tasks_as_asked_for_share_them(connection):
    add(connection, 40)
    batch = RangeBatchReader(default_schema(), options(connection, streaming=False, minpartitions="4"))
    assert [len(task.ranges) for task in batch.partitions()] == [10] * 4


def test_long_and_short_ranges_share_nothing_but_a_task(connection):
    """One longer than a reply, one of as many entries as a reply, and some that grew or shrank since they were planned."""
    for name, count in (("many:a", 1), ("many:b", 25), ("many:c", 10), ("many:d", 9), ("many:e", 3)):
        connection.pipeline([("XADD", name, f"{number + 1}-0", "n", number) for number in range(count)])
    batch = RangeBatchReader(default_schema(), options(connection, streaming=False, fetchsize="10"))
    (task,) = batch.partitions()
    rows = [row for found in batch.read(task) for row in found.to_pylist()]
    assert [(row["stream"], int(row["id"][:-2])) for row in rows] == [
        (f"many:{name}", number + 1)
        for name, count in (("a", 1), ("b", 25), ("c", 10), ("d", 9), ("e", 3))
        for number in range(count)
    ]


@pytest.mark.parametrize("change", [("XDEL", "many:7", "1-0"), ("DEL", "many:7")])
def test_what_is_gone_of_one_of_many_is_seen(connection, change):
    add(connection, 20, each=2)
    strict, lenient = (
        RangeBatchReader(default_schema(), options(connection, streaming=False, failondataloss=word))
        for word in ("true", "false")
    )
    (task,) = strict.partitions()
    connection.call(*change)
    with pytest.raises(DataLossError, match=r"[12] of 2 entries of stream 'many:7'"):
        list(strict.read(task))
    left = sum(found.num_rows for found in lenient.read(task))
    assert left == (39 if change[0] == "XDEL" else 38)


def test_round_trips_of_a_plan_do_not_grow_with_the_number_of_streams(connection, requests):
    spark = Engine(
        lambda: RangeStreamReader(default_schema(), options(connection, discoveryintervalms="3600000"))
    )
    found = []
    for count in (10, 200):
        connection.call("FLUSHALL")
        add(connection, count)
        spark.restart()
        spark.offset = None
        spark.drain()
        add(connection, count, start=2)
        requests.clear()
        (task,) = spark.reader.partitions(*spark.plan())
        assert sum(batch.num_rows for batch in spark.reader.read(task)) == count
        found.append(len(requests))
    # States, newest entries that were seen, and the entries: the first reply is short, until sizes are known.
    assert found == [3, 5]
    spark.reader.stop()
