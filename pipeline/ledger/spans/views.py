"""Questions to a ledger in SQL: what was pending when, what was delivered more than once, how long things took.

``register`` makes temporary views over a frame of ``redis-aof`` (or over its rows kept elsewhere):

- ``<prefix>``: the rows.
- ``<prefix>_spans``: which consumer held what from when to when (``schema.SPAN_DDL``). All else rests on it; CACHE TABLE it.
- ``<prefix>_entries``: one row for each entry and group: deliveries, redeliveries, consumers, when it was delivered
  first and acknowledged, and how long that took (``to_ack_ms``; null where the file has no annotations).
- ``<prefix>_redelivery``: the same for each group.
- ``<prefix>_lag``: at each move of a group: entries added, entries read, and the difference; null for a stream that was
  renamed, copied or swapped here, up to its next XSETID.

``pending_at`` is the pending list of all groups at any moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from ..schema import NAMES, SPAN_DDL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.udtf import UserDefinedTableFunction

_FUNCTION: Final = "rillet_spans"
_COLUMNS: Final = ", ".join(f"`{name}`" for name in NAMES)

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

# Rows about whole databases, and with each of them those of ``keys`` that it is about.
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
    """Make the views. Keys that were copied, moved or renamed are looked for at once: that reads the ledger.

    Args:
        spark: the session.
        ledger: rows with the columns of ``schema``.
        prefix: what the names of the views begin with.
    """
    from pyspark.sql import functions as f

    from ...spark_versions import HAS_ARROW_UDTF
    from .udtf import RowSpans, Spans

    ledger.createOrReplaceTempView(prefix)
    if HAS_ARROW_UDTF:
        function = cast("UserDefinedTableFunction", f.arrow_udtf(Spans, returnType=SPAN_DDL))
    else:
        function = cast("UserDefinedTableFunction", f.udtf(RowSpans, returnType=SPAN_DDL))
    spark.udtf.register(_FUNCTION, function)
    _lines(spark, prefix).createOrReplaceTempView(f"{prefix}_lines")
    for name, query in {
        "spans": f"SELECT * FROM {_FUNCTION}(TABLE({prefix}_lines) PARTITION BY lineage ORDER BY (file_seq, ordinal))",  # noqa: S608 - names of ours
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
    """Return what was pending at a moment: one row for each entry, with its consumer, count and time of delivery.

    Args:
        spark: the session, with the views of this prefix.
        position: just after the row with this (file_seq, ordinal); without moment, where the ledger ends.
        at_ms: just after the last row whose clock is not later.
        prefix: as of ``register``.
    """
    from pyspark.sql import functions as f

    if at_ms is not None:
        found = spark.table(prefix).where(f.col("clock_ms") <= at_ms)
        last = found.agg(f.max(f.struct("file_seq", "ordinal")).alias("last")).first()
        place = None if last is None else last["last"]
        # Before the first of all rows with a clock nothing is known to have happened.
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
    """Return the rows with the lineage that each belongs to: keys that one replay must see together."""
    # Few, as a rule none.
    wide = spark.sql(
        f"SELECT DISTINCT db, stream, event, detail FROM {prefix} "  # noqa: S608 - names of ours
        "WHERE event IN ('key-copied', 'databases-swapped')"
    ).collect()
    databases, keys = lineages([tuple(row) for row in wide])
    same = " ".join(f"WHEN {db} THEN {to}" for db, to in databases.items())
    plain = f"concat({f'CASE db {same} ELSE db END' if same else 'db'}, ' ', stream)"
    mapping = spark.createDataFrame(sorted(keys.items()), "own string, joined string")
    mapping.createOrReplaceTempView(f"{prefix}_copied")
    named = f"SELECT {_COLUMNS}, {plain} AS lineage FROM {prefix} WHERE stream IS NOT NULL"  # noqa: S608
    if keys:
        named = (
            f"SELECT {_COLUMNS}, coalesce(joined, lineage) AS lineage FROM ({named}) "  # noqa: S608
            f"LEFT JOIN {prefix}_copied ON lineage = own"
        )
    spark.sql(named).createOrReplaceTempView(f"{prefix}_named")
    # What concerns whole databases concerns every lineage.
    return spark.sql(
        f"SELECT * FROM {prefix}_named UNION ALL SELECT {_COLUMNS}, lineage FROM {prefix} "  # noqa: S608
        f"CROSS JOIN (SELECT DISTINCT lineage FROM {prefix}_named) WHERE stream IS NULL"
    )


def lineages(rows: list[tuple[int, str | None, str, str]]) -> tuple[dict[int, int], dict[str, str]]:
    """Return which databases, and which keys, have ever been one another's.

    Args:
        rows: db, stream, event and detail of the rows that say so.

    Returns:
        For each such database the one that stands for all; for each such key, as "<that database> <stream>", the one
        that stands for all.
    """
    databases: dict[int, int] = {}
    keys: dict[str, str] = {}
    for db, _, event, detail in rows:
        if event == "databases-swapped":
            _unite(databases, db, int(detail))
    for db, stream, event, detail in rows:
        if event == "key-copied":
            other, _, source = detail.partition(" ")
            _unite(keys, f"{_top(databases, db)} {stream}", f"{_top(databases, int(other))} {source}")
    return {db: _top(databases, db) for db in databases}, {key: _top(keys, key) for key in keys}


def _top(over: dict[Any, Any], each: Any) -> Any:
    while over.get(each, each) != each:
        each = over[each]
    return each


def _unite(over: dict[Any, Any], first: Any, second: Any) -> None:
    top = _top(over, first)
    over.setdefault(top, top)
    over[_top(over, second)] = top
