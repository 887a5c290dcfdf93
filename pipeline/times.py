"""Parse and format points in time and durations, as people write them in options and on command lines."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

_UNITS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LENGTH: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")
_WHOLE: Final = re.compile(r"\d+")


def parse_time(word: str) -> int:
    """Return milliseconds since 1970, given as a number or as an ISO time (UTC if it names no zone).

    Raises ValueError: the word is neither.
    """
    if word.isdigit():
        return int(word)
    try:
        return round(parse_iso_time(word).timestamp() * 1000)
    except ValueError:
        raise ValueError(f"not milliseconds since 1970 and not an ISO time: {word!r}") from None


def parse_iso_time(word: str) -> datetime:
    """Parse an ISO time; it is in UTC if it names no zone. Raises ValueError: the word is not an ISO time."""
    moment = datetime.fromisoformat(word)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def parse_duration(word: str, *, as_option: bool = False) -> int:
    """Parse ``500ms``, ``10s``, ``15m``, ``1.5h`` or ``7d`` to milliseconds.

    Raises ValueError: the word is not a duration.

    Args:
        word: a number with a unit.
        as_option: parse an option of Spark, like those of Kafka: a whole number, in milliseconds if it has no unit.
    """
    text = word.strip().lower()
    if as_option and _WHOLE.fullmatch(text):
        return int(text)
    found = _LENGTH.fullmatch(text)
    if found is None or (as_option and "." in found[1]):
        raise ValueError(f"not a length of time such as 500ms, 10s, 15m or 7d: {word!r}")
    return round(float(found[1]) * _UNITS[found[2]])


def format_time(ms: int | None, *, precise: bool = True) -> str:
    """Format milliseconds since 1970 as ``2026-11-20 11:25:16.042`` (UTC), or a dash for None.

    Without ``precise`` it has no milliseconds.
    """
    if ms is None or not 0 <= ms < 253_402_300_800_000:
        return "-"
    text = datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    return f"{text}.{ms % 1000:03d}" if precise else text


def format_duration(ms: float | None) -> str:
    """Format milliseconds as ``22 ms``, ``1.4 s``, ``3 min 20 s``, ``2 h 5 min`` or ``3 d 4 h``; None: a dash."""
    if ms is None:
        return "-"
    if ms < 999.5:
        return f"{ms:.0f} ms"
    if ms < 59_950:
        return f"{ms / 1000:.1f} s"
    seconds = round(ms / 1000)
    for size, small, name, small_name in (
        (60, 1, "min", "s"),
        (3600, 60, "h", "min"),
        (86400, 3600, "d", "h"),
    ):
        if seconds < size * (60 if size < 3600 else 24) or size == 86400:
            whole, rest = divmod(seconds, size)
            return f"{whole:,} {name}" + (f" {rest // small} {small_name}" if rest // small else "")
    raise AssertionError(ms)
