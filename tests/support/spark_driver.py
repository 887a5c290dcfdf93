"""Four streaming queries in one driver, for others to kill: range and group mode, each to Parquet and to a stream.

    python spark_driver.py PORT FOLDER

It prints `ready` when Spark runs, and goes on until it is killed.
"""

from __future__ import annotations

import itertools
import sys
import time
from pathlib import Path

from rillet.pipeline import session

SOURCES = {
    "range": {},
    "group": {"mode": "group", "group": "g", "consumer": "driver", "claimMinIdleMs": "0"},
}
# A query that ends for these reasons is started again, as whoever runs it in earnest has it done. Spark gives a Python
# process ten seconds to start, which a busy machine may not manage; and one that was killed it may or may not replace.
NO_FAULT_OF_OURS = ("failed to connect back", "Python worker exited unexpectedly")
SINKS = ("parquet", "stream")


def main(port: str, folder: Path) -> None:
    spark = session(
        "to be killed",
        **{
            "spark.master": "local[2,8]",
            "spark.driver.memory": "768m",
            "spark.driver.extraJavaOptions": f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dderby.system.home={folder}",
            "spark.local.dir": str(folder / "local"),
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
        },
    )
    spark.sparkContext.setLogLevel("ERROR")
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    queries = {}
    for pair in itertools.product(SOURCES, SINKS):
        queries[pair] = start(spark, port, folder, *pair)
        # One after the other: each starts Python processes.
        while queries[pair].lastProgress is None and queries[pair].exception() is None:
            time.sleep(0.1)
    while True:
        time.sleep(0.1)
        for pair, query in queries.items():
            error = query.exception()
            if error is None:
                continue
            if not any(reason in str(error) for reason in NO_FAULT_OF_OURS):
                raise error
            queries[pair] = start(spark, port, folder, *pair)


def start(spark, port, folder, source, sink):
    name = f"{source}-{sink}"
    given = {
        "port": port,
        "streams": f"in-{name}",
        "startingOffsets": "earliest",
        "maxRowsPerTrigger": "1000",
    }
    frame = spark.readStream.format("redis-streams").options(**given, **SOURCES[source]).load()
    writer = frame.selectExpr("id as source", "cast(fields[0].value as string) as n").writeStream
    if sink == "parquet":
        writer = writer.format("parquet").option("path", str(folder / name))
    else:
        chunks = {"chunkRows": "40", "inlineBytes": "1000"}  # several transactions a batch, some rows staged
        writer = writer.format("redis-streams").options(port=port, stream=f"out-{name}", **chunks)
    return writer.option("checkpointLocation", str(folder / f"{name}-checkpoint")).queryName(name).start()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
