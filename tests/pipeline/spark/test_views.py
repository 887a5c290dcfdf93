"""The views of a ledger, over histories that were written by hand."""

import pytest

from rillet.pipeline.ledger.schema import NAMES, SPAN_DDL, struct
from rillet.pipeline.ledger.spans import views
from rillet.pipeline.report import tables

BASE = -(1 << 62)


def row(ordinal, event, at=None, **columns):
    """A row of stream s in database 0, file 1; `at` is its clock, and its own time unless given."""
    found = {
        "db": 0, "stream": "s", "file_seq": 1, "ordinal": ordinal, "event": event, "clock_ms": at, "at_ms": at,
    }  # fmt: skip
    return tuple({**found, **columns}.get(name) for name in NAMES)


def added(ordinal, entry_id, **columns):
    return row(ordinal, "added", entry_id=entry_id, **columns)


def held(ordinal, entry_id, consumer, at, count=1, **columns):
    event = "delivered" if count == 1 else "claimed"
    return row(
        ordinal, event, at, group="g", entry_id=entry_id, consumer=consumer, retry_count=count, last_id=entry_id, **columns
    )  # fmt: skip


def acked(ordinal, entry_id, at):
    return row(ordinal, "acked", at, group="g", entry_id=entry_id)


def moved(ordinal, last, read, event="group-set", at=None, **columns):
    return row(ordinal, event, at, group="g", last_id=last, retry_count=read, **columns)


@pytest.fixture
def given(spark):
    """Makes the views of some rows; gives the rows of one of them, or what was pending."""

    def made(*rows):
        views.register(spark, spark.createDataFrame(list(rows), struct()).coalesce(1), prefix="given")

        def look(what, *names):
            return sorted(
                tuple(each[name] for name in names) for each in spark.table(f"given_{what}").collect()
            )

        return look

    return made


HISTORY = [
    moved(1, "0-0", 0, "group-created", 900),
    *(added(9 + n, f"{n}-1") for n in range(1, 5)),
    held(20, "1-1", "ann", 1000),
    held(21, "2-1", "ann", 1000),
    held(22, "3-1", "bob", 1000),
    acked(30, "1-1", 1040),
    held(40, "2-1", "bob", 2000, 2),
    held(50, "2-1", "bob", 3000, 3),
    acked(60, "2-1", 3500),
]


def test_entries_have_deliveries_and_the_time_from_the_first_one_to_the_acknowledgement(given):
    found = given(*HISTORY)(
        "entries", "entry_id", "deliveries", "redeliveries", "highest_count", "consumers", "last_consumer", "outcome",
        "added_ms", "first_delivered_ms", "acked_ms", "to_ack_ms",
    )  # fmt: skip
    assert found == [
        ("1-1", 1, 0, 1, 1, "ann", "acked", 1, 1000, 1040, 40),
        ("2-1", 3, 2, 3, 2, "bob", "acked", 2, 1000, 3500, 2500),
        ("3-1", 1, 0, 1, 1, "bob", "pending", 3, 1000, None, None),
    ]


def test_redelivery_sums_up_the_entries_of_a_group(given):
    found = given(*HISTORY)(
        "redelivery", "stream", "group", "entries", "deliveries", "redeliveries", "entries_redelivered", "redelivery_rate",
        "acked", "pending", "to_ack_ms_p50_p90_p99",
    )  # fmt: skip
    assert found == [("s", "g", 3, 5, 2, 1, pytest.approx(1 / 3), 2, 1, [40, 2500, 2500])]


def test_what_was_pending_is_found_by_time_and_by_position(spark, given):
    given(*HISTORY)
    spark.sql("CACHE TABLE given_spans")

    def pending(*position, **at):
        frame = views.pending_at(spark, *position, prefix="given", **at)
        return sorted((each.entry_id, each.consumer, each.retry_count) for each in frame.collect())

    first = [("1-1", "ann", 1), ("2-1", "ann", 1), ("3-1", "bob", 1)]
    assert pending(at_ms=899) == pending(at_ms=999) == []
    assert pending(at_ms=1000) == pending(at_ms=1039) == first
    assert pending(at_ms=1040) == pending((1, 39)) == first[1:]
    assert pending(at_ms=2500) == [("2-1", "bob", 2), ("3-1", "bob", 1)]
    assert pending((1, 21)) == first[:2]
    assert pending(at_ms=99_999) == pending() == [("3-1", "bob", 1)]
    spark.sql("UNCACHE TABLE given_spans")


def test_lag_is_what_was_added_and_not_read(given):
    look = given(
        moved(1, "0-0", 0, "group-created"),
        *(added(ordinal, f"{ordinal}-1") for ordinal in (2, 3, 4)),
        moved(5, "3-1", 2),
        added(6, "6-1"),
        moved(7, "3-1", -1),
        moved(8, "6-1", 4),
    )
    assert look("lag", "ordinal", "entries_added", "entries_read", "lag") == [
        (1, 0, 0, 0),
        (5, 3, 2, 1),
        (8, 4, 4, 0),
    ]


def test_lag_counts_from_what_a_base_or_xsetid_says(given):
    look = given(
        added(BASE, "1-1"),
        row(BASE + 1, "stream-set", last_id="1-1", retry_count=10),
        moved(BASE + 2, "0-0", 9, "group-created"),
        added(5, "5-1"),
        moved(6, "5-1", 10),
        row(7, "stream-set", last_id="9-9"),
        moved(8, "5-1", 11),
        row(9, "stream-set", last_id="9-9", retry_count=50),
        added(10, "10-1"),
        moved(11, "5-1", 11),
    )
    assert look("lag", "ordinal", "entries_added", "lag") == [
        (BASE + 2, 10, 1), (6, 11, 1), (8, 11, 0), (11, 51, 40),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "place", [{}, {"stream": None}, {"stream": None, "db": None}], ids=["DEL", "FLUSHDB", "FLUSHALL"]
)
def test_lag_restarts_where_the_key_was_deleted(given, place):
    look = given(
        *(added(ordinal, f"{ordinal}-1") for ordinal in (1, 2, 3)),
        row(4, "stream-set", last_id="3-1", retry_count=30),
        moved(5, "0-0", 0, "group-created"),
        row(6, "key-deleted", **place),
        added(7, "7-1"),
        moved(8, "0-0", 0, "group-created"),
        row(9, "key-deleted", stream="another"),
        row(10, "key-deleted", db=1, stream=None),
        added(11, "11-1"),
        moved(12, "7-1", 1),
    )
    assert look("lag", "ordinal", "entries_added", "lag") == [(5, 30, 30), (8, 1, 1), (12, 2, 1)]


BEGIN = 1_800_000_000_000


def at(second, *, clock=True):
    """When a row happened."""
    ms = BEGIN + 1000 * second
    return {"at_ms": ms, "clock_ms": ms if clock else None}


def of_two_lives(*rows, db=0, **clock):
    """Three entries in two seconds, some rows in the third, then one entry a second, for a group that reads none."""
    return [
        added(1, f"{BEGIN}-1", db=db, **at(0, **clock)),
        moved(2, "0-0", 0, "group-created", db=db, **at(0, **clock)),
        *(added(ordinal, f"{BEGIN + 1000}-{ordinal}", db=db, **at(1, **clock)) for ordinal in (3, 4)),
        *(row(ordinal, **{**at(2, **clock), "db": db, **each}) for ordinal, each in enumerate(rows, 5)),
        added(8, f"{BEGIN + 3000}-1", db=db, **at(3, **clock)),
        moved(9, "0-0", 0, "group-created", db=db, **at(3, **clock)),
        added(10, f"{BEGIN + 4000}-1", db=db, **at(4, **clock)),
    ]


@pytest.fixture
def waiting(spark):
    """What the report says was waiting, second by second, in each database."""

    def curves(*rows):
        spark.createDataFrame(list(rows), struct()).coalesce(1).createOrReplaceTempView("ledger")
        spark.createDataFrame([], SPAN_DDL).createOrReplaceTempView("spans")
        settings = tables.Settings(points=5)
        bounds = tables.define_events(spark, settings)
        tables.define(spark)
        found = {}
        for each in tables.lag(spark, bounds, settings).collect():
            found.setdefault(each.db, []).append(each.waiting)
        return found

    return curves


def test_the_lag_of_a_report_restarts_where_the_key_or_its_database_went(waiting):
    found = waiting(
        *of_two_lives({"event": "key-deleted"}),
        *of_two_lives({"event": "key-deleted", "stream": None}, db=1),
        *of_two_lives({"event": "databases-swapped", "stream": None, "detail": "9"}, db=2),
        *of_two_lives({"event": "databases-swapped", "stream": None, "db": 9, "detail": "3"}, db=3),
        *of_two_lives({"event": "key-deleted", "stream": "another"}, db=4),
    )
    restarted, on = [1, 3, 0, 1, 2], [1, 3, 3, 4, 5]
    assert found == {0: restarted, 1: restarted, 2: restarted, 3: restarted, 4: on}


def test_the_lag_of_a_report_restarts_after_flushall_in_a_file_without_annotations_too(waiting):
    flushed = {"event": "key-deleted", "stream": None, "db": None, "at_ms": None}
    # When that was is not known: as soon as what was before it.
    assert waiting(*of_two_lives(flushed, clock=False)) == {0: [1, 0, 0, 1, 2]}


def test_lag_of_a_stream_that_came_from_elsewhere_is_not_made_up(given):
    look = given(
        added(1, "1-1", stream="old"),
        row(2, "key-copied", detail="0 old"),
        row(3, "key-deleted", stream="old"),
        added(4, "4-1"),
        moved(5, "1-1", 1),
        row(6, "stream-set", last_id="4-1", retry_count=2),
        moved(7, "1-1", 1),
    )
    assert look("lag", "ordinal", "entries_added", "lag") == [(5, None, None), (7, 2, 1)]
