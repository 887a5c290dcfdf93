"""pipeline/group/acknowledger.py under a real Spark: what is committed is acknowledged without another batch, and nothing else."""

from types import SimpleNamespace

import pytest
from pyspark.errors import StreamingQueryException
from support.until import until

from rillet.pipeline.folders import LocalFolder
from rillet.pipeline.group.acknowledger import Acknowledger
from rillet.pipeline.jobs.parquet_batches import committed


class Reading:
    """A query of group `g` that looks for entries once an hour, and what it saw."""

    def __init__(self, spark, redis, stream, folder, each=None):
        self.spark, self.redis, self.stream, self.folder = spark, redis, stream, folder
        self.options = {**redis.options, "mode": "group", "group": "g", "streams": stream}
        self.options |= {"startingOffsets": "earliest"}
        self.rows = 0
        self.each = each or self.take

    def take(self, rows):
        self.rows += rows.count()

    def start(self):
        frame = self.spark.readStream.format("redis-streams").options(**self.options).load()
        writer = frame.writeStream.foreachBatch(lambda rows, _: self.each(rows))
        writer = writer.option("checkpointLocation", str(self.folder / "_checkpoint"))
        return writer.trigger(processingTime="1 hour").start()

    def run_once(self):
        """A query that has committed a batch and was stopped: Spark asks the source for nothing in between, nor then."""
        query = self.start()
        until(lambda: query.lastProgress is not None, 300)
        query.stop()
        assert committed(LocalFolder(self.folder)) == 0
        assert self.pending() == 5
        return query

    def pending(self):
        return self.redis.call("XPENDING", self.stream, "g")[0]


@pytest.fixture
def reading(spark, redis, stream, tmp_path):
    redis.pipeline([("XADD", stream, "*", "n", n) for n in range(5)])
    return Reading(spark, redis, stream, tmp_path)


def test_a_batch_is_acknowledged_long_before_the_next_one(spark, reading):
    def refuse_until_we_listen(rows):
        until(lambda: listening, 300)
        assert reading.pending() == 5
        reading.take(rows)

    listening = []
    reading.each = refuse_until_we_listen
    query = reading.start()
    acknowledger = Acknowledger(query, reading.options)
    spark.streams.addListener(acknowledger)
    listening.append(True)
    try:
        until(lambda: reading.rows == 5, 300)
        until(lambda: reading.pending() == 0, 300)
        assert query.isActive
    finally:
        spark.streams.removeListener(acknowledger)
        query.stop()
        acknowledger.settle(reading.folder / "_checkpoint")


def test_a_batch_that_fails_is_not_acknowledged(spark, reading):
    def fail(rows):
        until(lambda: listening, 300)
        raise RuntimeError("no")

    listening = []
    reading.each = fail
    query = reading.start()
    acknowledger = Acknowledger(query, reading.options)
    spark.streams.addListener(acknowledger)
    listening.append(True)
    with pytest.raises(StreamingQueryException):
        query.awaitTermination()
    spark.streams.removeListener(acknowledger)
    assert acknowledger.settle(reading.folder / "_checkpoint") == -1
    assert reading.pending() == 5


def test_other_queries_and_other_groups_are_left_alone(reading):
    query = reading.run_once()
    event = SimpleNamespace(progress=query.lastProgress)
    stranger = SimpleNamespace(id="1b69906d-7553-4e5c-bac1-8752698a158b")
    for whose, group in ((stranger, "g"), (query, "h")):
        other = Acknowledger(whose, reading.options | {"group": group})
        other.onQueryProgress(event)
        other.close()
        assert reading.pending() == 5
    ours = Acknowledger(query, reading.options)
    ours.onQueryProgress(event)
    ours.close()
    assert reading.pending() == 0


def test_a_server_that_is_away_stops_no_query_and_gets_the_acknowledgement_at_the_end(reading, caplog):
    query = reading.run_once()
    event = SimpleNamespace(progress=query.lastProgress)
    Acknowledger(query, reading.options | {"port": "1", "retries": "0"}).onQueryProgress(event)
    assert (
        "batch 0 is not acknowledged yet: [REDIS_STREAMS.CONNECTION_LOST] no answer from the Redis server"
        in caplog.text
    )
    assert reading.pending() == 5
    assert Acknowledger(query, reading.options).settle(reading.folder / "_checkpoint") == 0
    assert reading.pending() == 0
