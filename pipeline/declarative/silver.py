"""Silver: typed, with times, and without the events of consumers and keys."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

spark = SparkSession.active()


@dp.table(comment="Entries with their day, fields as text by name (of equal names the last)")
def silver_entries() -> DataFrame:
    """A place to pick the columns of one's own messages: ``values['amount']``."""
    pairs = f.transform(
        "fields",
        lambda pair: f.struct(pair["name"].alias("name"), pair["value"].cast("string").alias("value")),
    )
    return spark.readStream.table("bronze_entries").select(
        "stream",
        "id",
        "ts",
        f.to_date("ts").alias("day"),
        f.aggregate(
            pairs,
            f.create_map().cast("map<string,string>"),
            lambda values, pair: f.map_concat(
                f.map_filter(values, lambda name, _: name != pair["name"]),
                f.map_from_entries(f.array(pair)),
            ),
        ).alias("values"),
    )


@dp.table(comment="Deliveries, claims and acknowledgements with their time")
def silver_deliveries() -> DataFrame:
    """What happened to messages of groups; what was found in a base is left out."""
    events = spark.readStream.table("bronze_events")
    return events.where("event in ('delivered', 'claimed', 'acked', 'nacked') and ordinal >= 0").select(
        "db", "stream", "group", "entry_id", "consumer", "event", "retry_count",
        f.timestamp_millis(f.coalesce("clock_ms", "at_ms")).alias("at"),
        f.timestamp_millis("at_ms").alias("delivered_at"),
    )  # fmt: skip
