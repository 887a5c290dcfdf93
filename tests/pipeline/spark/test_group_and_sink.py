"""Group mode and the sink under a real Spark: what spark-redis loses, doubles, or hides."""

import json

import pytest
from pyspark import TaskContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as f
from support.spark.queries import collected, forget_last_commit, run


def add(redis, stream, count, *, start=0):
    replies = redis.pipeline([("XADD", stream, "*", "n", n) for n in range(start, start + count)])
    return [reply.decode() for reply in replies]


def group(spark, redis, stream, **options):
    given = {"mode": "group", "group": "g", "startingOffsets": "earliest", "streams": stream}
    return spark.readStream.format("redis-streams").options(**redis.options, **(given | options))


def pending(redis, stream):
    return redis.call("XPENDING", stream, "g")[0]


def numbers(redis, stream):
    return [int(fields[1]) for _, fields in redis.call("XRANGE", stream, "-", "+")]


def test_batches_are_read_once_and_run_again_as_they_were(spark, redis, stream, tmp_path):
    added = add(redis, stream, 25)
    frame = group(spark, redis, stream, maxRowsPerTrigger=15).load()
    rows = collected(frame, tmp_path)
    assert [row.id for row in rows] == added
    assert {(row.delivery_count, row.claimed) for row in rows} == {(1, False)}
    assert {row.consumer[:6] for row in rows} == {"spark-"}
    assert pending(redis, stream) == 0
    forget_last_commit(tmp_path)
    later = add(redis, stream, 4)
    batches = []
    collected(frame, tmp_path, lambda batch: batches.append([row.id for row in batch.collect()]))
    assert batches == [added[15:], later]
    assert pending(redis, stream) == 0


def test_a_batch_is_the_same_in_a_task_that_runs_again_and_when_it_is_used_twice(
    spark, redis, stream, tmp_path
):
    """spark-redis: the group has moved on, so that the second attempt and the second use get nothing."""
    added = add(redis, stream, 10)
    seen = []

    def fail_once(rows):
        found = [(row.id, TaskContext.get().attemptNumber()) for row in rows]
        if TaskContext.get().attemptNumber() == 0:
            raise RuntimeError("this attempt fails")
        return found

    def use(batch):
        seen.append(sorted(batch.rdd.mapPartitions(fail_once).collect()))
        seen.append([(row.id, 1) for row in batch.collect()])

    collected(group(spark, redis, stream, consumer="worker").load(), tmp_path, use)
    assert seen == [[(each, 1) for each in added]] * 2


def test_poison_in_a_batch_of_its_own_becomes_a_dead_letter(spark, redis, stream, tmp_path):
    """Six starts, six failures and no dead letter, when only claims counted as deliveries."""
    added = add(redis, stream, 5)
    dead = f"{stream}-dead"
    frame = group(spark, redis, stream, maxDeliveries=3, deadLetterStream=dead).load()
    rows = []

    def handle(batch):
        found = [row.id for row in batch.collect()]
        if added[2] in found:
            raise ValueError("cannot handle this")
        rows.extend(found)

    counts = []
    for _ in range(3):
        with pytest.raises(StreamingQueryException, match="cannot handle this"):
            collected(frame, tmp_path, handle)
        counts.append(redis.call("XPENDING", stream, "g", added[2], added[2], 1)[0][3])
    assert counts == [1, 2, 3]
    collected(frame, tmp_path, handle)
    assert sorted(rows) == added[:2] + added[3:]
    ((_, fields),) = redis.call("XRANGE", dead, "-", "+")
    assert fields[3].decode() == added[2]
    assert fields[9:12:2] == [b"3", b"delivered too often and never acknowledged (maxDeliveries=3)"]
    assert pending(redis, stream) == 0
    collected(frame, tmp_path, handle)
    assert redis.call("XLEN", dead) == 1
    redis.call("DEL", dead)


def test_group_to_stream_is_exactly_once_when_a_batch_runs_again(spark, redis, stream, tmp_path):
    add(redis, stream, 30)
    out = f"{stream}-out"
    frame = group(spark, redis, stream, maxRowsPerTrigger=15).load()
    writer = frame.writeStream.format("redis-streams").options(**redis.options, stream=out)
    query = run(writer, tmp_path)
    forget_last_commit(tmp_path)
    add(redis, stream, 5, start=30)
    run(writer, tmp_path)
    assert numbers(redis, out) == list(range(35))
    assert pending(redis, stream) == 0
    marker = json.loads(redis.call("GET", f"rillet:sink:{{{out}}}:{query.id}"))
    assert marker == {"v": 2, "batch": 2}


@pytest.mark.parametrize("redis", ["redis7"], indirect=True)
def test_a_source_and_then_a_target_that_were_rolled_back_go_on(spark, redis, stream, tmp_path):
    """The source's correction is a batch without tasks, and the marker moves with it, too."""
    out = f"{stream}-out"

    def run_to_the_end(**given):
        source = spark.readStream.format("redis-streams").options(**redis.options, streams=stream, **given)
        frame = source.option("startingOffsets", "earliest").schema("n int").load()
        return run(frame.writeStream.format("redis-streams").options(**redis.options, stream=out), tmp_path)

    add(redis, stream, 3)
    before = redis.call("DUMP", stream)
    add(redis, stream, 1, start=3)
    marker = f"rillet:sink:{{{out}}}:{run_to_the_end().id}"
    kept = [(key, redis.call("DUMP", key)) for key in (out, marker)]
    redis.call("RESTORE", stream, 0, before, "REPLACE")
    add(redis, stream, 2, start=4)
    run_to_the_end(failOnDataLoss="false")
    assert numbers(redis, out) == [0, 1, 2, 3, 4, 5]
    assert json.loads(redis.call("GET", marker)) == {"v": 2, "batch": 2}
    for key, dump in kept:
        redis.call("RESTORE", key, 0, dump, "REPLACE")
    add(redis, stream, 1, start=6)
    with pytest.raises(StreamingQueryException, match="'offsets' from 2 on and in 'commits' from 1 on"):
        run_to_the_end()
    for log, first in (("offsets", 2), ("commits", 1)):
        for path in (tmp_path / log).iterdir():
            if int(path.name.strip(".").removesuffix(".crc")) >= first:
                path.unlink()
    run_to_the_end()
    assert numbers(redis, out) == [0, 1, 2, 3, 4, 5, 6]


def test_output_mode_complete_replaces_the_stream(spark, redis, stream, tmp_path):
    out = f"{stream}-out"
    for start in (0, 5):
        add(redis, stream, 5, start=start)
        counts = group(spark, redis, stream).load().groupBy("stream").agg(f.count("*").alias("n")).select("n")
        writer = counts.writeStream.outputMode("complete").format("redis-streams")
        run(writer.options(**redis.options, stream=out), tmp_path)
    assert numbers(redis, out) == [10]


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_a_data_frame_is_written(spark, redis, stream, delivery):
    rows = spark.range(100).select(f.col("id").alias("n"), f.lit("é").alias("word"))
    writer = rows.write.format("redis-streams").options(**redis.options, stream=stream, delivery=delivery)
    writer.mode("append").save()
    assert sorted(numbers(redis, stream)) == list(range(100))
    if delivery == "exactly-once":
        writer.mode("overwrite").save()
        assert len(numbers(redis, stream)) == 100
