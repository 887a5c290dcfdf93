"""Bronze: what came, as it came. Two streaming tables that go on where the last run ended."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

import rillet.pipeline

spark = SparkSession.active()
rillet.pipeline.register(spark)


@dp.table(comment="The entries of the streams, fields as they are")
def bronze_entries() -> DataFrame:
    """Entries of ``spark.rillet.streams`` on ``spark.rillet.host``."""
    return (
        spark.readStream.format("redis-streams")
        .option("host", spark.conf.get("spark.rillet.host"))
        .option("port", spark.conf.get("spark.rillet.port"))
        .option("streams", spark.conf.get("spark.rillet.streams"))
        .option("startingOffsets", "earliest")
        .load()
    )


@dp.table(comment="The delivery ledger, one row an event")
def bronze_events() -> DataFrame:
    """Events of the append-only folder ``spark.rillet.aof``."""
    return spark.readStream.format("redis-aof").load(spark.conf.get("spark.rillet.aof"))
