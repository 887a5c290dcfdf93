"""Times and lengths of time, as they are typed and as they are shown."""

import pytest

from rillet.pipeline.times import format_duration, format_time, parse_duration, parse_time


@pytest.mark.parametrize(
    ("word", "ms"),
    [
        ("1800000000123", 1_800_000_000_123), ("1970-01-01", 0), ("1970-01-01T00:01", 60_000),
        ("1970-01-01 01:00:00.250+01:00", 250),
    ],
)  # fmt: skip
def test_moments_are_read(word, ms):
    assert parse_time(word) == ms


@pytest.mark.parametrize("word", ["", "yesterday", "-5", "12:00"])
def test_other_words_are_no_moments(word):
    with pytest.raises(ValueError, match="not milliseconds since 1970 and not an ISO time"):
        parse_time(word)


LENGTHS = [("500ms", 500), ("10s", 10_000), ("1.5h", 5_400_000), (" 2 M ", 120_000), ("7d", 604_800_000)]
IN_OPTIONS = [
    ("500", 500),
    (" 10 S", 10_000),
    ("15m", 900_000),
    ("1h", 3_600_000),
    ("1d", 86_400_000),
]  # may lack a unit


@pytest.mark.parametrize(
    ("word", "ms", "as_option"), [(*each, False) for each in LENGTHS] + [(*each, True) for each in IN_OPTIONS]
)
def test_lengths_are_read(word, ms, as_option):
    assert parse_duration(word, as_option=as_option) == ms


@pytest.mark.parametrize(
    ("word", "as_option"),
    [*((word, False) for word in ("", "5", "s", "-1s", "1w")), *((word, True) for word in ("", "1.5h", "1.5", "ms", "-1"))],
)  # fmt: skip
def test_other_words_are_no_lengths(word, as_option):
    with pytest.raises(ValueError, match="not a length of time"):
        parse_duration(word, as_option=as_option)


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (None, "-"), (0, "0 ms"), (999.4, "999 ms"), (999.6, "1.0 s"), (59_949, "59.9 s"), (59_951, "1 min"),
        (200_000, "3 min 20 s"), (3_599_600, "1 h"), (7_500_000, "2 h 5 min"), (86_399_000, "23 h 59 min"),
        (86_400_000, "1 d"), (4_000 * 86_400_000 + 3_600_000, "4,000 d 1 h"),
    ],
)  # fmt: skip
def test_lengths_are_shown_in_two_units_at_most(ms, text):
    assert format_duration(ms) == text


def test_moments_are_shown_in_utc():
    assert format_time(1_800_000_000_007) == "2027-01-15 08:00:00.007"
    assert format_time(1_800_000_000_007, precise=False) == "2027-01-15 08:00:00"
    assert format_time(None) == format_time(-1) == format_time(1 << 62) == "-"
