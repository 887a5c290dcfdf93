"""Ask a ledger in SQL: what was pending when, what was delivered more than once, how long did processing take.

``register`` creates temporary views over a frame of ``redis-aof`` (or over stored rows):

- ``<prefix>``: the rows.
- ``<prefix>_spans``: which consumer held what from when to when (``schema.Span``). The other views read it; CACHE
  TABLE it.
- ``<prefix>_entries``: one row per entry and group: deliveries, redeliveries, consumers, the times of the first
  delivery and of the acknowledgement, and the time between them (``to_ack_ms``; null if the file has no annotations).
- ``<prefix>_redelivery``: the same, summed by group.
- ``<prefix>_lag``: entries added, entries read, and the difference, whenever a group moved. Null for a stream that was
  renamed, copied or swapped, up to its next XSETID.

``pending_at`` returns the pending entries of all groups at any moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..schema import SPAN_DDL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_ENTRIES: Final = """
SELECT db, stream, `group`, entry_id,
       min(added_ms) AS added_ms,
       min_by(at_ms, struct(from_seq, from_ordinal)) AS first_delivered_ms,
       count_if(consumer IS NOT NULL) AS deliveries,
       count_if(began IN ('claimed', 'repeated')) AS redeliveries,
       max(retry_count) AS highest_count,
       count(DISTINCT consumer) AS consumers,
       max_by(consumer, struct(from_seq, from_ordinal)) AS last_consumer,
       max_by(coalesce(ended, 'pending'), struct(from_seq, from_ordinal)) AS outcome,
       max(CASE WHEN ended = 'acked' THEN until_clock_ms END) AS acked_ms,
       max(CASE WHEN ended = 'acked' THEN until_clock_ms END)
           - min_by(at_ms, struct(from_seq, from_ordinal)) AS to_ack_ms
FROM {prefix}_spans
GROUP BY db, stream, `group`, entry_id
"""

_REDELIVERY: Final = """
SELECT db, stream, `group`,
       count(*) AS entries,
       sum(deliveries) AS deliveries,
       sum(redeliveries) AS redeliveries,
       count_if(redeliveries > 0) AS entries_redelivered,
       count_if(redeliveries > 0) / count(*) AS redelivery_rate,
       count_if(outcome = 'acked') AS acked,
       count_if(outcome = 'pending') AS pending,
       percentile_approx(to_ack_ms, array(0.5, 0.9, 0.99)) AS to_ack_ms_p50_p90_p99
FROM {prefix}_entries
GROUP BY db, stream, `group`
"""

# Rows about whole databases, each with the rows of ``keys`` that it affects.
WHOLE_DATABASES: Final = """
    {rows} AS whole
    JOIN keys ON whole.db IS NULL OR keys.db = whole.db
                 OR (event = 'databases-swapped' AND keys.db = cast(whole.detail AS int))
    WHERE whole.stream IS NULL AND event IN ('key-deleted', 'databases-swapped')
"""

_LAG: Final = """
WITH keys AS (
    SELECT DISTINCT db, stream FROM {prefix} WHERE event IN ('group-set', 'group-created')
)
, rows AS (
    SELECT db, stream, `group`, event, retry_count, last_id, clock_ms, file_seq, ordinal FROM {prefix}
    WHERE stream IS NOT NULL
      AND event IN ('added', 'stream-set', 'group-set', 'group-created', 'key-deleted', 'key-copied')
    UNION ALL
    SELECT keys.db, keys.stream, NULL, event, NULL, NULL, clock_ms, file_seq, ordinal FROM {whole_databases}
)
, generations AS (
    SELECT *, count_if(event IN ('key-deleted', 'key-copied', 'databases-swapped')) OVER place AS generation FROM rows
    WINDOW place AS (PARTITION BY db, stream ORDER BY file_seq, ordinal ROWS UNBOUNDED PRECEDING)
)
, counted AS (
    SELECT *, count_if(event = 'added') OVER place AS adds,
           -- What a stream had when it came from elsewhere is in no row of its own.
           CASE WHEN max(event IN ('key-copied', 'databases-swapped')) OVER place THEN NULL ELSE 0 END AS none
    FROM generations
    WINDOW place AS (PARTITION BY db, stream, generation ORDER BY file_seq, ordinal ROWS UNBOUNDED PRECEDING)
)
, known AS (
    SELECT *, adds + coalesce(
                  last_value(CASE WHEN event = 'stream-set' THEN retry_count - adds END, true) OVER place, none
              ) AS entries_added
    FROM counted
    WINDOW place AS (PARTITION BY db, stream, generation ORDER BY file_seq, ordinal ROWS UNBOUNDED PRECEDING)
)
SELECT db, stream, `group`, clock_ms, file_seq, ordinal, last_id,
       entries_added,
       retry_count AS entries_read,
       entries_added - retry_count AS lag
FROM known
WHERE event IN ('group-set', 'group-created') AND retry_count >= 0
"""


def register(spark: SparkSession, ledger: DataFrame, prefix: str = "ledger") -> None:
    """Create the temporary views of a ledger.

    This reads the ledger, to find keys that were copied, moved or renamed.
    """
    from .arrow import replayed

    ledger.createOrReplaceTempView(prefix)
    lines = _lines(spark, prefix).repartition("lineage")
    spans = lines.sortWithinPartitions("lineage", "file_seq", "ordinal").mapInArrow(replayed, SPAN_DDL)
    spans.createOrReplaceTempView(f"{prefix}_spans")
    for name, query in {
        "entries": _ENTRIES.format(prefix=prefix),
        "redelivery": _REDELIVERY.format(prefix=prefix),
        "lag": _LAG.format(prefix=prefix, whole_databases=WHOLE_DATABASES.format(rows=prefix)),
    }.items():
        spark.sql(query).createOrReplaceTempView(f"{prefix}_{name}")


def pending_at(
    spark: SparkSession,
    position: tuple[int, int] | None = None,
    *,
    at_ms: int | None = None,
    prefix: str = "ledger",
) -> DataFrame:
    """Return the entries pending at a moment: one row each, with consumer, delivery count and delivery time.

    Without ``position`` and ``at_ms`` the moment is the end of the ledger.

    Args:
        position: just after the row with this (file_seq, ordinal).
        at_ms: just after the last row whose clock is not later.
    """
    from pyspark.sql import functions as f

    if at_ms is not None:
        found = spark.table(prefix).where(f.col("clock_ms") <= at_ms)
        last = found.agg(f.max(f.struct("file_seq", "ordinal")).alias("last")).first()
        place = None if last is None else last["last"]
        # The moment is before the first row with a clock, so nothing is known to have happened.
        position = (-1, 0) if place is None else (place["file_seq"], place["ordinal"])
    spans = spark.table(f"{prefix}_spans")
    if position is None:
        return spans.where(f.col("ended").isNull())
    here = f.struct(
        f.lit(position[0]).cast("bigint").alias("s"), f.lit(position[1]).cast("bigint").alias("o")
    )
    since = f.struct(f.col("from_seq").alias("s"), f.col("from_ordinal").alias("o"))
    until = f.struct(f.col("until_seq").alias("s"), f.col("until_ordinal").alias("o"))
    return spans.where((since <= here) & (f.col("ended").isNull() | (until > here)))


def _lines(spark: SparkSession, prefix: str) -> DataFrame:
    """Return the rows with their lineage: keys that one replay must see together.

    A key is a lineage of its own, but all keys that were ever renamed, copied, moved or swapped are one.
    """
    from pyspark.sql import functions as f

    wide = spark.sql(
        f"SELECT DISTINCT db, stream, event, detail FROM {prefix} "  # noqa: S608 - names of ours
        "WHERE event IN ('key-copied', 'databases-swapped')"
    ).collect()
    moved = {key for row in wide if row.stream is not None for key in (f"{row.db} {row.stream}", row.detail)}
    swapped = {db for row in wide if row.stream is None for db in (row.db, int(row.detail))}
    ledger = spark.table(prefix)
    named = ledger.where("stream IS NOT NULL").withColumn("lineage", f.concat_ws(" ", "db", "stream"))
    if moved:
        keys = spark.createDataFrame([(key, "") for key in sorted(moved)], "lineage string, joined string")
        named = named.join(keys, "lineage", "left")
        named = named.withColumn("lineage", f.coalesce("joined", "lineage")).drop("joined")
    if swapped:
        is_swapped = f.col("db").isin(*swapped)
        named = named.withColumn("lineage", f.when(is_swapped, "").otherwise(f.col("lineage")))
    # Rows about whole databases belong to every lineage.
    return named.unionByName(ledger.where("stream IS NULL").crossJoin(named.select("lineage").distinct()))
