"""pipeline/source/casts.py and time_casts.py without a JVM; tests/pipeline/spark/test_casts.py compares them with Spark."""

import random
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from rillet.pipeline.source.time_casts import zone_of
from rillet.pipeline.source.values import parse_json, parse_texts

INSTANT = pa.timestamp("us", "UTC")


def instants(*texts, zone="UTC"):
    cells, _ = parse_texts([text.encode() for text in texts], INSTANT, zone=zone)
    return [None if one is None else one.astimezone(UTC).isoformat() for one in cells.to_pylist()]


def test_times_of_dotnet_go_and_java_are_read_to_the_microsecond():
    assert instants(
        "2026-11-20T10:00:00.1234567Z",
        "2026-11-20T10:00:00.123456789+02:00",
        "2026-11-20T10:00:00.123456789",
        "2026-11-20 10:00:00",
    ) == [
        "2026-11-20T10:00:00.123456+00:00", "2026-11-20T08:00:00.123456+00:00", "2026-11-20T10:00:00.123456+00:00",
        "2026-11-20T10:00:00+00:00",
    ]  # fmt: skip


def test_a_date_alone_or_without_seconds_is_a_time():
    texts = [
        "2026-11-20", "2026-11-20T10:00", "2026-11-20 10:00", "2026-1-2T3", "2026-11-20T1:2:3", "2026-11-31",
    ]  # fmt: skip
    texts += ["not a date", "2026-11-20T25:00", "2026-11-20T10:0Z", "2026-11-20T10:00:00.5"]
    assert instants(*texts, zone="America/New_York") == [
        "2026-11-20T05:00:00+00:00", "2026-11-20T15:00:00+00:00", "2026-11-20T15:00:00+00:00",
        "2026-01-02T08:00:00+00:00", "2026-11-20T06:02:03+00:00", *[None] * 4, "2026-11-20T15:00:00.500000+00:00",
    ]  # fmt: skip


def test_hours_and_zones_that_do_not_exist_are_told_from_unusual_ones_that_do():
    good = [
        "2026-01-20T10:00:5Europe/Berlin", "2026-01-20T10:00:05 Europe/Berlin ", "2026-01-20T10:00:05  ",
        "2026-01-20T10:00:05." + "1" * 45 + "Europe/Berlin", " 2026-01-20T10:00:05Z", "2026-01-20T10:00:05.",
    ]  # fmt: skip
    bad = [
        "2026-01-20T24:00:00Z", "2026-01-20T10:60:00Z", "2026-01-20T10:00:00z", "2026-01-20T10:00:00.5 CEST",
        "2026-01-20T10:00:05." + "1" * 45 + "Nowhere/Land", "2026-01-20T10:00:00+1:2:3",
    ]  # fmt: skip
    assert instants(*good, *bad) == [
        "2026-01-20T09:00:05+00:00", "2026-01-20T09:00:05+00:00", "2026-01-20T10:00:05+00:00",
        "2026-01-20T09:00:05.111111+00:00", "2026-01-20T10:00:05+00:00", "2026-01-20T10:00:05+00:00", *[None] * 6,
    ]  # fmt: skip


def test_a_time_without_a_zone_is_of_the_sessions():
    assert instants("2026-01-20T10:00:00", "2026-07-20T10:00:00", zone="America/New_York") == [
        "2026-01-20T15:00:00+00:00",
        "2026-07-20T14:00:00+00:00",
    ]
    assert instants("2026-07-20T10:00:00", "2026-07-20T10:00:00Z", zone="America/New_York") == [
        "2026-07-20T14:00:00+00:00",
        "2026-07-20T10:00:00+00:00",
    ]
    # A clock that skips the hour, one that shows it twice, and years for which Arrow has no rules.
    assert instants(
        "2020-03-08T02:30:00", "2020-11-01T01:30:00", "2100-07-01T12:00:00", zone="America/New_York"
    ) == ["2020-03-08T07:30:00+00:00", "2020-11-01T05:30:00+00:00", "2100-07-01T16:00:00+00:00"]


def test_a_time_of_day_alone_is_no_time():
    """Spark takes it for one of today, which is another tomorrow, when the batch is run again."""
    assert instants("10:00", "T10:00:00Z") == [None, None]


@pytest.mark.parametrize(
    ("name", "zone"),
    [
        ("Z", 0), ("UTC+1", 3600), ("GMT-03:30", -12600), ("+1", 3600), ("+1:2", 3720), ("+010203", 3723), ("EST", -18000),
        ("+18:00", 64800), ("+18:01", None), ("+19", None), ("+01:60", None), ("z", None), ("Nowhere/Land", None), ("Z2", None),
    ],
)  # fmt: skip
def test_zones_are_those_of_java(name, zone):
    assert zone_of(name) == zone


@pytest.mark.parametrize(
    "kind", [pa.int64(), pa.float64(), pa.decimal128(10, 2), pa.bool_(), pa.date32(), INSTANT, pa.string()]
)
def test_bytes_that_are_no_utf8_fit_nothing(kind):
    for raw in (b"\xff", b"2026\xff", b"\xffinf", b"1.0\xff"):
        cells, bad = parse_texts([raw, None, raw], kind)
        assert (cells.to_pylist(), bad) == ([None] * 3, [0, 2])


def test_json_follows_the_rule_of_texts():
    cells, bad = parse_json(["1", 1, True, " 2 ", 1.5, [1], None, ""], pa.int64())
    assert (cells.to_pylist(), bad) == ([1, 1, None, 2, None, None, None, None], [2, 4, 5, 7])
    cells, bad = parse_json([["1", 2], None, ["x"], [], 7], pa.list_(pa.int32()))
    assert (cells.to_pylist(), bad) == ([[1, 2], None, None, [], None], [2, 4])
    cells, bad = parse_json([{"a": 1}, {"a": "no"}, {}], pa.struct([("a", pa.int8())]))
    assert (cells.to_pylist(), bad) == ([{"a": 1}, None, {"a": None}], [1])
    cells, bad = parse_json(["2026-11-20T10:00:00.123456789Z"], INSTANT)
    assert cells.to_pylist() == [datetime(2026, 11, 20, 10, 0, 0, 123456, UTC)]
    assert bad == []


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("294247-01-10T04:00:54.775807Z", 2**63 - 1), ("294247-01-10T04:00:54.775808Z", None), ("294247-01-10T05:00:54+02:00", 9223372033254000000),
        ("-290308-12-21T19:59:05.224192Z", -(2**63)), ("-290308-12-21T19:59:05.224191Z", None), ("999999-01-01", None),
    ],
)  # fmt: skip
def test_times_end_where_their_microseconds_do(text, micros):
    cells, _ = parse_texts([text.encode()], INSTANT)
    assert cells.cast(pa.int64()).to_pylist() == [micros]


GOOD = {
    pa.int64(): "{0}", pa.float64(): "{0}.25", pa.decimal128(12, 2): "{0}.25", pa.date32(): "2026-11-{1:02}",
    INSTANT: "2026-11-{1:02}T10:00:00.{0:06}Z",
}  # fmt: skip


@pytest.mark.parametrize("kind", GOOD, ids=str)
@pytest.mark.parametrize(
    "bad",
    [
        *"1.5 1.23999 1.5e2 1e400 inf -NaN n/a 2026 2026-1-2 2026-11-31 2026-02-30T12:00:00Z".split(),
        *"2026-11-20T24:00:00Z 2026-13-45T00:00:00 2026-11-20T10:00Z 12345678901234567890123".split(),
        *("2026-11-20", "2026-11-20T10:00", "", "a text of some words", "2026-11-20 10:00:00.5 Europe/Berlin"),
    ],
)  # fmt: skip
def test_no_value_is_looked_at_alone_for_being_wrong(monkeypatch, kind, bad):
    """Texts that do not fit are found in whole columns: no function of one text is called."""
    from rillet.pipeline.source import casts, time_casts

    calls = []
    for module, name in ((casts, "_hexadecimal"), (casts, "_decimal"), (time_casts, "_offset_of")):
        honest = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda *given, honest=honest, **more: calls.append(given) or honest(*given, **more)
        )
    numbers = random.Random(1)
    texts = [
        (bad if at % 2 else GOOD[kind].format(numbers.randrange(10**6), 1 + at % 28)).encode()
        for at in range(1000)
    ]
    parse_texts(texts, kind)
    assert len(calls) == 0
