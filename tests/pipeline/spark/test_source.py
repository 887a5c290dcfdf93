"""Batch reads of the source `redis-streams` under a real Spark: columns, bounds, filters and messages."""

from decimal import Decimal

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from rillet.pipeline import register
from rillet.pipeline.redis import ids
from rillet.pipeline.sessions import PUSHDOWN


def add(redis, stream, count, *, start=1):
    """Entries `<n>-0` with the fields n and word."""
    redis.pipeline([("XADD", stream, f"{n}-0", "n", n, "word", f"w{n}") for n in range(start, start + count)])


def batch(spark, redis, stream, **options):
    return spark.read.format("redis-streams").options(**redis.options, streams=stream, **options)


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


def test_mistakes_are_reported_in_our_words(spark, redis, stream):
    with pytest.raises(PySparkException, match="there is no stream 'nowhere'"):
        batch(spark, redis, "nowhere").load().collect()
    with pytest.raises(PySparkException, match="did you mean 'fetchSize'"):
        batch(spark, redis, stream, fetchsizes="1").load().collect()
    with pytest.raises(PySparkException, match=r"no answer from the Redis server at 127.0.0.1:1 "):
        spark.read.format("redis-streams").options(port="1", streams="s", retries="0").load().collect()


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
