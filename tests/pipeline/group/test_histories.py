"""Group mode where a stream or its group is not what it was, on each kind of server, without a JVM.

As in range mode an earlier state comes back by DUMP and RESTORE, and once on each server by a replica that was cut off.
"""

import logging

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from support.pipeline.histories import add, cut_off, numbers, put_back
from support.pipeline.spark_engine import Engine

from rillet.pipeline.group.stream_reader import GroupStreamReader, group_columns
from rillet.pipeline.redis.connection import Connection
from rillet.pipeline.redis.options import Endpoint
from rillet.pipeline.source.entry_batches import default_schema
from rillet.pipeline.source.losses import DataLossError
from rillet.pipeline.source.offsets import OffsetError

SCHEMA = default_schema("", group_columns())


def engine(connection, offset=None, **given):
    words = {
        "port": str(connection.endpoint.port), "retries": "0", "startingOffsets": "earliest", "fetchSize": "10",
        "streams": "s", "group": "g", "consumer": "me",
    } | given  # fmt: skip
    return Engine(lambda: GroupStreamReader(SCHEMA, words), offset)


def pattern(connection, offset=None, **given):
    return engine(connection, offset, streams="", streamsPattern="s*", discoveryIntervalMs="0", **given)


@pytest.mark.parametrize(("lost", "new"), [(1, 1), (10, 10), (10, 30), (10, 5), (10, 0)])
def test_a_stream_that_was_rolled_back_stops_a_query_or_goes_on_with_what_its_group_delivers(
    connection, lost, new, caplog
):
    spark = engine(connection)
    add(connection, 1, 50)
    assert numbers(spark.drain()) == list(range(1, 51))  # acknowledged, too
    add(connection, 51, 50 - lost)
    dump = connection.call("DUMP", "s")
    add(connection, 101 - lost, lost)
    assert numbers(spark.drain()) == list(range(51, 101))
    put_back(connection, dump)
    add(connection, 101, new)
    for _ in range(2):
        with pytest.raises(DataLossError, match=r"'s' was rolled back.*goes on with what the group delivers"):
            spark.trigger()
        spark.restart()
    lenient = engine(connection, spark.offset, failOnDataLoss="false")
    with caplog.at_level(logging.WARNING, "rillet.pipeline"):
        # Of those that were read the group knows nothing.
        assert numbers(lenient.drain()) == [*range(51, 101 - lost), *range(101, 101 + new)]
    assert caplog.text.count("was rolled back") == 1
    # What was repaired is no fault any more.
    add(connection, 201, 12)
    assert numbers(engine(connection, lenient.offset).drain()) == list(range(201, 213))
    assert connection.call("XPENDING", "s", "g")[0] == 0


def test_new_entries_with_ids_of_lost_ones_are_not_acknowledged_for_them(connection):
    spark = engine(connection, failOnDataLoss="false")
    add(connection, 1, 5)
    spark.drain()
    dump = connection.call("DUMP", "s")
    add(connection, 10, 10)
    spark.offset = spark.plan()[1]  # of 10 to 19, committed and not yet acknowledged
    put_back(connection, dump)
    add(connection, 11, 3)
    connection.call("XREADGROUP", "GROUP", "g", "me", "STREAMS", "s", ">")
    assert numbers(spark.drain()) == [11, 12, 13]


def test_a_rollback_that_only_corrects_the_checkpoint_is_a_batch_without_rows(connection):
    spark = engine(connection)
    add(connection, 1, 3)
    assert spark.plan() is not None  # the group is there
    spark.offset = spark.plan()[1]
    spark.drain()
    dump = connection.call("DUMP", "s")
    add(connection, 4, 3)
    spark.drain()
    put_back(connection, dump)
    lenient = engine(connection, spark.offset, failOnDataLoss="false")
    assert lenient.trigger() == []
    assert engine(connection, lenient.offset).trigger() is None


def test_a_group_that_was_moved_back_delivers_again_and_says_so(connection, caplog):
    spark = engine(connection)
    add(connection, 1, 10)
    spark.drain()
    connection.call("XGROUP", "SETID", "s", "g", "5-0")
    with caplog.at_level(logging.WARNING, "rillet.pipeline"):
        assert numbers(spark.drain()) == [6, 7, 8, 9, 10]
        add(connection, 11, 2)
        assert numbers(spark.drain()) == [11, 12]
    assert caplog.text.count("moved back from 10-0 to 5-0") == 1


def test_what_others_tidy_up_is_no_loss(connection):
    spark = engine(connection)
    add(connection, 1, 10)
    spark.drain()
    add(connection, 11, 10)
    connection.call("XREADGROUP", "GROUP", "g", "other", "COUNT", 5, "STREAMS", "s", ">")
    connection.call("XACK", "s", "g", *[f"{number}-0" for number in range(11, 16)])
    connection.call("XDEL", "s", *[f"{number}-0" for number in range(11, 16)])
    connection.call("XTRIM", "s", "MAXLEN", 5)
    assert numbers(spark.drain()) == [16, 17, 18, 19, 20]


def test_a_stream_deleted_with_entries_that_were_not_delivered_is_a_loss(connection, caplog):
    spark = pattern(connection, maxRowsPerTrigger="4")
    add(connection, 1, 10)
    add(connection, 1, 2, "s2")
    spark.trigger()
    connection.call("DEL", "s")
    with pytest.raises(DataLossError, match=r"'s' was deleted with \d+ entries after .* that were not read"):
        spark.drain()
    lenient = pattern(connection, spark.offset, failOnDataLoss="false")
    with caplog.at_level(logging.WARNING, "rillet.pipeline"):
        lenient.drain()
    assert caplog.text.count("'s' was deleted with") == 1


def test_a_stream_deleted_when_all_was_delivered_is_no_loss(connection):
    spark = pattern(connection)
    add(connection, 1, 10)
    spark.drain()
    connection.call("DEL", "s")
    assert spark.drain() == []
    add(connection, 1, 3)
    assert numbers(spark.drain()) == [1, 2, 3]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_named_stream_that_is_deleted_and_created_again_is_read_from_its_start(connection, restarts):
    spark = engine(connection)
    for first in (1, 1, 5):
        add(connection, first, 10)
        assert numbers(spark.drain()) == list(range(first, first + 10))
        connection.call("DEL", "s")
        assert spark.drain() == []
        if restarts:
            spark.restart()
    add(connection, 1, 3)
    assert numbers(spark.drain()) == [1, 2, 3]
    assert connection.call("XPENDING", "s", "g")[0] == 0


def test_what_is_lost_between_planning_and_reading_is_counted(connection):
    add(connection, 1, 1000)
    spark = engine(connection, failOnDataLoss="false")
    start, end = spark.plan()
    parts = spark.reader.partitions(start, end)
    connection.call("XTRIM", "s", "MAXLEN", 10)
    for _ in range(2):  # a task that runs again says it once
        found = [
            row["id"] for part in parts for batch in spark.reader.read(part) for row in batch.to_pylist()
        ]
        assert len(found) == 10
    add(connection, 1001, 1)
    assert spark.reader.latestOffset(end, ReadAllAvailable())["gone"] == 990


def test_a_checkpoint_of_another_database_is_refused(connection):
    add(connection, 1, 3)
    spark = engine(connection)
    spark.drain()
    with pytest.raises(
        OffsetError, match=r"checkpoint is of database 0, the query reads database 3: set option 'db'"
    ):
        engine(connection, spark.offset, db="3").drain()


def test_a_stream_that_was_created_again_is_another_one(connection):
    spark = pattern(connection)
    add(connection, 1, 10)
    spark.drain()
    connection.call("DEL", "s")
    add(connection, 11, 3)
    with pytest.raises(DataLossError, match="deleted and created again"):
        spark.drain()
    lenient = pattern(connection, spark.offset, failOnDataLoss="false")
    assert numbers(lenient.drain()) == [11, 12, 13]


def test_a_checkpoint_without_positions_is_read(connection):
    spark = engine(connection)
    add(connection, 1, 10)
    spark.drain()
    assert set(spark.offset.pop("positions")) == {"s"}
    add(connection, 11, 2)
    spark.restart()
    assert numbers(spark.drain()) == [11, 12]


@pytest.mark.parametrize("kind", ["redis810", "valkey", "rillet"])
def test_a_replica_that_was_cut_off_is_promoted(kind):
    with cut_off(kind) as (master, replica, cut):
        with Connection(Endpoint(port=master.port)) as connection:
            spark = engine(connection)
            add(connection, 1, 90)
            assert len(spark.drain()) == 90
            cut()
            add(connection, 91, 10)
            assert len(spark.drain()) == 10
        with Connection(Endpoint(port=replica.port)) as promoted:
            promoted.call("REPLICAOF", "NO", "ONE")
            add(promoted, 101, 30)
            with pytest.raises(DataLossError, match="10 of them are in it no more"):
                engine(promoted, spark.offset).trigger()
            lenient = engine(promoted, spark.offset, failOnDataLoss="false")
            assert numbers(lenient.drain()) == list(range(101, 131))
            assert promoted.call("XPENDING", "s", "g")[0] == 0


@pytest.mark.parametrize("kind", ["redis810", "valkey", "rillet"])
def test_deliveries_that_a_promoted_replica_has_not_heard_of_are_made_again(kind, caplog):
    with cut_off(kind) as (master, replica, cut):
        with Connection(Endpoint(port=master.port)) as connection:
            spark = engine(connection)
            add(connection, 1, 20)
            assert len(spark.trigger()) == 20  # delivered, committed and not acknowledged
            add(connection, 21, 10)
            cut()
            assert len(spark.drain()) == 10
        with Connection(Endpoint(port=replica.port)) as promoted:
            promoted.call("REPLICAOF", "NO", "ONE")
            again = engine(promoted, spark.offset)
            with caplog.at_level(logging.WARNING, "rillet.pipeline"):
                rows = again.drain()
            # The batch that the checkpoint has last is acknowledged; what was before it is pending, as for the first time.
            assert numbers(rows) == list(range(1, 31))
            assert [row["delivery_count"] for row in rows] == [2] * 20 + [1] * 10
            assert "moved back from 30-0 to 20-0" in caplog.text
            assert promoted.call("XPENDING", "s", "g")[0] == 0
