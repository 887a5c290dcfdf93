"""Templates, and the formats of numbers, times and names on pages. Everything is escaped."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from . import decoding, names
from .samples import Sample, rates
from .style import TEMPLATES

HERE: Final = Path(__file__).parent
LINKED_BYTES: Final = 4_000  # a longer name makes no address that servers and browsers take
UNKNOWN: Final = "\u2013"
GAP_SECONDS: Final = 45.0  # rounds without a viewer are ten seconds apart, with many streams more
HEAT_MS: Final = (1_000, 10_000, 60_000, 600_000, 3_600_000)


def environment() -> Environment:
    """Return the template environment of all pages, which escapes every value."""
    made = Environment(
        loader=FileSystemLoader([HERE / "templates", TEMPLATES]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(
        name=name, quote=names.quote, duration=duration, size=size, count=count, rate=rate, time=exact, clock=clock, value=names.value,
        id_time=id_time, heat=heat, clip=clip, decoded=decoding.decoded, framework=decoding.framework,
        plain=names.plain, raw=raw,
    )  # fmt: skip
    made.globals.update(url=url, ago=ago, linked=linked, decoded_fields=decoding.FIELDS)
    return made


def name(raw: bytes) -> Markup:
    """Return a name as HTML whose text direction does not affect the text around it."""
    return Markup("<bdi>{}</bdi>").format(names.name(raw))


def raw(text: str) -> bytes:
    """Return the bytes of a name that ``recorded`` decoded."""
    return text.encode(errors="surrogateescape")


def clip(text: str, length: int = 60) -> str:
    """Return a text cut to ``length`` characters; an ellipsis follows if something was cut."""
    return text if len(text) <= length else text[:length] + "…"


def url(path: str, **words: bytes | str | int) -> str:
    """Return an address in the console: the path with these words as its query; names (bytes) are in redis-cli's syntax."""
    typed = {
        key: names.quote(word) if isinstance(word, bytes) else str(word)
        for key, word in words.items()
        if word not in {b"", ""} or isinstance(word, bytes)
    }
    return f"{path}?{urlencode(typed)}" if typed else path


def linked(*words: bytes) -> bool:
    """Return True if names are together short enough for a link."""
    return sum(map(len, words)) <= LINKED_BYTES


def duration(milliseconds: float | None) -> str:
    """Format a duration in its greatest unit: 250 ms, 3 min, 2 h; a dash for None or a negative one."""
    if milliseconds is None:
        return UNKNOWN
    if milliseconds < 0:
        return UNKNOWN
    if milliseconds < 1_000:
        return f"{milliseconds:.0f} ms"
    for unit, length in (("s", 1_000), ("min", 60_000), ("h", 3_600_000), ("d", 86_400_000)):
        most = {"s": 60, "min": 60, "h": 48, "d": 730}[unit]
        if milliseconds / length < most:
            return f"{int(milliseconds // length)} {unit}"
    return f"{int(milliseconds // (365 * 86_400_000))} y"


def size(count_of_bytes: float | None) -> str:
    """Format bytes in their greatest unit; a dash for None."""
    if count_of_bytes is None:
        return UNKNOWN
    for unit in ("B", "KB", "MB", "GB"):
        if count_of_bytes < 1024:
            return (
                f"{count_of_bytes:.0f} {unit}"
                if unit == "B" or count_of_bytes >= 10
                else f"{count_of_bytes:.1f} {unit}"
            )
        count_of_bytes /= 1024
    return f"{count_of_bytes:.1f} TB"


def count(number: float | None) -> str:
    """Format a whole number with thousands separators; a dash for None."""
    return UNKNOWN if number is None else f"{number:,.0f}"


def rate(number: float | None) -> str:
    """Format a rate per second, or per minute if it is small; a dash for None."""
    if number is None:
        return UNKNOWN
    if number == 0:
        return "0/s"
    return (
        f"{number:,.0f}/s"
        if number >= 10
        else f"{number:.1f}/s"
        if number >= 0.1
        else f"{number * 60:.1f}/min"
    )


def exact(milliseconds: float) -> str:
    """Format a time (milliseconds since 1970) as date and time in UTC."""
    try:
        moment = dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC)
    except (ValueError, OverflowError, OSError):
        return f"{milliseconds:.0f} ms since 1970"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{int(milliseconds) % 1000:03d} UTC"


def clock(milliseconds: float) -> str:
    """Format a time (milliseconds since 1970) as time of day in UTC, for log lines."""
    try:
        moment = dt.datetime.fromtimestamp(milliseconds / 1000, dt.UTC)
    except (ValueError, OverflowError, OSError):
        return UNKNOWN
    return f"{moment:%H:%M:%S}.{int(milliseconds) % 1000:03d}"


def id_time(entry_id: str) -> int:
    """Return the milliseconds of an entry ID, its time."""
    return int(entry_id.partition("-")[0])


def ago(moment: int, now: int) -> Markup:
    """Format how long before ``now`` a moment is, both in milliseconds, as HTML with the exact time on hover.

    A moment before 2001 comes from an ID that is not a time, and shows as a dash.
    """
    if moment < 1_000_000_000_000:  # before 2001: an ID that counts
        return Markup('<span class="nil">\u2013</span>')
    words = (
        f"{duration(now - moment)} ago"
        if now - moment >= 1_000
        else "now"
        if now >= moment
        else f"in {duration(moment - now)}"
    )
    return Markup('<time title="{}">{}</time>').format(exact(moment), words)


def heat(idle: int | None) -> int:
    """Return the colour step of an idle time in milliseconds: how many of ``HEAT_MS`` it has reached, 0 to 5."""
    return sum((idle or 0) >= step for step in HEAT_MS)


def _with_gaps(samples: list[Sample]) -> list[Sample]:
    """Insert a gap where the console was asleep or the clock jumped, so that the chart draws no line across it."""
    steps = sorted(after[0] - before[0] for before, after in pairwise(samples))
    most = max(GAP_SECONDS, 5 * steps[len(steps) // 2]) if steps else 0.0
    found: list[Sample] = []
    for sample in samples:
        if found and not 0 < sample[0] - found[-1][0] <= most:
            if sample[0] <= found[-1][0]:
                found.clear()  # a clock that went back: earlier samples are not earlier any more
            else:
                found.append((found[-1][0] + most / 2, None, None, None))
        found.append(sample)
    return found


def chart(samples: list[Sample], columns: Mapping[str, tuple[int, bool]]) -> str:
    """Return a chart as JSON: names, and rows of numbers: the seconds before the newest sample, then each column.

    ``columns`` maps each name to its column in the samples, and whether to show its growth per second.
    """
    samples = _with_gaps(samples)
    newest = samples[-1][0] if samples else 0.0
    rows: list[Any] = [[round(sample[0] - newest, 1) for sample in samples]]
    for column, as_rate in columns.values():
        values: Iterable[float | None] = (
            rates(samples, column) if as_rate else [sample[column] for sample in samples]
        )
        rows.append([None if number is None else round(number, 2) for number in values])
    return json.dumps({"names": list(columns), "rows": rows})
