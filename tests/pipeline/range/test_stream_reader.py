"""Range mode without a JVM: every entry once, what is gone counted, limits kept; on each kind of server."""

import json

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows, ReadMinRows
from support.pipeline.range_queries import add, engine, position, read_ids

from rillet.pipeline.redis import ids, stream_state
from rillet.pipeline.redis.connection import ServerError
from rillet.pipeline.redis.options import OptionError
from rillet.pipeline.source import offsets
from rillet.pipeline.source.losses import DataLossError


def sent_by(connection):
    """How many bytes a server has sent."""
    lines = connection.call("INFO", "stats").split()
    return next(int(line.partition(b":")[2]) for line in lines if line.startswith(b"total_net_output_bytes:"))


def test_every_entry_is_read_once_and_a_restart_goes_on(connection):
    add(connection, "s", *(f"{number}-1" for number in range(1, 8)))
    spark = engine(connection, streams="s")
    assert read_ids(spark.trigger()) == [f"{number}-1" for number in range(1, 8)]
    assert spark.trigger() is None
    add(connection, "s", "8-0", "18446744073709551615-18446744073709551614")
    spark.restart()
    assert read_ids(spark.trigger()) == ["8-0", "18446744073709551615-18446744073709551614"]
    assert position(spark, "s").added == 9
    add(connection, "s", "18446744073709551615-18446744073709551615")
    assert read_ids(spark.drain()) == ["18446744073709551615-18446744073709551615"]


def test_a_query_of_many_streams_goes_on_from_any_batch_of_its_log(redis):
    redis.pipeline([("XADD", f"s{number:03}", "1-0", "f", "v") for number in range(150)])
    spark = engine(redis, streamspattern="s*", discoveryintervalms="0")
    log = [spark.plan()]
    assert len(spark.trigger()) == 150
    for number in range(2, 5):
        add(redis, f"s{number:03}", f"{number}-0")
        log.append(spark.plan())
        assert read_ids(spark.trigger()) == [f"{number}-0"]
    assert isinstance(log[-1][1]["streams"], str)
    for number, (start, end) in enumerate(log[1:], 2):
        spark.restart()
        tree = [json.loads(json.dumps(each)) for each in (start, end)]
        assert read_ids(spark.read(*tree)) == [f"{number}-0"]
        assert spark.reader.latestOffset(log[-1][1], ReadAllAvailable()) == log[-1][1]


def test_rows_per_trigger_are_shared_by_backlog(connection):
    add(connection, "a", *(f"{number}-0" for number in range(1, 31)))
    add(connection, "b", "1-0", "2-0", "3-0")
    spark = engine(connection, streams="a, b,missing", maxrowspertrigger="11", maxrowsperpartition="4")
    sizes, rows = [], []
    while (batch := spark.trigger(ReadMaxRows(11))) is not None:
        sizes.append(len(batch))
        rows += [(row["stream"], row["id"]) for row in batch]
    assert sizes == [11, 11, 11]
    assert rows.count(("b", "3-0")) == 1
    assert [word for stream, word in rows if stream == "a"] == [f"{number}-0" for number in range(1, 31)]


def test_counted_steps_become_tasks_of_known_size(connection):
    add(connection, "s", *(f"{number}-0" for number in range(1, 31)))
    spark = engine(connection, streams="s", maxrowspertrigger="20", minpartitions="3")
    partitions = spark.reader.partitions(*spark.plan())
    assert sum(part.rows for partition in partitions for part in partition.ranges) == 20
    assert len(partitions) == 3
    assert max(part.rows for partition in partitions for part in partition.ranges) <= 9


@pytest.mark.parametrize("fetched", ["3", "1000"])  # servers without MAXSIZE send them all at once
def test_bytes_per_trigger_take_at_least_one_entry(connection, fetched):
    connection.pipeline([("XADD", "s", f"{number}-0", "f", b"x" * 100) for number in range(1, 6)])
    spark = engine(connection, streams="s", maxbytespertrigger="250", fetchsize=fetched)
    assert isinstance(spark.reader.getDefaultReadLimit(), ReadMaxBytes)
    assert [len(spark.trigger()) for _ in range(2)] == [3, 2]
    spark = engine(connection, streams="s", maxbytespertrigger="1")
    assert [len(spark.trigger()) for _ in range(5)] == [1] * 5
    assert spark.trigger() is None


@pytest.mark.parametrize("server", ["rillet", "redis810"], indirect=True)
def test_long_entries_are_not_fetched_by_the_thousand_to_count_their_bytes(connection):
    connection.pipeline([("XADD", "s", f"{number}-0", "f", b"x" * 10_000) for number in range(1, 201)])
    spark = engine(connection, streams="s", maxbytespertrigger="20000", fetchsize="1000")
    before = sent_by(connection)
    planned = spark.plan()
    assert sent_by(connection) - before < 200_000  # all of them are 2 MB
    assert read_ids(spark.read(*planned)) == ["1-0", "2-0"]


def test_the_end_that_was_planned_holds_while_bytes_are_counted(connection):
    connection.pipeline([("XADD", "s", f"{number}-0", "f", b"x" * 100) for number in range(1, 4)])
    spark = engine(connection, streams="s", maxbytespertrigger="100000")
    spark.reader.prepareForTriggerAvailableNow()
    add(connection, "s", "4-0", "5-0")
    assert read_ids(spark.drain()) == ["1-0", "2-0", "3-0"]


def test_few_rows_wait_until_they_are_enough_or_old_enough(redis, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr("rillet.pipeline.range.stream_reader.time.monotonic", lambda: clock[0])
    spark = engine(redis, streams="s", minrowspertrigger="3", maxtriggerdelay="10s")
    assert isinstance(spark.reader.getDefaultReadLimit(), ReadMinRows)
    add(redis, "s", "1-0")
    assert len(spark.trigger()) == 1  # the first batch does not wait
    add(redis, "s", "2-0", "3-0")
    assert spark.trigger() is None
    add(redis, "s", "4-0")
    assert len(spark.trigger()) == 3
    add(redis, "s", "5-0")
    clock[0] += 9.9
    assert spark.trigger() is None
    clock[0] += 0.2
    assert len(spark.trigger()) == 1


def test_available_now_ends_with_what_was_there(connection):
    add(connection, "s", *(f"{number}-0" for number in range(1, 6)))
    spark = engine(connection, streams="s,late", maxrowspertrigger="2")
    spark.reader.prepareForTriggerAvailableNow()
    assert len(spark.trigger()) == 2
    add(connection, "s", "6-0")
    add(connection, "late", "1-0")
    assert read_ids(spark.drain()) == ["3-0", "4-0", "5-0"]
    spark.restart()
    spark.reader.prepareForTriggerAvailableNow()
    assert sorted(read_ids(spark.drain(ReadAllAvailable()))) == ["1-0", "6-0"]


def test_available_now_ends_although_entries_go_behind_its_target(connection):
    add(connection, "s", *(f"{number}-0" for number in range(1, 6)))
    spark = engine(connection, streams="s", failondataloss="false", maxrowspertrigger="2")
    spark.reader.prepareForTriggerAvailableNow()
    add(connection, "s", "6-0", "7-0")
    connection.call("XDEL", "s", "7-0", "4-0")
    assert read_ids(spark.drain()) == ["1-0", "2-0", "3-0", "5-0"]
    spark.restart()
    spark.reader.prepareForTriggerAvailableNow()
    assert read_ids(spark.drain()) == ["6-0"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"startingoffsets": "latest"}, ["9-0"]),
        ({"startingoffsets": None}, ["9-0"]),
        ({"startingoffsets": "earliest"}, ["3-0", "3-5", "5-0", "9-0"]),
        ({"startingoffsets": "3-0"}, ["3-5", "5-0", "9-0"]),
        ({"startingoffsets": json.dumps({"s": "3-5"})}, ["5-0", "9-0"]),
        ({"startingoffsets": None, "startingtimestamp": "5"}, ["5-0", "9-0"]),
        ({"startingoffsets": None, "startingtimestamp": "0"}, ["3-0", "3-5", "5-0", "9-0"]),
        ({"startingoffsets": None, "startingtimestamp": "1970-01-01T00:00:00.004"}, ["5-0", "9-0"]),
    ],
)
def test_a_query_starts_where_its_options_say(redis, given, expected):
    add(redis, "s", "1-0", "3-0", "3-5", "5-0")
    redis.call("XTRIM", "s", "MAXLEN", 3)
    spark = engine(redis, streams="s", **given)
    rows = spark.trigger() or []
    add(redis, "s", "9-0")
    assert read_ids(rows + spark.drain()) == expected
    assert position(spark, "s").gone == 0
    assert position(spark, "s").added == 5  # known again once everything is read


@pytest.mark.parametrize(
    "limit", [{"maxrowspertrigger": "10"}, {"maxbytespertrigger": "60"}, {"minrowspertrigger": "1"}]
)
@pytest.mark.parametrize(
    "start", [{"startingoffsets": "5-0"}, {"startingoffsets": None, "startingtimestamp": "6"}]
)
def test_losses_are_counted_from_a_start_in_the_middle_on(connection, limit, start):
    add(connection, "s", *(f"{number}-0" for number in range(1, 41)))
    spark = engine(connection, streams="s", **start, **limit)
    first = read_ids(spark.trigger())
    assert first == [f"{number}-0" for number in range(6, 6 + len(first))]
    add(connection, "s", "41-0", "42-0")
    connection.call("XTRIM", "s", "MINID", "42-0")
    spark.restart()
    with pytest.raises(DataLossError, match=f"{36 - len(first)} entries of stream 's'"):
        spark.trigger()
    lenient = engine(connection, spark.offset, streams="s", failondataloss="false", **start, **limit)
    assert read_ids(lenient.drain()) == ["42-0"]
    assert (position(lenient, "s").gone, position(lenient, "s").added) == (36 - len(first), 42)


def test_losses_are_counted_after_available_now_ended_before_what_was_deleted(connection):
    add(connection, "s", "1-0", "2-0", "3-0", "4-0")
    spark = engine(connection, streams="s", startingoffsets="2-0")
    spark.reader.prepareForTriggerAvailableNow()
    add(connection, "s", "5-0", "6-0", "7-0")
    connection.call("XDEL", "s", "6-0")
    assert read_ids(spark.drain()) == ["3-0", "4-0"]
    connection.call("XDEL", "s", "5-0")
    lenient = engine(connection, spark.offset, streams="s", failondataloss="false")
    assert read_ids(lenient.drain()) == ["7-0"]
    at = position(lenient, "s")
    assert (at.gone, at.added) == (1, 7)  # 6-0 went before the first batch


@pytest.mark.parametrize(
    "start",
    [{"startingoffsets": None, "startingtimestamp": "5"}, {"startingoffsets": '{"s":"4-9","t":"4-9"}'}],
)
def test_a_start_that_is_yet_to_come_is_waited_for(connection, start):
    add(connection, "s", "1-0")
    spark = engine(connection, streams="s,t", **start)
    assert spark.trigger() is None
    add(connection, "s", "2-0")
    add(connection, "t", "2-0", "3-0")
    assert spark.drain() == []
    add(connection, "s", "6-0")
    add(connection, "t", "5-0", "6-0")
    connection.call("XDEL", "t", "2-0")
    assert [(row["stream"], row["id"]) for row in spark.drain()] == [("s", "6-0"), ("t", "5-0"), ("t", "6-0")]
    assert position(spark, "t").gone == 0
    assert position(spark, "t").added == 4


def test_offsets_by_stream_name_all_streams(redis):
    add(redis, "s", "1-0")
    spark = engine(redis, streams="s", startingoffsets='{"other":"earliest"}')
    with pytest.raises(OptionError, match="'s' is missing"):
        spark.trigger()


def test_a_pattern_finds_streams_that_appear_later(connection):
    add(connection, "order:1", "1-0")
    connection.call("SET", "order:no-stream", "x")
    spark = engine(connection, streamspattern="order:*", discoveryintervalms="0", startingoffsets="latest")
    assert spark.trigger() is None
    add(connection, "order:2", "1-0")
    connection.call("XADD", b"order:\xff", "1-0", "f", "v")
    add(connection, "order:1", "2-0")
    rows = spark.drain()
    assert sorted((row["stream"], row["id"]) for row in rows) == [
        ("order:1", "2-0"), ("order:2", "1-0"), ("order:\\xff", "1-0")
    ]  # fmt: skip


def test_a_stream_no_longer_named_rests_in_the_checkpoint(redis):
    add(redis, "a", "1-0")
    add(redis, "b", "1-0")
    both = engine(redis, streams="a,b")
    both.drain()
    add(redis, "a", "2-0")
    add(redis, "b", "2-0")
    one = engine(redis, both.offset, streams="a")
    assert [(row["stream"], row["id"]) for row in one.drain()] == [("a", "2-0")]
    assert [row["stream"] for row in engine(redis, one.offset, streams="a,b").drain()] == ["b"]


def test_the_latest_offset_shows_how_far_behind_a_query_is(connection):
    add(connection, "s", "1-0", "2-0", "3-0")
    spark = engine(connection, streams="s", maxrowspertrigger="1")
    spark.trigger()
    latest = offsets.load(spark.reader.reportLatestOffset())["s"]
    assert latest.added - position(spark, "s").added == 2
    assert ids.text(latest.id) == "3-0"


def test_the_latest_offset_is_what_the_trigger_has_just_seen(redis, monkeypatch):
    asked = []
    fetch = stream_state.fetch_states
    monkeypatch.setattr(stream_state, "fetch_states", lambda *given: asked.append(given) or fetch(*given))
    add(redis, "s", "1-0")
    spark = engine(redis, streams="s")
    spark.plan()
    asked.clear()
    seen = offsets.load(spark.reader.reportLatestOffset())
    assert not asked
    assert ids.text(seen["s"].id) == "1-0"
    add(redis, "s", "2-0")
    assert ids.text(offsets.load(spark.reader.reportLatestOffset())["s"].id) == "2-0"
    assert len(asked) == 1


# What is gone


@pytest.mark.parametrize("restarted", [False, True])
def test_trimmed_entries_stop_a_query_with_their_number(connection, restarted):
    add(connection, "s", "1-0", "2-0")
    spark = engine(connection, streams="s")
    spark.trigger()
    add(connection, "s", *(f"{number}-0" for number in range(3, 11)))
    connection.call("XTRIM", "s", "MAXLEN", 5)
    if restarted:
        spark.restart()
    with pytest.raises(DataLossError, match="3 entries of stream 's' after 2-0 were trimmed or deleted"):
        spark.trigger()
    connection.call("XTRIM", "s", "MAXLEN", 0)
    with pytest.raises(DataLossError, match="8 entries"):
        spark.trigger()


REMOVALS = [("XTRIM", "s", "MAXLEN", 1), ("XDEL", "s", "15-0")]


@pytest.mark.parametrize("remove", REMOVALS)
def test_a_batch_that_runs_again_much_later_counts_what_is_left_for_its_tasks(connection, remove):
    add(connection, "s", "1-0", "2-0")
    spark = engine(connection, streams="s", minpartitions="2")
    spark.trigger()
    add(connection, "s", *(f"{number}-0" for number in range(3, 21)))
    start, end = spark.plan()
    connection.call(*remove)
    spark.restart()
    with pytest.raises(
        DataLossError, match=r"(17|1) entries of stream 's' after 2-0 were trimmed or deleted"
    ):
        spark.read(start, end)
    lenient = engine(connection, streams="s", minpartitions="2", failondataloss="false")
    assert len(lenient.read(start, end)) == (1 if remove[0] == "XTRIM" else 17)


def test_trimming_behind_a_reading_task_is_no_loss(connection, monkeypatch):
    monkeypatch.setattr("rillet.pipeline.range.task._ROWS_PER_BATCH", 1)  # each fetch is a batch
    add(connection, "s", *(f"{number}-0" for number in range(1, 41)))
    spark = engine(connection, streams="s", minpartitions="2")
    first, second = spark.reader.partitions(*spark.plan())
    batches = spark.reader.read(first)
    assert next(batches).num_rows == 3
    connection.call("XTRIM", "s", "MINID", "3-0")  # the last entry that was read is still there
    assert sum(batch.num_rows for batch in batches) == first.ranges[0].upto // 2**64 - 3
    batches = spark.reader.read(second)
    assert next(batches).num_rows == 3
    connection.call("XTRIM", "s", "MINID", "39-0")
    with pytest.raises(DataLossError, match="some entries"):
        list(batches)


def test_what_goes_between_the_state_and_the_walk_is_counted(redis, monkeypatch):
    add(redis, "s", *(f"{number}-0" for number in range(1, 6)))
    spark = engine(redis, streams="s", maxbytespertrigger="10000", failondataloss="false")
    spark.offset = spark.reader.initialOffset()
    take = stream_state.fetch_states

    def take_and_delete(connection, names):
        found = take(connection, names)
        redis.call("XDEL", "s", "3-0")
        return found

    monkeypatch.setattr(stream_state, "fetch_states", take_and_delete)
    assert read_ids(spark.trigger()) == ["1-0", "2-0", "4-0", "5-0"]
    assert (position(spark, "s").gone, position(spark, "s").added) == (1, 5)
    add(redis, "s", "6-0", "7-0")
    strict = engine(redis, spark.offset, streams="s", maxbytespertrigger="10000")
    monkeypatch.setattr(
        stream_state,
        "fetch_states",
        lambda connection, names: (take(connection, names), redis.call("XDEL", "s", "6-0"))[0],
    )
    with pytest.raises(DataLossError, match="1 entries of stream 's' after 5-0"):
        strict.trigger()


def test_a_key_deleted_and_created_again_is_another_stream(connection):
    add(connection, "s", "5-0", "6-0", "7-0")
    spark = engine(connection, streams="s")
    spark.trigger()
    for words in (["1-0"], ["8-0"], ["8-0", "9-0", "10-0", "11-0"]):
        connection.call("DEL", "s")
        add(connection, "s", *words)
        with pytest.raises(DataLossError, match="deleted and created again"):
            spark.trigger()
        lenient = engine(connection, spark.offset, streams="s", failondataloss="false", maxrowspertrigger="2")
        assert read_ids(lenient.drain()) == words
        assert position(lenient, "s").generation == 1
        lenient.restart()
        lenient.reader.prepareForTriggerAvailableNow()
        add(connection, "s", "20-0")
        assert lenient.trigger() is None
        lenient.restart()
        assert read_ids(lenient.drain()) == ["20-0"]


def test_a_key_that_is_no_stream_is_named(connection):
    connection.call("SET", "s", "x")
    with pytest.raises(ServerError, match=r"WRONGTYPE.*stream 's'"):
        engine(connection, streams="s").trigger()


def test_other_consumers_do_not_matter(connection):
    add(connection, "s", "1-0", "2-0")
    connection.call("XGROUP", "CREATE", "s", "g", "0")
    spark = engine(connection, streams="s")
    connection.call("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
    connection.call("XACK", "s", "g", "1-0")
    assert read_ids(spark.trigger()) == ["1-0", "2-0"]
    assert connection.call("XPENDING", "s", "g")[0] == 1
