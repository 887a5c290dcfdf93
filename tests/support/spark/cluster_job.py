"""What spark-submit runs on a cluster: a stream is read by several executors, and goes into another stream once.

spark-submit … cluster_job.py PORT CHECKPOINT RESULT
"""

import json
import os
import sys
from pathlib import Path

import rillet.pipeline


def main(port: str, checkpoint: str, result: Path) -> None:
    spark = rillet.pipeline.session("orders")
    entries = spark.read.format("redis-streams").option("port", port).option("minPartitions", 4)
    typed = entries.schema("id STRING, n BIGINT").load("orders")
    found = {
        "driver": rillet.__file__,
        "executors": spark.sparkContext.parallelize(range(8), 8).map(where).distinct().collect(),
        "sum": typed.agg({"n": "sum"}).collect()[0][0],
        "partitions": typed.rdd.getNumPartitions(),
    }
    query = (
        spark.readStream.format("redis-streams")
        .options(port=port, streams="orders", startingOffsets="earliest", maxRowsPerTrigger="400")
        .schema("id STRING, n BIGINT")
        .load()
        .writeStream.format("redis-streams")
        .options(port=port, stream="copy", checkpointLocation=checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    result.write_text(json.dumps(found), encoding="utf-8")
    spark.stop()


def where(_number: int) -> tuple[str, int]:
    """Of the executor that runs this: where it has Rillet from, and the process that all its Python workers come from."""
    return rillet.__file__, os.getppid()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
