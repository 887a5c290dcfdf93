"""What a client of Spark Connect reads, as JSON: batch and stream, streams and ledger.

python connect_reader.py PORT AOF_FOLDER FOLDER
"""

import json
import sys
from pathlib import Path

from rillet.pipeline import session


def main(port: str, aof: str, folder: Path) -> dict[str, object]:
    spark = session(
        "reads through Connect",
        **{
            "spark.remote": "local[2]",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
        },
    )
    found: dict[str, object] = {"session": type(spark).__module__}
    streams = {"port": port, "streams": "orders"}

    entries = spark.read.format("redis-streams").options(**streams)
    found["typed"] = entries.schema("id STRING, n BIGINT").load().agg({"n": "sum"}).collect()[0][0]
    found["some"] = (
        entries.options(startingOffsets="10-0", endingOffsets="13-0").load().toArrow()["id"].to_pylist()
    )
    ledger = spark.read.format("redis-aof").load(aof)
    found["events"] = {row["event"]: row["count"] for row in ledger.groupBy("event").count().collect()}

    def drain(source, name):
        query = source.writeStream.format("parquet").trigger(availableNow=True)
        query = query.option("checkpointLocation", str(folder / f"{name}-checkpoint")).start(
            str(folder / name)
        )
        assert query.awaitTermination(120)
        assert query.exception() is None
        return spark.read.parquet(str(folder / name)).count()

    reader = spark.readStream.format("redis-streams").options(**streams, startingOffsets="earliest")
    found["streamed"] = [drain(reader.load(), "entries"), drain(reader.load(), "entries")]
    found["followed"] = drain(spark.readStream.format("redis-aof").load(aof), "ledger")
    spark.stop()
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))))
