"""Every mode of the pipeline once, in a Spark of whatever version runs this: ``every_mode.py PORT FOLDER [AOF FOLDER]``.

Prints JSON: what each mode read and wrote. A program of its own, as another version of PySpark needs an environment of its own.
"""

import json
import sys
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as f

import rillet.pipeline
from rillet.pipeline.redis.connection import Connection
from rillet.pipeline.redis.options import Endpoint

QUICK = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.master": "local[1]",
    "spark.sql.session.timeZone": "Europe/Amsterdam",
}


def main(port: str, place: str) -> None:
    folder = Path(place)
    redis = Connection(Endpoint(port=int(port)))
    spark = rillet.pipeline.session("every-mode", quiet=True, **QUICK, **{"spark.local.dir": place})
    found = {"version": spark.version}

    def add(first, last):
        for n in range(first, last + 1):
            redis.call("XADD", "orders", f"{n}-0", "n", n, "at", f"2026-07-01 12:00:{n % 60:02}")

    def reader(way, **options):
        given = {"port": port, "streams": "orders"} | {name: str(value) for name, value in options.items()}
        return way.format("redis-streams").options(**given)

    def run(frame, name, trigger, more=None):
        """Run one query; return the ids of each batch. `more` is done once all is read, and read as well."""
        batches = {}

        def keep(batch, number):
            batches[number] = [row.id for row in batch.collect()]

        writer = frame.writeStream.foreachBatch(keep).trigger(**trigger)
        supervised(writer, name, trigger)
        if more is not None:
            more()
            supervised(writer, name, trigger)
        return [ids for ids in batches.values() if ids]

    def supervised(writer, name, trigger):
        """Start a query again where a Python worker took longer than Spark's ten seconds to start."""
        for _ in range(30):
            query = writer.option("checkpointLocation", str(folder / name)).start()
            try:
                if "availableNow" in trigger:
                    query.awaitTermination()
                else:
                    query.processAllAvailable()
            except StreamingQueryException as error:
                if "connect back" not in str(error):
                    raise
            else:
                return
            finally:
                query.stop()
        raise AssertionError("no Python worker starts")

    def forget_last_commit(name):
        """As if Spark had died before it wrote its commit log."""
        commits = folder / name / "commits"
        last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
        (commits / str(last)).unlink()
        (commits / f".{last}.crc").unlink()

    add(1, 20)
    schema = "id STRING, ts TIMESTAMP, n BIGINT, at TIMESTAMP"
    frame = reader(spark.read).schema(schema).load()
    found["batch"] = [
        frame.count(),
        frame.agg(f.sum("n")).first()[0],
        frame.agg(f.max("at").cast("long")).first()[0],
    ]
    found["some"] = [row.id for row in frame.where("ts > timestamp_millis(17)").collect()]
    found["default"] = [
        bytes(row.fields[0].value).decode() for row in reader(spark.read).load().limit(2).collect()
    ]

    often, once = {"processingTime": "0 seconds"}, {"availableNow": True}
    ranged = reader(spark.readStream, startingOffsets="earliest", maxRowsPerTrigger=8).schema(schema).load()
    found["range"] = run(ranged, "range", often, lambda: add(21, 25))
    add(26, 30)
    forget_last_commit("range")
    found["range again"] = run(ranged, "range", often)
    whole = reader(spark.readStream, startingOffsets="earliest").schema(schema).load()
    found["range once"] = run(whole, "once", once)
    add(31, 33)
    found["range once more"] = run(whole, "once", once)

    grouped = reader(
        spark.readStream, mode="group", group="g", startingOffsets="earliest", maxRowsPerTrigger=20
    )
    grouped = grouped.schema(schema).load()
    found["group"] = run(grouped, "group", often, lambda: add(34, 36))
    forget_last_commit("group")
    add(37, 38)
    found["group again"] = run(grouped, "group", often)
    found["group once"] = run(grouped, "group", once)
    found["pending"] = redis.call("XPENDING", "orders", "g")[0]

    sinking = whole.select("n", "at", f.array(f.struct("n")).alias("all")).writeStream.format("redis-streams")
    sinking = sinking.options(port=port, stream="out")
    supervised(sinking, "sink", often)
    add(39, 40)
    supervised(sinking, "sink", often)
    entries = redis.call("XRANGE", "out", "-", "+")
    found["sink"] = [len(entries), *[word.decode() for word in entries[-1][1]]]
    frame.limit(5).select("n").write.format("redis-streams").options(port=port, stream="saved").mode(
        "append"
    ).save()
    found["saved"] = redis.call("XLEN", "saved")

    aof = str(folder / "appendonlydir")
    ledger = spark.read.format("redis-aof").load(aof)
    found["events"] = {
        row.event: row["count"]
        for row in ledger.where("stream = 'orders'").groupBy("event").count().collect()
    }
    followed = {}

    def count(batch, number):
        followed[number] = batch.where("stream = 'orders' and event = 'added'").count()

    following = spark.readStream.format("redis-aof").load(aof).writeStream.foreachBatch(count)
    supervised(following.trigger(**once), "followed", once)
    found["followed"] = sum(followed.values())
    from rillet.pipeline.ledger.spans.views import register

    register(spark, ledger)
    spans = spark.table("ledger_spans").where("`group` = 'g'")
    found["spans"] = [spans.count(), spans.where("ended = 'acked'").count()]
    spark.stop()
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
