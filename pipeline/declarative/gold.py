"""Gold: what people look at. Materialized views over all that silver has."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

spark = SparkSession.active()


@dp.materialized_view(comment="Entries a day and stream")
def gold_entries() -> DataFrame:
    """How much came in."""
    return spark.read.table("silver_entries").groupBy("stream", "day").count()


@dp.materialized_view(
    comment="Per group: messages, deliveries, redelivery rate, time from first delivery to acknowledgement"
)
def gold_groups() -> DataFrame:
    """How well it went; ``rillet pipeline report`` shows more, and exactly."""
    handed = f.col("event").isin("delivered", "claimed")
    of_message = ["db", "stream", "group", "entry_id"]
    messages = (
        spark.read.table("silver_deliveries")
        .groupBy(*of_message)
        .agg(
            f.count_if(handed).alias("deliveries"),
            f.min(f.when(handed, f.col("delivered_at"))).alias("first"),
            f.max(f.when(f.col("event") == "acked", f.col("at"))).alias("acked"),
        )
    )
    took = (f.unix_millis("acked") - f.unix_millis("first")).cast("double")
    return messages.groupBy("db", "stream", "group").agg(
        f.count("*").alias("messages"),
        f.sum("deliveries").alias("deliveries"),
        (f.count_if(f.col("deliveries") > 1) / f.count("*")).alias("redelivered_share"),
        f.count("acked").alias("acked"),
        f.percentile(took, 0.5).alias("ack_ms_p50"),
        f.percentile(took, 0.99).alias("ack_ms_p99"),
    )
