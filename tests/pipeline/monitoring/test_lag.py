"""pipeline/monitoring/lag.py: entries and seconds behind, what is gone and pending, and as metrics."""

import json

from rillet.pipeline.group.offset import GroupOffset
from rillet.pipeline.monitoring.lag import Lag, QueryState, read_sources, read_whole
from rillet.pipeline.monitoring.metrics import QueryMetrics
from rillet.pipeline.redis import ids
from rillet.pipeline.source import offsets
from rillet.pipeline.source.positions import Position


def source(end, latest):
    return {"endOffset": json.dumps(end), "latestOffset": json.dumps(latest)}


def at(word, added, gone=0):
    return Position(ids.parse(word), added, 0, gone)


def test_range_mode_counts_entries_and_seconds():
    end = offsets.dump(
        {
            "a": at("1000-0", 5, 2), "b": at("7-0", 3), "c": at("1000-0", None), "d": at("0-0", 0), "e": at("9-0", 1),
        }
    )  # fmt: skip
    latest = offsets.dump({"a": at("3500-0", 9), "b": at("7-0", 3), "c": at("2000-0", 4), "d": at("5-0", 4)})
    assert read_sources([source(end, latest)]) == (
        Lag("a", 4, 2.5, 2), Lag("b", 0, 0.0, 0), Lag("c", None, 1.0, 0), Lag("d", 4, None, 0), Lag("e", 0, 0.0, 0),
    )  # fmt: skip


def test_an_offset_of_another_version_is_left_out():
    end = offsets.dump({"a": at("1000-0", 5)})
    assert len(read_sources([source(end, end)])) == 1
    assert read_sources([source(end, end | {"v": 4})]) == read_sources([source(end | {"v": 4}, end)]) == ()


def test_group_mode_reports_the_groups_own_lag():
    streams = {
        "new": {"last_delivered": "0-0", "newest": "9-0", "lag": 7, "pending": 0},
        "s": {"last_delivered": "5000-0", "newest": "7500-3", "lag": 7, "pending": 3},
        "t": {"last_delivered": "5-0", "newest": "5-0", "lag": 0, "pending": 1},
    }
    latest = {"v": 1, "mode": "group", "group": "g", "streams": streams}
    assert read_sources([source({"v": 1, "mode": "group"}, latest)]) == (
        Lag("new", 7, None, None, 0),
        Lag("s", 7, 2.5, None, 3),
        Lag("t", 0, 0.0, None, 1),
    )


def test_a_name_that_is_no_utf8_is_shown_as_text():
    end = offsets.dump({"a\udcff": at("7-0", 3)})
    facts = {"last_delivered": "0-0", "newest": "9-0", "lag": 7, "pending": 0}
    group = {"v": 1, "mode": "group", "group": "g", "streams": {"b\udcff": facts}}
    found = read_sources([source(end, end), source({"v": 1, "mode": "group"}, group)])
    assert [each.stream for each in found] == ["a\\xff", "b\\xff"]
    assert (
        QueryMetrics(lambda: [QueryState("q", lags=tuple(found))]).text().encode().count(b'stream="a\\\\xff"')
        == 3
    )


def test_what_group_mode_did_not_read_is_counted_for_the_query():
    ends = [GroupOffset("g", "c", gone=2, dead=1).as_json(), GroupOffset("h", "c", gone=3).as_json()]
    losses = read_whole([*(source(end, None) for end in ends), source({"v": 1, "streams": {}}, None)])
    assert losses == (Lag(gone=5, dead=1),)
    assert read_whole([source({"v": 1, "streams": {}}, None), {}]) == ()
    state = QueryState("q", 1, lags=losses)
    assert str(state).endswith("; 5 gone, 1 dead letters")


def ledger(behind, seconds):
    latest = {"v": 1, "mode": "ledger", "file": 2, "position": 9000}
    return source({"v": 1}, latest | {"bytes_behind": behind, "seconds_behind": seconds})


def test_a_ledger_reports_bytes_and_seconds():
    assert read_whole([ledger(1500, 2.5)]) == (Lag(bytes_behind=1500, seconds_behind=2.5),)
    whole = read_whole([ledger(1500, 2.5), ledger(20, 0.5), ledger(1, None)])
    assert whole == (Lag(bytes_behind=1521, seconds_behind=2.5),)
    assert read_whole([source({"v": 1, "streams": {}}, {"v": 1, "streams": {}}), {}]) == ()
    assert read_sources([ledger(1500, 2.5)]) == ()
    state = QueryState("q", 1, rows=3, batch_seconds=0.1, lags=(Lag(bytes_behind=1500, seconds_behind=2.5),))
    lines = QueryMetrics(lambda: [state, QueryState("r", lags=(Lag(bytes_behind=0),))]).text().splitlines()
    assert 'rillet_spark_bytes_behind{query="r"} 0.0' in lines
    assert not any(line.startswith('rillet_spark_seconds_behind{query="r"') for line in lines)
    assert str(state) == "q: batch 1, 3 rows in 0.100 s; 1,500 bytes / 2.5 s behind"
    assert str(Lag(bytes_behind=7)) == "7 bytes behind"


def test_other_sources_are_left_out():
    assert (
        read_sources([source({"t": {"0": 5}}, {"t": {"0": 9}}), {"endOffset": "5", "latestOffset": None}, {}])
        == ()
    )


def test_a_log_line_says_what_a_person_asks_first():
    state = QueryState("orders", 3, 50, 50, 0.25, (Lag("a", 4, 2.5, 2, 1), Lag("b", None, None)))
    assert str(state) == (
        "orders: batch 3, 50 rows in 0.250 s; a 4 entries / 2.5 s behind, 1 pending, 2 gone; b ? entries behind"
    )
