"""The source `redis-streams` under a real Spark: what spark-redis gets wrong, restarts, limits, and messages."""

import json
import os
from decimal import Decimal

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from rillet.pipeline import register
from rillet.pipeline.redis import ids
from rillet.pipeline.sessions import PUSHDOWN
from rillet.pipeline.source import offsets

# Where the server makes no difference that the tests without a JVM do not see on each of them.
on_redis = pytest.mark.parametrize("redis", ["redis7"], indirect=True)


def add(redis, stream, count, *, start=1):
    """Entries `<n>-0` with the fields n and word."""
    redis.pipeline([("XADD", stream, f"{n}-0", "n", n, "word", f"w{n}") for n in range(start, start + count)])


def batch(spark, redis, stream, **options):
    return spark.read.format("redis-streams").options(**redis.options, streams=stream, **options)


def live(spark, redis, stream, **options):
    given = {"startingOffsets": "earliest"} | options
    return spark.readStream.format("redis-streams").options(**redis.options, streams=stream, **given)


def run(frame, checkpoint, each):
    """Run a query over what is there now, `each` over its batches; the query."""
    query = (
        frame.writeStream.foreachBatch(lambda rows, _: each(rows))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return query


def test_default_columns_keep_the_greatest_id(spark, redis, stream):
    top = f"{2**64 - 1}-{2**64 - 1}"
    redis.pipeline([("XADD", stream, "1-0", "a", "1", "a", b"\xff"), ("XADD", stream, top, "b", "2")])
    rows = batch(spark, redis, stream).load().orderBy("id_key").collect()
    assert [row.id for row in rows] == ["1-0", top]
    assert [(pair.name, bytes(pair.value)) for pair in rows[0].fields] == [("a", b"1"), ("a", b"\xff")]
    assert ids.from_key(bytes(rows[1].id_key)) == ids.MAX_ID
    assert rows[1].seq == Decimal(2**64 - 1)
    assert rows[1].ts is None


def test_a_schema_types_fields_and_nests_json(spark, redis, stream):
    redis.pipeline([
        ("XADD", stream, "1-0", "n", "5", "at", "1970-01-02T00:00:00Z", "doc", '{"tags": ["x"], "m": {"k": 1.5}}'),
        ("XADD", stream, "2-0", "n", "five"),
    ])  # fmt: skip
    schema = "id string, n int, at timestamp, doc struct<tags: array<string>, m: map<string, double>>, _corrupt_record string"
    frame = batch(spark, redis, stream).schema(schema).load()
    shown = frame.select(
        "id", "n", f.unix_timestamp("at").alias("at"), "doc.tags", "doc.m", "_corrupt_record"
    ).collect()
    assert tuple(shown[0]) == ("1-0", 5, 86400, ["x"], {"k": 1.5}, None)
    assert tuple(shown[1]) == ("2-0", None, None, None, None, '{"n": "five"}')
    assert batch(spark, redis, stream, parseMode="DROPMALFORMED").schema(schema).load().count() == 1
    with pytest.raises(PySparkException, match="entry 2-0: column or field 'n' does not fit"):
        batch(spark, redis, stream, parseMode="FAILFAST").schema(schema).load().collect()


def test_a_range_is_read_by_several_tasks(spark, redis, stream):
    add(redis, stream, 1000)
    frame = batch(spark, redis, stream, minPartitions="4", fetchSize="70").schema("n int").load()
    assert frame.rdd.getNumPartitions() == 4
    assert sorted(row.n for row in frame.collect()) == list(range(1, 1001))


def test_bounds_of_a_batch_read(spark, redis, stream):
    add(redis, stream, 10)
    frame = batch(spark, redis, stream, startingOffsets="3-0", endingTimestamp="8").schema("n int").load()
    assert sorted(row.n for row in frame.collect()) == [4, 5, 6, 7]
    assert batch(spark, redis, stream, startingOffsets="latest").load().count() == 0


def test_sql_reads_a_view(spark, redis, stream):
    add(redis, stream, 3)
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW entries USING `redis-streams` "
        f"OPTIONS (port '{redis.endpoint.port}', streams '{stream}')"
    )
    assert spark.sql("SELECT count(*) c FROM entries WHERE seq = 0").first().c == 3


def test_mistakes_are_reported_in_our_words(spark, redis, stream):
    with pytest.raises(PySparkException, match="there is no stream 'nowhere'"):
        batch(spark, redis, "nowhere").load().collect()
    with pytest.raises(PySparkException, match="did you mean 'fetchSize'"):
        batch(spark, redis, stream, fetchsizes="1").load().collect()
    with pytest.raises(PySparkException, match=r"no answer from the Redis server at 127.0.0.1:1 "):
        spark.read.format("redis-streams").options(port="1", streams="s", retries="0").load().collect()


@on_redis
def test_a_task_that_is_retried_reads_the_same_again(spark, redis, stream, tmp_path):
    add(redis, stream, 20)
    failed = str(tmp_path / "failed-once")

    def fail_once(row):
        if row.n == 13 and not os.path.exists(failed):  # noqa: PTH110 - runs in a worker
            open(failed, "w").close()  # noqa: PTH123 - as above
            raise RuntimeError("the first attempt")
        return row.n

    seen = []
    frame = live(spark, redis, stream).schema("n int").load()
    run(frame, tmp_path / "checkpoint", lambda rows: seen.extend(rows.rdd.map(fail_once).collect()))
    assert os.path.exists(failed)  # noqa: PTH110 - as above
    assert seen == list(range(1, 21))


def test_a_batch_that_is_used_twice_holds_the_same_both_times(spark, redis, stream, tmp_path):
    add(redis, stream, 20)
    seen = []

    def twice(rows):
        first = rows.count()
        add(redis, stream, 5, start=100)
        seen.append((first, rows.count(), len(rows.collect())))

    run(live(spark, redis, stream).load(), tmp_path, twice)
    assert seen == [(20, 20, 20)]


def test_other_consumers_of_a_group_do_not_take_rows_away(spark, redis, stream, tmp_path):
    redis.call("XGROUP", "CREATE", stream, "spark-source", "$", "MKSTREAM")
    add(redis, stream, 10)
    taken = redis.call("XREADGROUP", "GROUP", "spark-source", "other", "COUNT", 4, "STREAMS", stream, ">")
    seen = []
    run(live(spark, redis, stream).schema("n int").load(), tmp_path, lambda rows: seen.extend(rows.collect()))
    assert [row.n for row in seen] == list(range(1, 11))
    assert redis.call("XPENDING", stream, "spark-source")[0] == len(taken[0][1]) == 4


def test_trimmed_entries_stop_a_query_or_are_counted(spark, redis, stream, tmp_path):
    add(redis, stream, 5)
    seen = []
    run(live(spark, redis, stream).schema("n int").load(), tmp_path, lambda rows: seen.extend(rows.collect()))
    add(redis, stream, 5, start=6)
    redis.call("XTRIM", stream, "MAXLEN", 2)
    with pytest.raises(
        PySparkException, match=f"3 entries of stream '{stream}' after 5-0 were trimmed or deleted"
    ):
        run(
            live(spark, redis, stream).schema("n int").load(),
            tmp_path,
            lambda rows: seen.extend(rows.collect()),
        )
    lenient = live(spark, redis, stream, failOnDataLoss="false").schema("n int").load()
    query = run(lenient, tmp_path, lambda rows: seen.extend(rows.collect()))
    assert [row.n for row in seen] == [1, 2, 3, 4, 5, 9, 10]
    end = json.loads(query.recentProgress[-1].sources[0].endOffset)
    assert end["streams"][stream] == [10, 10, 9, 10, 10, 8, 0, 3]


def test_a_batch_whose_commit_was_lost_is_not_doubled(spark, redis, stream, tmp_path):
    add(redis, stream, 30)
    out, checkpoint = str(tmp_path / "out"), tmp_path / "checkpoint"

    def write():
        query = (
            live(spark, redis, stream, maxRowsPerTrigger="10").schema("id string, n int").load()
            .writeStream.format("parquet").option("path", out).option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True).start()
        )  # fmt: skip
        query.awaitTermination()
        return [progress.batchId for progress in query.recentProgress]

    assert write() == [0, 1, 2]
    (checkpoint / "commits" / "2").unlink()
    (checkpoint / "commits" / ".2.crc").unlink()
    add(redis, stream, 5, start=31)
    assert write()[0] == 2
    rows = spark.read.parquet(out).collect()
    assert sorted(row.n for row in rows) == list(range(1, 36))


def test_limits_cut_batches_and_the_lag_is_reported(spark, redis, stream, tmp_path):
    add(redis, stream, 25)
    sizes = []
    frame = live(spark, redis, stream, maxRowsPerTrigger="10").load()
    query = run(frame, tmp_path, lambda rows: sizes.append(rows.count()))
    assert sizes == [10, 10, 5]
    source = query.recentProgress[0].sources[0]
    end, latest = json.loads(source.endOffset), json.loads(source.latestOffset)
    assert offsets.load(latest)[stream].added - offsets.load(end)[stream].added == 15


@pytest.fixture
def pushing(spark):
    spark.conf.set(PUSHDOWN, "true")
    register(spark)
    yield
    spark.conf.unset(PUSHDOWN)
    register(spark)


@pytest.mark.usefixtures("pushing")
def test_where_becomes_bounds_and_the_plan_shows_them(spark, redis, stream, capsys):
    add(redis, stream, 100)
    rows = batch(spark, redis, f"{stream},no-such-stream").option("pushFilters", "true")
    rows = rows.schema("stream string, ts timestamp, n int").load()
    found = rows.where(f"stream = '{stream}' and ts >= timestamp_millis(91) and n % 2 = 0")
    assert [row.n for row in found.orderBy("n").collect()] == [92, 94, 96, 98, 100]
    found.explain(mode="formatted")
    plan = capsys.readouterr().out
    pushed = plan.partition("PushedFilters: [")[2].partition("]")[0]
    assert f"EqualTo(stream,{stream})" in pushed
    assert "GreaterThanOrEqual(ts," in pushed
    assert "Filter" in plan  # n % 2 is left to Spark
    assert rows.where(f"stream = '{stream}' and ts < timestamp_millis(11)").count() == 10


def test_a_time_that_python_does_not_have_is_compared_by_spark(spark, redis, stream):
    add(redis, stream, 3)
    rows = batch(spark, redis, stream).schema("ts timestamp, n int").load()
    beyond = "timestamp'+10000-01-01 00:00:00'"
    assert rows.where(f"ts < {beyond}").count() == 3
    assert rows.where(f"ts > {beyond} or ts < timestamp'-0001-01-01 00:00:00'").count() == 0
    assert rows.where("ts > timestamp'-0001-01-01 00:00:00'").count() == 3


def test_a_frame_that_several_queries_use_gives_each_of_them_its_rows(spark, redis, stream):
    add(redis, stream, 40)
    rows = batch(spark, redis, stream).schema("ts timestamp, n int").load()
    late, early = rows.where("ts > timestamp_millis(17)"), rows.where("ts < timestamp_millis(5)")
    assert [each.count() for each in (rows, late, rows, early, rows)] == [40, 23, 40, 4, 40]
    assert [late.union(early).count(), early.union(late).count()] == [27, 27]
