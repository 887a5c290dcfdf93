"""Group mode and what others left: claims, poison messages, entries that are gone; on Rillet, redis-server and Valkey."""

import json

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable
from support.pipeline.group_scene import Scene

from rillet.pipeline.redis.connection import ServerError
from rillet.pipeline.source.losses import DataLossError

EVERYTHING = ReadAllAvailable()


# What other consumers left


def test_idle_entries_of_others_are_claimed(server):
    with Scene(server, claimMinIdleMs=0) as scene:
        added = scene.add(5, held=2)
        scene.engine.finish()
        assert sorted(scene.read) == added
        found = {row["id"]: (row["consumer"], row["delivery_count"], row["claimed"]) for row in scene.rows[0]}
        assert found[added[0]] == ("other", 2, True)
        assert found[added[4]] == ("me", 1, False)
        assert scene.pending() == 0
        assert scene.call("XPENDING", scene.stream, "g", "-", "+", 10) == []


@pytest.mark.parametrize("claiming", [{}, {"claimMinIdleMs": 60_000}])
def test_entries_that_others_have_had_for_a_short_time_stay_with_them(server, claiming):
    with Scene(server, **claiming) as scene:
        added = scene.add(5, held=2)
        scene.engine.finish()
        assert scene.read == added[2:]
        assert scene.pending() == 2


def test_other_consumers_of_the_group_get_the_rest(server):
    with Scene(server, maxRowsPerTrigger=3) as scene:
        added = scene.add(9)
        scene.engine.trigger()
        theirs = scene.other_reads(2)
        scene.engine.finish()
        assert sorted([*scene.read, *theirs]) == added
        assert not set(scene.read) & set(theirs)


@pytest.mark.parametrize("by", ["other", "me"])  # which may have died with more than a batch
def test_claims_keep_within_the_limit_and_go_on(server, by):
    with Scene(server, claimMinIdleMs=0, maxRowsPerTrigger=4) as scene:
        added = scene.add(10, held=10, by=by)
        scene.engine.finish()
        assert [len(rows) for rows in scene.rows.values()] == [4, 4, 2]
        assert sorted(scene.read) == added
        assert scene.pending() == 0


def test_claimed_entries_count_as_bytes_too(server):
    with Scene(server, claimMinIdleMs=0, maxBytesPerTrigger=5000, fetchSize=5) as scene:
        added = scene.add_long(25, held=15)
        scene.engine.finish()
        assert [len(rows) for rows in scene.rows.values()] == [10, 10, 5]
        found = [(row["id"], row["delivery_count"]) for rows in scene.rows.values() for row in rows]
        assert found == [(each, 2) for each in added[:15]] + [(each, 1) for each in added[15:]]
        assert scene.pending() == 0


def test_a_claimed_entry_beyond_the_limit_is_a_batch_of_its_own(server):
    with Scene(server, claimMinIdleMs=0, maxBytesPerTrigger=100, fetchSize=1) as scene:
        added = scene.add_long(3, held=2)
        scene.engine.finish()
        assert [[row["id"] for row in rows] for rows in scene.rows.values()] == [[each] for each in added]


@pytest.mark.parametrize("limit", [{}, {"maxBytesPerTrigger": 5000}])
def test_entries_deleted_while_pending_are_counted_if_that_is_no_failure(server, limit):
    with Scene(server, claimMinIdleMs=0, failOnDataLoss="false", **limit) as scene:
        added = scene.add(3, held=3)
        scene.call("XDEL", scene.stream, added[1])
        _, _, offset = scene.planned()
        assert (offset["gone"], offset["rows"]) == (1, 2)


def test_what_died_with_a_driver_comes_back_whole_and_leaves_no_room_for_more(server):
    with Scene(server, maxBytesPerTrigger=5000, fetchSize=10) as scene:
        added = scene.add_long(25, held=15, by="me")
        scene.engine.finish()
        assert [len(rows) for rows in scene.rows.values()] == [15, 10]
        assert scene.read == added


def test_entries_that_others_gave_back_are_claimed_at_once(running):
    with Scene(running("rillet"), claimMinIdleMs=60_000) as scene:
        added = scene.add(2, held=2)
        scene.call("XNACK", scene.stream, "g", "FAIL", "IDS", 1, added[0])
        scene.call("XNACK", scene.stream, "g", "FATAL", "IDS", 1, added[1])
        scene.engine.finish()
        found = [(row["id"], row["consumer"], row["delivery_count"], row["claimed"]) for row in scene.rows[0]]
        assert sorted(found) == [(added[0], "", 2, True), (added[1], "", 2**63 - 1, True)]
        assert scene.pending() == 0


# Poison


def test_an_entry_delivered_too_often_becomes_a_dead_letter(server):
    with Scene(server, claimMinIdleMs=0, maxDeliveries=2) as scene:
        poison, healthy = scene.add(2, held=1)
        scene.call("XCLAIM", scene.stream, "g", "third", 0, poison)
        scene.engine.finish()
        assert scene.read == [healthy]
        assert scene.pending() == 0
        assert scene.dead_letters() == [
            (
                *("rillet.stream", scene.stream, "rillet.id", poison, "rillet.group", "g"),
                *("rillet.consumer", "third", "rillet.deliveries", "2"),
                *("rillet.reason", "delivered too often and never acknowledged (maxDeliveries=2)", "n", "0"),
            )
        ]


def test_a_dead_letter_names_a_stream_that_is_no_utf8_by_its_bytes(server):
    with Scene(server, claimMinIdleMs=0, maxDeliveries=1) as scene:
        scene.stream += "\udcff"
        scene.given["streams"] = json.dumps([scene.stream])
        scene.add(1, held=1)
        scene.engine.finish()
        [[_, words]] = scene.call("XRANGE", scene.dead, "-", "+")
        assert words[1] == scene.stream.encode(errors="surrogateescape")
        assert scene.pending() == 0


def test_dead_letters_are_counted_in_the_offset(server):
    with Scene(server, claimMinIdleMs=0, maxDeliveries=1) as scene:
        scene.add(3, held=2)
        _, _, offset = scene.planned()
        assert (offset["dead"], offset["rows"]) == (2, 1)


def test_a_dead_letter_stream_that_is_none_loses_nothing(server):
    with Scene(server, claimMinIdleMs=0, maxDeliveries=1) as scene:
        scene.call("SET", scene.dead, "x")
        scene.add(1, held=1)
        with pytest.raises(ServerError, match=r"WRONGTYPE deadLetterStream .* is a string"):
            scene.engine.trigger()
        assert scene.pending() == 1


# Entries that go


def test_entries_deleted_while_pending_stop_a_query_once(server):
    with Scene(server, claimMinIdleMs=0) as scene:
        added = scene.add(3, held=2)
        scene.call("XDEL", scene.stream, added[0])
        with pytest.raises(DataLossError, match=f"1 entries .* {added[0]}"):
            scene.engine.trigger()
        scene.engine.restart()
        scene.engine.finish()
        assert sorted(scene.read) == added[1:]
        assert scene.pending() == 0


def test_a_loss_names_a_stream_that_is_no_utf8_readably(server):
    with Scene(server, claimMinIdleMs=0) as scene:
        scene.stream += "\udcff"
        scene.given["streams"] = json.dumps([scene.stream])
        [added] = scene.add(1, held=1)
        scene.call("XDEL", scene.stream, added)
        with pytest.raises(DataLossError) as loss:
            scene.engine.trigger()
        assert f"'{scene.stream[:-1]}\\udcff' {added}" in str(loss.value)


@pytest.mark.parametrize("claimed", [False, True])
def test_entries_trimmed_before_a_task_reads_them_are_missed(server, claimed):
    with Scene(server, claimMinIdleMs=0) as scene:
        added = scene.add(4, held=4 if claimed else 0)
        reader, start, end = scene.planned()
        scene.call("XTRIM", scene.stream, "MAXLEN", "=", 1)
        (part,) = reader.partitions(start, end)
        with pytest.raises(DataLossError, match=f"3 of 4 .* from {added[0]} to {added[3]}"):
            list(reader.read(part))
        lenient = scene.reader(failOnDataLoss="false")
        assert [batch.num_rows for batch in lenient.read(part)] == [1]
        reader.latestOffset(end, EVERYTHING)
        assert scene.pending() == 0


def test_a_stream_that_was_made_again_is_noticed(server):
    with Scene(server) as scene:
        scene.call("XADD", scene.stream, "1-0", "n", 1)
        scene.call("XADD", scene.stream, "5-0", "n", 1)
        reader, start, end = scene.planned()
        scene.call("XADD", f"{scene.stream}x", "2-0", "n", 1)
        scene.call("DEL", scene.stream)
        for number in range(1, 6):
            scene.call("XADD", scene.stream, f"{number}-0", "n", 1)
        (part,) = reader.partitions(start, end)
        with pytest.raises(DataLossError, match="deleted and made again"):
            list(reader.read(part))
