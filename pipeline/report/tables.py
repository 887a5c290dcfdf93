"""Compute the tables of a report: Spark SQL over two Parquet tables, ``ledger`` (rows of the files) and ``spans``.

Times are Unix milliseconds of the server. If the files have no annotations (``aof-timestamp-enabled``), a row gets the
time of the last delivery or entry before it in its stream. That is good enough for charts, and the page says so.
Percentiles are exact.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ...console.style import POISON_DELIVERIES
from ..ledger.errors import LedgerError
from ..ledger.spans import views
from ..times import format_time

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

REPLAYED: Final = "replayed"  # what the names of the ledger's own views begin with

# The ms part of an id is often a time, but not in 1-0 or 5-0: accept 2001 to 2286.
_IS_TIME: Final = "between 1000000000000 and 9999999999999"

EVENTS: Final = f"""
    SELECT *, if(ordinal < 0, null, coalesce(clock_ms, last_value(
        if(event in ('added', 'delivered', 'claimed') and ordinal >= 0 and at_ms {_IS_TIME}, at_ms, null), true)
        OVER (PARTITION BY db, stream ORDER BY file_seq, ordinal))) AS ms
    FROM ledger
"""  # noqa: S608 - constants of this file

BOUNDS: Final = """
    SELECT count(*) AS events, coalesce(min(ms), 0) AS from_ms, coalesce(max(ms), 0) AS until_ms,
        count_if(ordinal >= 0) AS happened, count_if(ordinal >= 0 and clock_ms is not null) AS timed,
        coalesce(bool_or(clock_ms % 1000 <> 0), false) AS precise,
        max(struct(file_seq, ordinal)) AS last
    FROM events
"""

# The last row at or before a moment. Rows without a time, at the beginning, precede all moments.
POSITION: Final = """
    SELECT max(struct(file_seq, ordinal)) AS last FROM events WHERE coalesce(ms, 0) <= {at}
"""

# A delivery is a span that a consumer held. It lasts until the event that ended it.
HELD: Final = """
    SELECT *,
        if(began = 'first', at_ms, coalesce(from_clock_ms, at_ms)) AS began_ms,
        until_clock_ms AS ended_ms,
        if(retry_count > 1000000000000000000, null, retry_count) AS deliveries,
        sum(if(began in ('first', 'found'), 1, 0)) OVER (
            PARTITION BY db, stream, `group`, entry_id ORDER BY from_seq, from_ordinal) AS generation
    FROM spans
"""

# A message of a group, from its first delivery to its end.
MESSAGES: Final = f"""
    SELECT db, stream, `group`, entry_id, generation,
        min(began_ms) AS first_ms, max(ended_ms) AS ended_ms,
        max_by(ended, struct(from_seq, from_ordinal)) AS ended,
        max_by(consumer, struct(from_seq, from_ordinal)) AS consumer,
        max_by(began_ms, struct(from_seq, from_ordinal)) AS last_ms,
        max(greatest(coalesce(deliveries, 0), 1)) AS deliveries,
        count(consumer) AS handed, count(distinct consumer) AS consumers,
        concat_ws(' → ', array_compact(transform(array_sort(collect_list(struct(from_seq, from_ordinal, consumer))),
            each -> each.consumer))) AS path,
        bool_or(began = 'nacked') AS nacked,
        max(if(added_ms {_IS_TIME}, added_ms, null)) AS added_ms
    FROM held GROUP BY db, stream, `group`, entry_id, generation
"""  # noqa: S608 - constants of this file

SHOWN: Final = 25  # rows of a table on the page
_FIRST_STEPS, _LAST_STEPS = 5, 20  # of a message's history

_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000
_STEPS: Final = (
    *(n * 10**power for power in range(3) for n in (1, 2, 5)),
    *(n * _SECOND for n in (1, 2, 5, 10, 15, 30)),
    *(n * _MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * _HOUR for n in (1, 2, 3, 6, 12)),
)

_OF_GROUP: Final = "db, stream, `group`"

_PERCENTILES: Final = """
    count({0}) AS `{1}_count`, percentile({0}, 0.5) AS `{1}_p50`, percentile({0}, 0.9) AS `{1}_p90`,
    percentile({0}, 0.99) AS `{1}_p99`, max({0}) AS `{1}_max`
"""


@dataclass(frozen=True)
class Settings:
    """The settings of a report that the user chose."""

    # The moment for which pending entries are listed, in Unix milliseconds; None: the end of the ledger.
    at_ms: int | None = None
    poison_from: int = POISON_DELIVERIES  # a message with this many deliveries or more is poison
    abandoned_ms: int = 60_000  # a consumer that is silent for this many milliseconds is abandoned
    points: int = 160  # the number of points in curves over time


@dataclass(frozen=True)
class Bounds:
    """The times that the ledger covers, and how precise they are."""

    events: int
    from_ms: int
    until_ms: int
    is_timed: bool  # whether all but a few rows, at the beginning, have their own time
    precise: bool  # whether the annotations have milliseconds
    at_ms: int  # the moment of the pending lists
    position: tuple[int, int]  # the last row that the pending lists include
    step_ms: int  # the width of a point in curves over time

    @property
    def last_point(self) -> int:
        """The number of the last point in curves over time; the first one is 0."""
        return (self.until_ms - self.from_ms) // self.step_ms

    def outside(self) -> str:
        """Return a remark for the page if the chosen moment is before the first event or after the last one; else ""."""
        moment, first, last = (format_time(ms) for ms in (self.at_ms, self.from_ms, self.until_ms))
        if self.at_ms < self.from_ms:
            return (
                f"{moment} is before the first event, {first}: what was there before the file began is shown"
            )
        if self.at_ms > self.until_ms:
            return f"{moment} is after the last event, {last}: what was pending then is shown"
        return ""


def define_events(spark: SparkSession, settings: Settings) -> Bounds:
    """Create the view ``events``, the rows of ``ledger`` with a time ``ms`` for each, and return its bounds.

    The bounds are the times that the ledger covers, the moment of the pending lists (``settings.at_ms``) and the width of
    a point in curves (from ``settings.points``).

    Raises LedgerError: the ledger is empty.
    """
    spark.sql(EVENTS).createOrReplaceTempView("events")
    found = spark.sql(BOUNDS).collect()[0]
    if not found.events:
        raise LedgerError("the append-only file holds nothing about streams")
    at_ms = found.until_ms if settings.at_ms is None else settings.at_ms
    last = found.last
    if settings.at_ms is not None:
        last = spark.sql(POSITION.format(at=settings.at_ms)).collect()[0].last
    position = (-1, 0) if last is None else (last.file_seq, last.ordinal)
    least = (found.until_ms - found.from_ms + 1) / settings.points
    step = next((step for step in _STEPS if step >= least), None) or -(-int(least) // _DAY) * _DAY
    return Bounds(
        found.events, found.from_ms, found.until_ms, found.timed >= 0.99 * found.happened, found.precise,
        at_ms, position, step,
    )  # fmt: skip


def define(spark: SparkSession) -> None:
    """Create the views ``held`` and ``messages`` of the table ``spans``; the ledger's own views then read it, too."""
    spark.table("spans").createOrReplaceTempView(f"{REPLAYED}_spans")
    spark.sql(HELD).createOrReplaceTempView("held")
    spark.sql(MESSAGES).createOrReplaceTempView("messages")


def groups(spark: SparkSession, _: Bounds, __: Settings) -> DataFrame:
    """Return the table of groups: messages, deliveries, redeliveries, final states, times to acknowledgement."""
    first = _PERCENTILES.format("if(ended = 'acked', greatest(ended_ms - first_ms, 0), null)", "ack")
    whole = _PERCENTILES.format("if(ended = 'acked', greatest(ended_ms - added_ms, 0), null)", "total")
    return spark.sql(f"""
        SELECT {_OF_GROUP}, count(*) AS messages, sum(handed) AS deliveries,
            sum(greatest(handed - 1, 0)) AS redeliveries, count_if(handed > 1) AS redelivered,
            sum(greatest(handed - 1, 0)) / sum(handed) AS redelivery_rate,
            count_if(ended = 'acked') AS acked, count_if(ended is null) AS pending,
            count_if(ended is not null and ended <> 'acked') AS lost, max(deliveries) AS most_deliveries,
            {first}, {whole}
        FROM messages GROUP BY {_OF_GROUP} ORDER BY messages DESC, {_OF_GROUP}
    """)  # noqa: S608 - constants of this file


def times(spark: SparkSession, _: Bounds, __: Settings) -> DataFrame:
    """Return the table of times to acknowledgement: percentiles per group, in ms since the first delivery."""
    marks = [each / 200 for each in range(1, 200)] + [0.999, 1.0]
    return spark.sql(f"""
        SELECT {_OF_GROUP}, explode(arrays_zip(marks, took)) AS each FROM (
            SELECT {_OF_GROUP}, array({", ".join(f"{mark}D" for mark in marks)}) AS marks,
                percentile(greatest(ended_ms - first_ms, 0), array({", ".join(map(str, marks))})) AS took
            FROM messages WHERE ended = 'acked' AND ended_ms is not null AND first_ms is not null
            GROUP BY {_OF_GROUP})
    """).selectExpr("db", "stream", "`group`", "each.marks AS share", "each.took AS ms")  # noqa: S608 - as above


def repeats(spark: SparkSession, _: Bounds, __: Settings) -> DataFrame:
    """Return per group how many messages were delivered once, twice, and so on."""
    return spark.sql(f"""
        SELECT {_OF_GROUP}, greatest(handed, deliveries) AS deliveries, count(*) AS messages FROM messages
        GROUP BY ALL ORDER BY {_OF_GROUP}, deliveries
    """)  # noqa: S608 - as above


def poison(spark: SparkSession, _: Bounds, settings: Settings) -> DataFrame:
    """Return the messages with at least ``settings.poison_from`` deliveries, the most delivered first."""
    return spark.sql(f"""
        SELECT {_OF_GROUP}, entry_id, greatest(handed, deliveries) AS deliveries, consumers, path, consumer,
            coalesce(ended, 'pending') AS state, first_ms, last_ms, ended_ms
        FROM messages WHERE greatest(handed, deliveries) >= {settings.poison_from}
        ORDER BY deliveries DESC, ended is null DESC, first_ms
    """)  # noqa: S608 - as above


def consumers(spark: SparkSession, bounds: Bounds, _: Settings) -> DataFrame:
    """Return one row per consumer: deliveries, claims, acknowledgements, lost entries, times, and when it was last seen."""
    took = _PERCENTILES.format("if(ended = 'acked', greatest(ended_ms - began_ms, 0), null)", "ack")
    return spark.sql(f"""
        SELECT {_OF_GROUP}, consumer, count(*) AS deliveries, count_if(began = 'first') AS first,
            count_if(began = 'claimed') AS taken_over, count_if(began = 'repeated') AS repeated,
            count_if(ended = 'acked') AS acked, count_if(ended = 'claimed') AS taken_away,
            count_if(ended = 'nacked') AS given_back, count_if(ended is null) AS pending,
            count_if(ended not in ('acked', 'claimed', 'nacked', 'repeated')) AS lost, {took},
            max(greatest(began_ms, if(ended in ('acked', 'nacked', 'repeated'), ended_ms, null))) AS last_seen_ms,
            {bounds.until_ms} - last_seen_ms AS silent_ms
        FROM held WHERE consumer is not null
        GROUP BY {_OF_GROUP}, consumer ORDER BY deliveries DESC, {_OF_GROUP}, consumer
    """)  # noqa: S608 - as above


def abandoned(spark: SparkSession, _: Bounds, settings: Settings) -> DataFrame:
    """Return the consumers silent for ``settings.abandoned_ms`` that had pending entries, or had them taken over."""
    return spark.sql(f"""
        SELECT {_OF_GROUP}, consumer, pending, taken_away, last_seen_ms, silent_ms FROM consumers
        WHERE silent_ms >= {settings.abandoned_ms} AND pending + taken_away > 0
        ORDER BY pending DESC, taken_away DESC, silent_ms DESC
    """)  # noqa: S608 - as above


def pending(spark: SparkSession, bounds: Bounds, _: Settings) -> DataFrame:
    """Return the entries pending at the chosen moment (``bounds.position``), with the columns of XPENDING and more."""
    from pyspark.sql.functions import expr

    found = views.pending_at(spark, bounds.position, prefix=REPLAYED)
    order = [f"cast(substring_index(entry_id, '-', {part}) AS decimal(20))" for part in (1, -1)]
    return found.selectExpr(
        "db", "stream", "`group`", "entry_id", "consumer", "retry_count AS deliveries", "at_ms AS delivered_ms",
        f"greatest({bounds.at_ms} - at_ms, 0) AS idle_ms", "added_ms",
    ).orderBy("db", "stream", "group", *map(expr, order))  # fmt: skip


def histories(spark: SparkSession, entry_ids: Iterable[str]) -> DataFrame:
    """Return the deliveries of some entries, in any stream and group; of many deliveries only the first and the last ones.

    ``entry_ids``: in canonical form: they become part of the query.
    """
    listed = ", ".join(f"'{entry_id}'" for entry_id in sorted(entry_ids)) or "''"
    return spark.sql(f"""
        WITH steps AS (
            SELECT {_OF_GROUP}, entry_id, consumer, began, began_ms, ended, ended_ms, deliveries, added_ms,
                row_number() OVER (PARTITION BY {_OF_GROUP}, entry_id ORDER BY from_seq, from_ordinal) AS step,
                count(*) OVER (PARTITION BY {_OF_GROUP}, entry_id) AS steps
            FROM held WHERE entry_id IN ({listed}))
        SELECT * FROM steps WHERE step <= {_FIRST_STEPS} OR step > steps - {_LAST_STEPS}
        ORDER BY {_OF_GROUP}, entry_id, step
    """)  # noqa: S608 - as above


def traffic(spark: SparkSession, bounds: Bounds, _: Settings) -> DataFrame:
    """Return the table of traffic over time: entries added, first deliveries, redeliveries, acknowledgements."""
    point = _point(bounds)
    return spark.sql(f"""
        WITH counted AS (
            -- A count is one row in one partition: where all else is in one, too, nothing is shuffled.
            SELECT explode(sequence(0, {bounds.last_point})) AS point, null AS what FROM (SELECT count(*) FROM spans)
            UNION ALL SELECT {point.format("ms")}, 'added' FROM events WHERE event = 'added' AND ms is not null
            UNION ALL SELECT {point.format("began_ms")}, if(began = 'first', 'delivered', 'redelivered') FROM held
                WHERE began in ('first', 'claimed', 'repeated') AND consumer is not null
            UNION ALL SELECT {point.format("ended_ms")}, 'acked' FROM held WHERE ended = 'acked')
        SELECT {bounds.from_ms} + point * {bounds.step_ms}L AS ms, count_if(what = 'added') AS added,
            count_if(what = 'delivered') AS delivered, count_if(what = 'redelivered') AS redelivered,
            count_if(what = 'acked') AS acked
        FROM counted WHERE point BETWEEN 0 AND {bounds.last_point} GROUP BY point ORDER BY point
    """)  # noqa: S608 - as above


def lag(spark: SparkSession, bounds: Bounds, _: Settings) -> DataFrame:
    """Return the table of lag over time: per group and point, the undelivered and pending entries at its end.

    Entries are numbered in the order in which they were added, from 1 again when their key or database is deleted. A
    group's position is the number of the last entry that was delivered to it, or that it was set to. Entries deleted
    before delivery count until the group has passed them.
    """
    point, whole = _point(bounds), views.WHOLE_DATABASES.format(rows="events")
    return spark.sql(f"""
        WITH keys AS (SELECT DISTINCT db, stream FROM events WHERE `group` is not null),
        rows AS (
            SELECT db, stream, `group`, event, entry_id, last_id, ms, file_seq, ordinal FROM events
            WHERE stream is not null AND event in
                ('added', 'delivered', 'group-created', 'group-set', 'group-destroyed', 'key-deleted', 'key-copied')
            UNION ALL
            SELECT keys.db, keys.stream, null, event, null, null, ms, file_seq, ordinal FROM {whole}),
        generations AS (
            -- Without annotations a whole database has no time of its own.
            SELECT *, coalesce({point.format("last_value(ms, true) OVER here")}, 0) AS point,
                sum(if(event in ('key-deleted', 'key-copied', 'databases-swapped'), 1, 0)) OVER here AS generation FROM rows
            WINDOW here AS (PARTITION BY db, stream ORDER BY file_seq, ordinal)),
        numbered AS (
            SELECT *, sum(if(event = 'added', 1, 0)) OVER (
                PARTITION BY db, stream, generation ORDER BY file_seq, ordinal) AS number,
                if(event in ('added', 'delivered'), entry_id, last_id) AS reached_id FROM generations),
        found AS (
            SELECT *, max(if(event = 'added', number, null)) OVER (
                PARTITION BY db, stream, generation, reached_id) AS found FROM numbered),
        steps AS (
            SELECT *, CASE WHEN `group` is null THEN null WHEN last_id = '$' THEN number
                WHEN event <> 'delivered' AND last_id = '0-0' THEN 0 ELSE found END AS reached FROM found),
        facts AS (
            SELECT {_OF_GROUP}, generation, point, max(if(event = 'added', number, null)) AS added,
                max_by(reached, if(reached is null, null, struct(file_seq, ordinal))) AS reached,
                max_by(if(`group` is null, null, event = 'group-destroyed'), struct(file_seq, ordinal)) AS gone
            FROM steps GROUP BY ALL),
        -- What happened to a stream concerns all groups that it ever has, and so does that it is there.
        known AS (
            SELECT *, collect_set(`group`) OVER (PARTITION BY db, stream) AS all_groups,
                row_number() OVER (PARTITION BY db, stream, generation ORDER BY point) = 1 AS begins FROM facts),
        of_groups AS (
            SELECT *, explode(if(begins or `group` is null, all_groups, array(`group`))) AS each FROM known),
        merged AS (
            SELECT db, stream, each AS `group`, generation, point, max(added) AS added,
                max(if(each = `group`, reached, null)) AS reached, max(if(each = `group`, gone, null)) AS gone
            FROM of_groups GROUP BY db, stream, each, generation, point),
        filled AS (
            SELECT {_OF_GROUP}, generation, point, last_value(added, true) OVER here AS added,
                last_value(reached, true) OVER here AS reached, last_value(gone, true) OVER here AS gone,
                max(generation) OVER (PARTITION BY {_OF_GROUP} ORDER BY point) AS generation_then FROM merged
            WINDOW here AS (PARTITION BY {_OF_GROUP}, generation ORDER BY point)),
        lasting AS (
            SELECT *, lead(point, 1, {bounds.last_point + 1}) OVER (
                PARTITION BY {_OF_GROUP} ORDER BY point) - 1 AS until FROM filled WHERE generation = generation_then),
        waiting AS (
            SELECT {_OF_GROUP}, explode(sequence(point, until)) AS point, added, reached, gone FROM lasting),
        moves AS (
            SELECT {_OF_GROUP}, greatest(coalesce({point.format("began_ms")}, 0), 0) AS point, 1 AS move FROM held
            UNION ALL SELECT {_OF_GROUP}, coalesce({point.format("ended_ms")}, 0), -1 FROM held WHERE ended is not null),
        moved AS (SELECT {_OF_GROUP}, point, sum(move) AS move FROM moves GROUP BY ALL)
        SELECT {_OF_GROUP}, {bounds.from_ms} + point * {bounds.step_ms}L AS ms,
            if(gone or reached is null, 0, greatest(coalesce(added, 0) - reached, 0)) AS waiting,
            greatest(coalesce(sum(move) OVER (PARTITION BY {_OF_GROUP} ORDER BY point), 0), 0) AS pending
        FROM waiting LEFT JOIN moved USING (db, stream, `group`, point)
        ORDER BY {_OF_GROUP}, point
    """)  # noqa: S608 - as above


def sums(spark: SparkSession) -> dict[str, DataFrame]:
    """Return three frames by name.

    ``whole`` has the totals of all messages, ``entries`` the number of added entries, and ``owners`` the pending
    entries of each consumer, most entries first.
    """
    ends = "percentile(if(ended = 'acked', greatest(ended_ms - first_ms, 0), null), {0})"
    return {
        "whole": spark.sql(f"""
            SELECT count(*) AS messages, coalesce(sum(handed), 0) AS deliveries, count_if(handed > 1) AS redelivered,
                coalesce(sum(greatest(handed - 1, 0)), 0) AS redeliveries,
                count_if(ended = 'acked') AS acked, count_if(ended is null) AS pending,
                {ends.format(0.5)} AS p50, {ends.format(0.99)} AS p99
            FROM messages
        """),  # noqa: S608 - as above
        "entries": spark.sql("SELECT count_if(event = 'added' and ordinal >= 0) AS added FROM events"),
        "owners": spark.sql("""
            SELECT db, stream, `group`, consumer, count(*) AS messages, max(deliveries) AS deliveries,
                max(idle_ms) AS oldest_ms, min(idle_ms) AS newest_ms
            FROM pending GROUP BY db, stream, `group`, consumer ORDER BY messages DESC, oldest_ms DESC LIMIT 25
        """),
    }


def summed(rows: dict[str, list[dict[str, Any]]], bounds: Bounds) -> dict[str, Any]:
    """Return the collected rows of ``sums`` as the dict of values for the page."""
    return {
        **rows["whole"][0], **rows["entries"][0], "owners": rows["owners"],
        "span_ms": bounds.until_ms - bounds.from_ms,
    }  # fmt: skip


def _point(bounds: Bounds) -> str:
    """Return the index of the point in time that a time belongs to."""
    return f"cast(floor(({{}} - {bounds.from_ms}) / {bounds.step_ms}) AS int)"


# In the order of creation: a later table may read an earlier one by its name.
TABLES: Final = {
    each.__name__: each
    for each in (groups, times, repeats, poison, consumers, abandoned, pending, traffic, lag)
}
