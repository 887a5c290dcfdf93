"""Group mode without a JVM: readers called as Spark calls them, on Rillet, redis-server and Valkey."""

import json
import pickle

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from support.pipeline.group_scene import Scene
from support.pipeline.micro_batches import Faults, fail_connections, surviving
from support.servers import KINDS
from support.thorough import examples

from rillet.pipeline.group import stream_reader, task
from rillet.pipeline.redis.connection import ServerError
from rillet.pipeline.redis.options import OptionError
from rillet.pipeline.source.offsets import OffsetError

EVERYTHING = ReadAllAvailable()
HAVE_MAXSIZE = {"rillet", "redis810"}


def test_entries_are_read_once_and_acknowledged(server):
    with Scene(server) as scene:
        added = scene.add(5)
        scene.engine.finish()
        assert scene.read == added
        assert scene.pending() == 0
        row = scene.rows[0][0]
        assert (row["stream"], row["consumer"], row["delivery_count"], row["claimed"]) == (
            scene.stream, "me", 1, False,
        )  # fmt: skip
        assert row["fields"] == [{"name": "n", "value": b"0"}]


def test_a_group_that_is_created_late_reads_what_is_new(server):
    with Scene(server, startingOffsets="latest") as scene:
        scene.add(3)
        assert not scene.engine.trigger()
        added = scene.add(2)
        scene.engine.finish()
        assert scene.read == added


def test_a_missing_group_is_an_error_when_it_is_not_to_be_created(server):
    with Scene(server, createGroup="false") as scene:
        scene.add(1)
        with pytest.raises(ServerError, match=r"NOGROUP.*Create it .XGROUP"):
            scene.engine.trigger()


def test_the_limit_that_spark_hands_over_counts_too(server):
    with Scene(server) as scene:
        scene.add(10)
        reader = scene.reader()
        offset = reader.latestOffset(reader.initialOffset(), ReadMaxRows(6))
        assert offset["rows"] == 6


def test_a_batch_holds_about_as_many_bytes_as_allowed(server):
    with Scene(server, maxBytesPerTrigger=5000, fetchSize=10) as scene:
        scene.add_long(30)
        scene.engine.finish()
        assert [len(rows) for rows in scene.rows.values()] == [10, 10, 10]


def test_long_entries_keep_to_the_bytes_too_where_the_server_counts_them(server):
    with Scene(server, maxBytesPerTrigger=5000) as scene:
        added = scene.add_long(30)
        scene.engine.finish()
        sizes = [len(rows) for rows in scene.rows.values()]
        assert sizes == ([10, 10, 10] if server.kind in HAVE_MAXSIZE else [30])
        assert scene.read == added


def test_a_reply_that_ends_for_its_size_is_not_the_end_of_the_stream(server):
    with Scene(server, maxBytesPerTrigger=1, fetchSize=2) as scene:
        added = scene.add_long(3)
        assert scene.engine.trigger()
        scene.engine.finish()
        assert scene.read == added
        assert scene.pending() == 0


def test_streams_take_turns(server):
    with Scene(server, maxRowsPerTrigger=4, fetchSize=2) as one:
        second = f"{one.stream}-two"
        one.given["streams"] = f"{one.stream},{second}"
        one.add(6)
        for _ in range(2):
            one.call("XADD", second, "*", "n", 1)
        one.engine.trigger()
        assert [row["stream"] for row in one.rows[0]].count(second) == 2
        one.engine.finish()
        assert len(one.read) == 8


def test_a_pattern_is_looked_up_once_in_its_interval(server, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr("rillet.pipeline.group.next_batch.time.monotonic", lambda: clock[0])
    with Scene(server, discoveryIntervalMs=5000) as scene:
        scene.given |= {"streams": None, "streamsPattern": f"{scene.stream}*"}
        first = scene.add(2)
        scene.engine.finish()
        later = scene.call("XADD", f"{scene.stream}-later", "*", "n", 1).decode()
        clock[0] += 4.9
        scene.engine.finish()
        assert scene.read == first
        clock[0] += 0.2
        scene.engine.finish()
        assert scene.read == [*first, later]


def test_round_trips_of_a_progress_report_do_not_grow_with_the_number_of_streams(server, requests):
    with Scene(server) as scene:
        names = [f"{scene.stream}-{number}" for number in range(30)]
        scene.given["streams"] = ",".join([*names, f"{scene.stream}-none"])
        for name in names:
            scene.call("XADD", name, "7-1", "n", 1)
        scene.engine.finish()
        scene.call("DEL", names[0])
        requests.clear()
        found = scene.engine.reader.reportLatestOffset()["streams"]
        assert list(found) == [*names[1:], f"{scene.stream}-none"]  # whose group was created with it
        assert found[names[1]] == {"last_delivered": "7-1", "newest": "7-1", "lag": 0, "pending": 0}
        assert len(requests) == 2


def test_a_stream_of_a_pattern_that_was_deleted_is_read_no_more(server):
    with Scene(server) as scene:
        scene.given |= {"streams": None, "streamsPattern": f"{scene.stream}*"}
        first = scene.add(2)
        scene.call("XADD", f"{scene.stream}-other", "*", "n", 1)
        scene.engine.finish()
        scene.call("DEL", f"{scene.stream}-other")
        more = scene.add(2)
        scene.engine.finish()
        rows = [row for batch in scene.rows.values() for row in batch]
        assert [row["id"] for row in rows if row["stream"] == scene.stream] == [*first, *more]


def test_streams_whose_names_are_no_utf8_are_read_claimed_reported_and_acknowledged(server):
    with Scene(server, claimMinIdleMs=0) as scene:
        scene.given |= {"streams": None, "streamsPattern": f"{scene.stream}*"}
        scene.stream += "\udcff"
        added = scene.add(4, held=2)
        scene.engine.trigger()
        assert scene.engine.reader.reportLatestOffset()["streams"][scene.stream]["pending"] == 4
        scene.engine.finish()
        assert sorted(scene.read) == added
        assert {row["stream"] for row in scene.rows[0]} == {scene.stream[:-1] + "\\xff"}
        assert scene.pending() == 0


def test_what_a_stream_whose_name_is_no_utf8_has_now_is_all_that_available_now_reads(server):
    with Scene(server) as scene:
        scene.stream += "\udcff"
        scene.given["streams"] = json.dumps([scene.stream])
        scene.create()
        added = scene.add(3)
        reader = scene.reader()
        reader.prepareForTriggerAvailableNow()
        scene.add(2)
        assert reader.latestOffset(reader.initialOffset(), EVERYTHING)["rows"] == len(added)


def test_partitions_share_the_entries(server):
    with Scene(server, fetchSize=10, minPartitions=3) as scene:
        scene.add(60)
        reader, start, end = scene.planned()
        parts = reader.partitions(start, end)
        copy = pickle.loads(pickle.dumps(reader))
        assert [sum(batch.num_rows for batch in copy.read(part)) for part in parts] == [20, 20, 20]


# Spark's ways


def test_a_batch_of_the_offset_log_is_replayed_as_it_was(server):
    with Scene(server, claimMinIdleMs=0) as scene:
        added = scene.add(4, held=2)
        reader, start, end = scene.planned()
        reader.stop()
        scene.add(3)
        scene.other_reads(2, "thief")
        scene.call("XCLAIM", scene.stream, "g", "thief", 0, *added)
        again = scene.reader(consumer="another name")
        rows = [
            row
            for part in again.partitions(start, end)
            for batch in again.read(part)
            for row in batch.to_pylist()
        ]
        assert sorted(row["id"] for row in rows) == added
        assert {row["consumer"] for row in rows} == {"me", "other"}
        # What Spark has committed is acknowledged, whichever consumer owns it now.
        again.latestOffset(end, EVERYTHING)
        left = scene.call("XPENDING", scene.stream, "g", "-", "+", 10)
        assert not {row[0].decode() for row in left} & set(added)


def test_an_offset_that_spark_never_used_is_gathered_again(server):
    with Scene(server) as scene:
        added = scene.add(3)
        reader = scene.reader()
        start = reader.initialOffset()
        reader.latestOffset(start, EVERYTHING)
        end = reader.latestOffset(start, EVERYTHING)
        (part,) = reader.partitions(start, end)
        rows = [row for batch in reader.read(part) for row in batch.to_pylist()]
        assert [row["id"] for row in rows] == added
        assert {(row["delivery_count"], row["claimed"]) for row in rows} == {(2, False)}


def test_available_now_leaves_what_came_later(server):
    with Scene(server, maxRowsPerTrigger=2) as scene:
        added = scene.add(5)
        reader = scene.reader()
        reader.prepareForTriggerAvailableNow()
        offset, total = reader.initialOffset(), 0
        while (end := reader.latestOffset(offset, EVERYTHING)) != offset:
            offset, total = end, total + end["rows"]
            scene.add(2)
        assert total == len(added)
        assert scene.pending() == 0


def test_lag_and_pending_are_reported(server):
    with Scene(server, maxRowsPerTrigger=2) as scene:
        added = scene.add(5)
        scene.engine.trigger()
        found = scene.engine.reader.reportLatestOffset()
        assert found["streams"][scene.stream] == {
            "last_delivered": added[1], "newest": added[4], "lag": 3, "pending": 2,
        }  # fmt: skip
        scene.call("XGROUP", "DESTROY", scene.stream, "g")
        assert scene.engine.reader.reportLatestOffset()["streams"] == {}


def test_the_checkpoint_of_another_group_is_refused(server):
    with Scene(server) as scene:
        offset = scene.reader()
        start = offset.initialOffset()
        offset.stop()
        with pytest.raises(OffsetError, match="belongs to group 'g', the query to 'h'"):
            scene.reader(group="h").latestOffset(start, EVERYTHING)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"group": None}, "'group' is required"),
        ({"streams": None}, "one of the options 'streams', 'streamsPattern'"),
        ({"maxDeliveries": 3}, "'maxDeliveries' goes with 'deadLetterStream'"),
        ({"minRowsPerTrigger": 3}, "unknown option 'minrowspertrigger'"),
        ({"claimMinIdle": 3}, "did you mean 'claimMinIdleMs'"),
    ],
)
def test_wrong_options_are_refused(rillet_process, given, error):
    with Scene(rillet_process) as scene, pytest.raises(OptionError, match=error):
        scene.reader(**given)


# Crashes

steps = st.one_of(
    st.tuples(st.just("add"), st.integers(1, 7)),
    st.tuples(st.just("other"), st.integers(1, 4)),
    st.tuples(st.just("batch"), st.sampled_from(["", "log", "write", "commit"])),
    st.tuples(st.just("restart"), st.just(0)),
    st.tuples(st.just("fault"), st.tuples(st.integers(0, 12), st.booleans(), st.booleans())),
)


@pytest.mark.parametrize("kind", KINDS)
def test_after_crashes_anywhere_nothing_is_missing_doubled_or_pending(running, monkeypatch, kind):
    faults = Faults()
    fail_connections(monkeypatch, faults, stream_reader, task)

    @settings(
        max_examples=examples(60 if kind == "rillet" else 25),
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
    @given(st.lists(steps, max_size=25), st.booleans(), st.sampled_from(["me", None]))
    def run(todo, poisonous, consumer):
        faults.disarm()
        options = {"claimMinIdleMs": 0, "maxRowsPerTrigger": 5, "fetchSize": 2, "consumer": consumer}
        with Scene(running(kind), **options) as scene:
            if poisonous:
                scene.given |= {"maxDeliveries": 2, "deadLetterStream": scene.dead}
            scene.create()
            added: list[str] = []
            theirs: set[str] = set()
            for what, how in todo:
                if what == "add":
                    added += scene.add(how)
                elif what == "other":
                    got = scene.other_reads(how)
                    if got:
                        scene.call("XACK", scene.stream, "g", got[0])
                        theirs.add(got[0])
                elif what == "restart":
                    scene.engine.restart()
                elif what == "fault":
                    faults.arm(how[0], after=how[1], crash=how[2])
                else:
                    with surviving(scene.engine, faults):
                        scene.engine.trigger(how)
            faults.disarm()
            scene.engine.finish()
            dead = [words[3] for words in scene.dead_letters()] if poisonous else []
            assert sorted([*scene.read, *theirs, *dead]) == sorted(added)
            assert scene.pending() == 0

    run()


@pytest.mark.parametrize("kind", KINDS)
def test_many_streams_are_read_and_acknowledged_many_at_a_time(running, requests, kind):
    with Scene(running(kind), streams=None, streamsPattern="many-*", discoveryIntervalMs=0) as scene:
        names = [f"many-{number:02}" for number in range(60)]
        scene.call("DEL", *names)
        for number, name in enumerate(names):
            for _ in range(1 + number % 3):
                scene.call("XADD", name, "*", "n", number)
        scene.engine.finish()
        assert sorted(row["stream"] for row in scene.rows[0]) == sorted(
            name for number, name in enumerate(names) for _ in range(1 + number % 3)
        )
        assert sum(len(names) for _, names in requests) > 5 * len(names)
        assert len(requests) < len(names)
        # Of those in which nothing is new or pending, none is looked into.
        scene.call("XADD", names[7], "*", "n", 1)
        requests.clear()
        scene.engine.trigger()
        assert [row["stream"] for row in scene.rows[1]] == [names[7]]
        assert len(requests) < 16
        assert all(scene.call("XPENDING", name, "g")[0] == 0 for name in names if name != names[7])
        scene.call("DEL", *names)
