"""Range mode where a stream is not what it was: rolled back, deleted, created again; on each kind of server, without a JVM.

An earlier state comes back by DUMP and RESTORE, and once on each server as in production: a replica that was cut off is
promoted, and its master never heard of again.
"""

import itertools
import json
import logging
import os
import signal

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable
from support.deployments.replication import start
from support.pipeline import range_queries
from support.pipeline.histories import add, cut_off, numbers, put_back
from support.pipeline.range_queries import position
from support.thorough import examples

from rillet.pipeline.redis.connection import Connection
from rillet.pipeline.redis.options import Endpoint
from rillet.pipeline.source import offsets
from rillet.pipeline.source.losses import DataLossError

names = (f"history-{number}" for number in itertools.count())
WAYS = [{}, {"maxrowspertrigger": "7"}, {"minpartitions": "3"}]


def engine(connection, offset=None, **given):
    return range_queries.engine(connection, offset, **{"fetchsize": "10"} | given)


def roll_back(connection, lost, new):
    """100 were read; some of the last are lost, and others come."""
    add(connection, 1, 100 - lost)
    dump = connection.call("DUMP", "s")
    add(connection, 101 - lost, lost)
    yield
    put_back(connection, dump)
    add(connection, 101, new)
    yield


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("lost", "new"), [(1, 1), (10, 10), (10, 30), (10, 5), (10, 0)])
def test_a_stream_that_was_rolled_back_stops_a_query_or_goes_on_with_what_is_new(
    connection, lost, new, way, caplog
):
    scene = roll_back(connection, lost, new)
    next(scene)
    spark = engine(connection, streams="s", **way)
    assert numbers(spark.drain()) == list(range(1, 101))
    next(scene)
    for _ in range(2):
        with pytest.raises(
            DataLossError, match=rf"'s' was rolled back.* {lost} of them .*failOnDataLoss=false goes on"
        ):
            spark.trigger()
        spark.restart()
    lenient = engine(connection, spark.offset, streams="s", failondataloss="false", **way)
    with caplog.at_level(logging.WARNING, "rillet.pipeline"):
        assert numbers(lenient.drain()) == list(range(101, 101 + new))
        assert lenient.trigger() is None
    assert caplog.text.count("was rolled back") == 1
    # What was repaired is no fault any more, for a strict query neither.
    add(connection, 201, 12)
    strict = engine(connection, lenient.offset, streams="s", **way)
    assert numbers(strict.drain()) == list(range(201, 213))
    assert position(strict).added == 100 - lost + new + 12
    assert position(strict).gone == 0


@pytest.mark.parametrize("way", WAYS)
def test_a_batch_that_was_planned_before_the_rollback_reads_what_is_left(connection, way):
    add(connection, 1, 140)
    dump = connection.call("DUMP", "s")
    add(connection, 141, 10)
    spark = engine(connection, streams="s", failondataloss="false", **way)
    start, end = spark.plan()
    put_back(connection, dump)
    add(connection, 151, 30)
    spark.restart()
    strict = engine(connection, streams="s", **way)
    last = int(offsets.load(end)["s"].id >> 64)
    if last > 140:
        with pytest.raises(DataLossError):
            strict.read(start, end)
    rows = spark.read(start, end)
    assert numbers(rows) == list(range(1, min(last, 140) + 1))
    spark.offset = end
    assert numbers(rows + spark.drain()) == [*range(1, 141), *range(151, 181)]


def test_a_batch_with_more_entries_than_were_counted_is_read_whole(connection):
    add(connection, 1, 10)
    spark = engine(connection, streams="s", failondataloss="false")
    start, end = spark.plan()
    connection.call("DEL", "s")
    connection.pipeline([("XADD", "s", f"{n // 2}-{n % 2}", "n", n) for n in range(2, 22)])
    with pytest.raises(DataLossError, match=r"holds 19 entries .* where 10 were counted"):
        engine(connection, streams="s").read(start, end)
    assert len(spark.read(start, end)) == 19


def test_a_checkpoint_of_a_batch_that_counted_nothing_reads_what_there_is(connection):
    add(connection, 1, 3)
    start = {"v": 2, "db": 0, "streams": {"s": ["2-0", 3]}}
    end = {"v": 2, "db": 0, "streams": {"s": ["3-0", 3]}}
    assert numbers(engine(connection, streams="s", failondataloss="false").read(start, end)) == [3]


def test_available_now_ends_with_a_stream_that_was_rolled_back(connection):
    scene = roll_back(connection, 10, 5)
    next(scene)
    spark = engine(connection, streams="s", failondataloss="false")
    spark.drain()
    spark.reader.prepareForTriggerAvailableNow()
    next(scene)
    assert numbers(spark.drain()) in ([], list(range(101, 106)))
    spark.restart()
    spark.reader.prepareForTriggerAvailableNow()
    spark.drain()
    assert position(spark).added == 95


# Deleted


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("find", [{"streams": "s"}, {"streamspattern": "[st]", "discoveryintervalms": "0"}])
def test_a_stream_deleted_with_a_backlog_is_a_loss(connection, restarted, find, caplog):
    add(connection, 1, 20)
    spark = engine(connection, maxrowspertrigger="5", **find)
    spark.trigger()
    if find.get("streamspattern"):
        spark.trigger()  # it was found by the first
    read = position(spark).added
    connection.call("DEL", "s")
    if restarted:
        spark.restart()
    for _ in range(2):
        with pytest.raises(
            DataLossError, match=rf"'s' was deleted with {20 - read} entries after {read}-0 that were not"
        ):
            spark.trigger()
    lenient = engine(connection, spark.offset, failondataloss="false", maxrowspertrigger="5", **find)
    with caplog.at_level(logging.WARNING, "rillet.pipeline"):
        assert lenient.drain() == []
        assert lenient.trigger() is None
    assert caplog.text.count("was deleted with") == 1
    assert position(lenient).gone == 20 - read
    add(connection, 21, 3)
    assert numbers(lenient.drain()) == [21, 22, 23]


def test_a_stream_deleted_when_all_was_read_is_no_loss(connection):
    add(connection, 1, 3)
    spark = engine(connection, streams="s")
    spark.drain()
    connection.call("DEL", "s")
    assert spark.trigger() == []  # that it is gone is in the offset
    spark.restart()
    assert spark.trigger() is None


def test_a_stream_that_was_read_whole_and_deleted_may_be_created_again(connection):
    """What lives shortly is what patterns are for."""
    for streams in ({"streams": "s"}, {"streamspattern": "s*", "discoveryintervalms": "0"}):
        spark = engine(connection, **streams)
        for turn in range(3):
            add(connection, 10 * turn + 1, 4)
            assert numbers(spark.drain()) == list(range(10 * turn + 1, 10 * turn + 5))
            connection.call("DEL", "s")
            assert spark.drain() == []
            spark.restart()
        add(connection, 1, 2)  # its ids begin again
        assert numbers(spark.drain()) == [1, 2]
        connection.call("DEL", "s")


def test_offsets_forget_streams_that_are_gone_for_good(connection):
    spark = engine(connection, streamspattern="short:*", discoveryintervalms="0")
    add(connection, 1, 1, "short:alive")
    for _ in range(3):
        names = [f"short:{number}" for number in range(700)]
        connection.pipeline([("XADD", name, "*", "n", 1) for name in names])
        assert len(spark.drain()) >= 700
        connection.pipeline([("DEL", name) for name in names])
        spark.drain()
    assert len(json.dumps(spark.offset)) < 10_000
    assert "short:alive" in offsets.load(spark.offset)


def test_what_is_lost_between_planning_and_reading_is_counted(connection):
    add(connection, 1, 1000)
    spark = engine(connection, streams="s", failondataloss="false")
    start, end = spark.plan()
    parts = spark.reader.partitions(start, end)
    connection.call("XTRIM", "s", "MAXLEN", 0)
    for _ in range(2):  # a task that runs again says it once
        assert [row for part in parts for row in spark.reader.read(part)] == []
    found = spark.reader.latestOffset(end, ReadAllAvailable())
    assert offsets.load(found)["s"].gone == 1000


# What servers do besides


@pytest.mark.parametrize("rows_at_most", [0, 100])
def test_entries_that_xtrim_acked_takes_out_of_the_middle_are_counted(running, monkeypatch, rows_at_most):
    """It leaves `max-deleted-entry-id` where it was, on Redis 8.10 and here."""
    monkeypatch.setattr(offsets, "_ROWS_AT_MOST", rows_at_most)
    for kind in ("redis810", "rillet"):
        with Connection(Endpoint(port=running(kind).port)) as connection:
            connection.call("FLUSHALL")
            add(connection, 1, 10)
            spark = engine(connection, streams="s", failondataloss="false", maxrowspertrigger="4")
            spark.trigger()
            spark.restart()
            connection.call("XGROUP", "CREATE", "s", "g", "0")
            connection.call("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
            connection.call("XACK", "s", "g", *[f"{number}-0" for number in range(7, 10)])
            assert connection.call("XTRIM", "s", "MAXLEN", 7, "ACKED") == 3
            assert numbers(spark.drain()) == [5, 6, 10]
            assert position(spark).gone == 3


def test_a_query_that_keeps_up_asks_little(connection, monkeypatch):
    asked = []
    spark = engine(connection, streams="s")
    call = Connection.call
    monkeypatch.setattr(
        Connection, "call", lambda self, *words, **more: asked.append(words) or call(self, *words, **more)
    )
    for number in range(1, 20):
        connection.pipeline([("XADD", "s", "MAXLEN", 5, f"{number}-0", "n", number)])
        spark.plan()
        spark.offset = spark.plan()[1]
    assert asked == []  # all in pipelines for all streams


# As in production


@pytest.mark.parametrize("kind", ["redis810", "valkey", "rillet"])
def test_a_replica_that_was_cut_off_is_promoted(kind):
    with cut_off(kind) as (master, replica, cut):
        with Connection(Endpoint(port=master.port)) as connection:
            add(connection, 1, 90)
            cut()
            add(connection, 91, 10)
            spark = engine(connection, streams="s")
            assert len(spark.drain()) == 100
        with Connection(Endpoint(port=replica.port)) as promoted:
            promoted.call("REPLICAOF", "NO", "ONE")
            assert promoted.call("XLEN", "s") == 90
            with pytest.raises(DataLossError, match="rolled back"):
                engine(promoted, spark.offset, streams="s").trigger()
            add(promoted, 101, 30)
            with pytest.raises(DataLossError, match="10 of them are in it no more"):
                engine(promoted, spark.offset, streams="s").trigger()
            lenient = engine(promoted, spark.offset, streams="s", failondataloss="false")
            assert numbers(lenient.drain()) == list(range(101, 131))


@pytest.mark.parametrize("kind", ["redis810", "valkey", "rillet"])
def test_a_server_that_died_starts_from_an_older_file(kind):
    with start(kind) as server:
        with Connection(Endpoint(port=server.port)) as connection:
            add(connection, 1, 90)
            connection.call("SAVE")
            add(connection, 91, 10)
            spark = engine(connection, streams="s")
            assert len(spark.drain()) == 100
        os.kill(server.pid, signal.SIGKILL)
        server.restart()
        with Connection(Endpoint(port=server.port)) as connection:
            add(connection, 101, 10)
            with pytest.raises(DataLossError, match="10 of them are in it no more"):
                engine(connection, spark.offset, streams="s").trigger()
            lenient = engine(connection, spark.offset, streams="s", failondataloss="false")
            assert numbers(lenient.drain()) == list(range(101, 111))


# Random histories on real servers


changes = st.one_of(
    st.tuples(st.just("add"), st.integers(1, 8)),
    st.tuples(st.just("trim"), st.integers(0, 12)),
    st.tuples(st.just("delete"), st.integers(0, 30)),
    st.tuples(st.just("save"), st.none()),
    st.tuples(st.just("back"), st.integers(0, 3)),
    st.tuples(st.just("del"), st.none()),
    st.tuples(st.just("read"), st.none()),
    st.tuples(st.just("restart"), st.none()),
)


@pytest.mark.parametrize("rows_at_most", [0, 100])
@pytest.mark.parametrize("kind", ["rillet", "redis7"])
@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    plan=st.lists(changes, max_size=25),
    limit=st.sampled_from([None, "1", "4"]),
    parts=st.sampled_from(["1", "3"]),
)
@example([("add", 8), ("save", None), ("add", 4), ("read", None), ("back", 0), ("add", 8)], None, "1")
@example([("add", 8), ("save", None), ("add", 4), ("read", None), ("back", 0), ("add", 8)], "4", "3")
@example([("add", 1), ("save", None), ("trim", 0), ("read", None), ("back", 0)], None, "1")
def test_nothing_new_is_left_out_and_nothing_known_is_read_twice(
    running, monkeypatch, kind, rows_at_most, plan, limit, parts
):
    """Each trigger reads what is there between its position before and after, and no position passes an entry twice.

    An entry that was not there when a position passed its id is not read when it comes back with an earlier state.
    """
    monkeypatch.setattr(
        offsets, "_ROWS_AT_MOST", rows_at_most
    )  # 0: the offset is packed, without first entries
    name = next(names)
    given_words = {"failondataloss": "false", "minpartitions": parts}
    if limit:
        given_words["maxrowspertrigger"] = limit
    with Connection(Endpoint(port=running(kind).port)) as connection:
        spark = engine(connection, streams=name, **given_words)
        assert spark.plan() is None
        clock, seen, saved, passed = 0, [], [], set()

        def there():
            return [int(entry[0].split(b"-")[0]) for entry in connection.call("XRANGE", name, "-", "+")]

        def come_to():
            at = offsets.load(spark.offset).get(name)
            return 0 if at is None else at.id >> 64

        def trigger():
            before = come_to()
            rows = spark.trigger()
            between = range(before + 1, come_to() + 1)
            assert numbers(rows or []) == [each for each in there() if each in between]
            seen.extend(numbers(rows or []))
            passed.update(set(between).difference(there()))
            return rows

        for what, number in plan:
            if what == "add":
                if not connection.call("EXISTS", name):
                    saved.clear()  # see support/streams/stream_history.py
                add(connection, clock + 1, number, name)
                clock += number
            elif what == "trim":
                connection.call("XTRIM", name, "MAXLEN", number)
            elif what == "delete":
                connection.call("XDEL", name, f"{number}-0")
            elif what == "save" and connection.call("EXISTS", name):
                saved.append(connection.call("DUMP", name))
            elif what == "back" and saved:
                del saved[number % len(saved) + 1 :]
                put_back(connection, saved[-1], name)
            elif what == "del":
                connection.call("DEL", name)
            elif what == "read":
                trigger()
            else:
                spark.restart()
        while trigger() is not None:
            pass
        assert len(seen) == len(set(seen))
        assert set(there()) <= set(seen) | passed
        strict = engine(connection, spark.offset, streams=name)
        add(connection, clock + 1, 2, name)
        if there() != [clock + 1, clock + 2]:
            assert numbers(strict.drain()) == [clock + 1, clock + 2]
        connection.call("DEL", name)
