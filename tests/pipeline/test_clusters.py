"""All ways of data over a cluster, without a JVM: slots move and masters change, and nothing is lost or doubled."""

import argparse
import contextlib

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.pandas.types import from_arrow_schema
from support.pipeline.cluster_pipeline import Pipeline
from support.pipeline.micro_batches import Crash

from rillet.pipeline.group.dead_letters import HEADER
from rillet.pipeline.group.stream_reader import GroupStreamReader, group_columns
from rillet.pipeline.jobs import deadletter
from rillet.pipeline.range.batch_reader import RangeBatchReader
from rillet.pipeline.range.stream_reader import RangeStreamReader
from rillet.pipeline.redis.connection import RedisError, checked
from rillet.pipeline.redis.options import Endpoint, OptionError, Options
from rillet.pipeline.redis.shards import connect
from rillet.pipeline.sink.options import SinkOptions
from rillet.pipeline.sink.spark_writers import BatchWriter
from rillet.pipeline.sink.xadd_encoding import RowError
from rillet.pipeline.source.entry_batches import default_schema
from rillet.pipeline.source.options import BatchOptions, RangeStreamOptions

NAMES = [f"s{number}" for number in range(12)]


@pytest.fixture
def where(cluster):
    """The options that say where it is."""
    return {
        "url": cluster.url.replace("redis://", "redis+cluster://"), "retryIntervalMs": "1", "retries": "30",
    }  # fmt: skip


@pytest.fixture
def connection(where):
    with connect(Endpoint.of(where)) as connection:
        yield connection


def add(connection, first=1, count=1):
    steps = [("XADD", name, f"{at}-1", "n", at) for at in range(first, first + count) for name in NAMES]
    checked(connection.pipeline(steps, repeatable=False))


def source(where, **more):
    given = where | {"streamsPattern": "s*", "startingOffsets": "earliest"} | more
    return (RangeStreamOptions if "endingOffsets" not in more else BatchOptions).of(Options(given))


def rows_of(reader, partitions):
    return [row["stream"] for part in partitions for batch in reader.read(part) for row in batch.to_pylist()]


# Range mode


def test_a_batch_reads_a_pattern_of_all_shards_and_each_task_one_shard(cluster, connection, where):
    add(connection, count=3)
    reader = RangeBatchReader(default_schema(), source(where, endingOffsets="latest"))
    tasks = reader.partitions()
    assert sorted(rows_of(reader, tasks)) == sorted(NAMES * 3)
    shards = [{cluster.shard_of(each.stream) for each in task.ranges} for task in tasks]
    assert [len(each) for each in shards] == [1, 1, 1]


def test_slots_that_move_between_planning_and_reading_are_followed(cluster, connection, where):
    add(connection, count=3)
    reader = RangeBatchReader(default_schema(), source(where, endingOffsets="latest"))
    tasks = reader.partitions()
    for name in NAMES:
        cluster.move(cluster.slot_of(name), to=cluster.shards[0])
    assert sorted(rows_of(reader, tasks)) == sorted(NAMES * 3)


def test_replicas_are_read_once_they_have_what_the_master_was_seen_to_have(
    cluster, connection, where, requests
):
    add(connection, count=3)
    cluster.wait_for_replicas()
    reader = RangeBatchReader(default_schema(), source(where, endingOffsets="latest", readFrom="replica"))
    tasks = reader.partitions()
    assert sorted(rows_of(reader, tasks)) == sorted(NAMES * 3)
    replicas = {shard.replicas[0].port for shard in cluster.shards}
    assert {port for port, names in requests if "XRANGE" in names} == replicas

    requests.clear()
    with cluster.partition(*(shard.replicas[0] for shard in cluster.shards)):
        add(connection, 10)
        tasks = reader.partitions()
        assert sorted(rows_of(reader, tasks)) == sorted(NAMES * 4)
    assert not {port for port, names in requests if "XRANGE" in names} & replicas


def test_a_node_of_a_cluster_is_refused_where_one_server_is_meant(cluster):
    port = str(cluster.shards[0].master.port)
    reader = RangeStreamReader(default_schema(), source({"port": port}))
    with pytest.raises(RedisError, match="is a node of a cluster"):
        reader.initialOffset()
    group = {"port": port, "streams": "s", "group": "g", "consumer": "c", "mode": "group"}
    with pytest.raises(RedisError, match="is a node of a cluster"):
        GroupStreamReader(default_schema("", group_columns()), group).initialOffset()
    writer = BatchWriter(
        from_arrow_schema(pa.schema({"n": pa.int64()})), {"port": port, "stream": "s"}, False
    )
    with pytest.raises(RedisError, match="is a node of a cluster"):
        writer.commit([])


# From source to sink

STEPS = st.lists(
    st.sampled_from(["add", "move", "fail over", "begin to move", "end move", "crash", "trigger"]),
    min_size=4, max_size=14,
)  # fmt: skip


@pytest.mark.parametrize("mode", ["range", "group"])
@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=STEPS, choice=st.randoms(use_true_random=False))
def test_nothing_is_lost_or_doubled_while_slots_move_and_masters_change(
    shared_cluster, monkeypatch, mode, steps, choice
):
    shared_cluster.reset()
    given = {
        "url": shared_cluster.url.replace("redis://", "redis+cluster://"), "retryIntervalMs": "1", "retries": "4",
    }  # fmt: skip
    with connect(Endpoint.of(given)) as connection:
        pipeline = Pipeline(connection, given, mode, monkeypatch)
        pipeline.add(30)
        moving = None

        def end_move():
            nonlocal moving
            if moving is not None:
                slot, keys = moving
                shared_cluster.move_keys(slot, *keys)
                shared_cluster.finish_move(slot)
            moving = None

        for step in steps:
            key = choice.choice([*pipeline.inputs, pipeline.output])
            to = choice.choice(
                [each for each in shared_cluster.shards if each is not shared_cluster.shard_of(key)]
            )
            slot = shared_cluster.slot_of(key)
            if step == "add":
                pipeline.add(25)
            elif step == "move" and moving is None:
                shared_cluster.move(slot, to=to)
            elif step == "begin to move" and moving is None and key != pipeline.output:
                # The sink's transactions wait until their slot has arrived.
                shared_cluster.begin_move(slot, to=to)
                moving = slot, [key]
            elif step == "end move":
                end_move()
            elif step == "fail over" and moving is None:
                shared_cluster.fail_over(choice.choice(shared_cluster.shards))
            elif step == "crash":
                with contextlib.suppress(Crash):
                    pipeline.engine.trigger(choice.choice(["log", "write", "commit"]))
                pipeline.engine.restart()
            else:
                pipeline.engine.trigger()
        end_move()
        pipeline.engine.finish()
        found = pipeline.written()
        assert sorted(found) == list(range(pipeline.added))
        assert set(found.values()) == {1}
        if mode == "group":
            assert pipeline.pending() == 0
        pipeline.engine.restart()


# What is to be in one slot


def sink(where, **more):
    return SinkOptions.of(
        where | {name: str(value) for name, value in more.items()},
        from_arrow_schema(pa.schema({"stream": pa.string(), "n": pa.int64()})),
        overwrite=False,
    )


def test_exactly_once_into_several_streams_wants_them_in_one_slot(where, connection):
    with pytest.raises(OptionError, match="one hash tag"):
        sink(where)
    with pytest.raises(OptionError, match="'marker'"):
        sink(where, stream="orders", marker="other")
    sink(where, stream="orders", marker="{orders}:mine")
    sink(where, delivery="at-least-once")
    schema = pa.schema({"stream": pa.string(), "n": pa.int64()})
    writer = BatchWriter(
        from_arrow_schema(schema), where | {"marker": "{shop}:marker", "writeId": "1"}, False
    )

    def task(*streams):
        return writer.write(iter(pa.table({"stream": streams, "n": [1] * len(streams)}).to_batches()))

    writer.commit([task("{shop}:a", "{shop}:b"), task("{shop}:a")])
    assert connection.pipeline([("XLEN", "{shop}:a"), ("XLEN", "{shop}:b")]) == [2, 1]
    with pytest.raises(RowError, match="'orders' is in another hash slot than marker"):
        task("orders")


@pytest.mark.parametrize("more", [{}, {"wait": "replicas:1"}])
def test_at_least_once_goes_to_streams_of_all_shards(cluster, where, connection, more):
    schema = pa.schema({"stream": pa.string(), "n": pa.int64()})
    writer = BatchWriter(from_arrow_schema(schema), where | {"delivery": "at-least-once"} | more, False)
    streams = NAMES * 5
    table = pa.table({"stream": streams, "n": list(range(len(streams)))})
    writer.write(iter(table.to_batches(max_chunksize=17)))
    assert connection.pipeline([("XLEN", name) for name in NAMES]) == [5] * len(NAMES)


def group(where, **more):
    given = where | {"group": "g", "consumer": "me", "claimMinIdleMs": "0", "maxDeliveries": "1"}
    given |= {"streams": "s1,s2", "startingOffsets": "earliest"} | more
    return GroupStreamReader(
        default_schema("", group_columns()), {name: value for name, value in given.items() if value}
    )


def test_dead_letters_are_in_the_slot_of_their_stream(where, connection):
    with pytest.raises(OptionError, match="in one hash slot: a deadLetterStream with <stream>"):
        group(where, deadLetterStream="dead")
    add(connection)
    reader = group(where, deadLetterStream="<stream>:dead", streams="", streamsPattern="s*")
    start = reader.initialOffset()
    for name in ("s1", "s2"):
        assert connection.call("XREADGROUP", "GROUP", "g", "other", "STREAMS", name, ">")
    reader.latestOffset(start, reader.getDefaultReadLimit())
    reader.stop()
    letters = [connection.call("XRANGE", name, "-", "+") for name in ("{s1}:dead", "{s2}:dead")]
    assert [len(each) for each in letters] == [1, 1]
    assert letters[0][0][1][: 2 * len(HEADER) : 2] == list(HEADER)
    again = group(where, deadLetterStream="<stream>:dead", streams="", streamsPattern="*s2*")
    assert set(again.reportLatestOffset()["streams"]) == {"s2"}
    again.stop()

    words = argparse.ArgumentParser()
    deadletter.add_arguments(words)
    arguments = words.parse_args(["requeue", "{s1}:dead", "--all", "--url", where["url"]])
    assert deadletter.run(arguments) == 0
    assert connection.pipeline([("XLEN", "s1"), ("XLEN", "{s1}:dead")]) == [2, 0]
