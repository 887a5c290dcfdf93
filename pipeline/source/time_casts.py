"""Cast texts to dates and times exactly as Spark's ``try_cast`` in the session's zone; null where that gives null.

A time may have any number of fractional digits, of which six count, and then a zone: ``Z``, an offset, or a zone name
of Java. Without a zone it is in the session's zone; a time in the hour that is skipped when clocks go forward is read
as if the clocks had not changed. A time of day without a date, which Spark reads as today's, gives null, because a
batch that is repeated tomorrow must have the same rows.

Texts in the usual form are cast a whole column at once, in any mixture (see `casts`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache, reduce
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa
import pyarrow.compute as pc

from .casts import BLANKS, DIGITS, apart, array_of, at_once, kept

Zone = int | ZoneInfo  # seconds east of UTC, or a region

_MICROS: Final = pa.timestamp("us")
_SECOND: Final = 1_000_000
_DAY_SECONDS: Final = 86_400
_SECONDS_OF_MICROS: Final = 2**63 // _SECOND  # on both sides of 1970 that 64 bits have room for
_ARROWS_RULES_END: Final = 2_114_380_800  # 2037
_TO_THE_SECOND: Final = 19  # characters, without a zone
_LONGEST: Final = 60  # characters that are looked at; a usual time has 35 at most
_AFTER_A_DATE: Final = (b"", b" ", b"T")
_DAYS_OF_ALL_YEARS: Final = tuple(
    (date(2001, 1, 1) + timedelta(days=day)).strftime("%m-%d").encode() for day in range(365)
)
_NO_DAYS: Final = (b"-02-30", b"-02-31", b"-04-31", b"-06-31", b"-09-31", b"-11-31")
_HOURS: Final = tuple(f"{minute // 60:02}:{minute % 60:02}".encode() for minute in range(24 * 60))
_SECONDS: Final = tuple(b"%02d" % second for second in range(60))
_DAYS: Final = (0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_YEAR: Final = (
    r"(?s)\A(?P<year>[+-]?[0-9]{4,%d})(?:-(?P<month>0?[1-9]|1[0-2])(?:-(?P<day>0?[1-9]|[12][0-9]|3[01])"
)
_DAY: Final = _YEAR % 7 + r"(?:[ T].*)?)?)?\z"
_MOMENT: Final = _YEAR % 6 + (
    r"(?:[ T](?P<hour>[01]?[0-9]|2[0-3])(?::(?P<minute>[0-5]?[0-9])(?::(?P<second>[0-5]?[0-9])(?:\.(?P<fraction>[0-9]*))?"
    r"(?P<zone>[^0-9.].*)?)?)?)?)?)?\z"
)
_OFFSET: Final = re.compile(r"([+-])([0-9]{1,2})(?::?([0-9]{2})(?::?([0-9]{2}))?)?")
_FRACTION: Final = r"\A(\.[0-9]{1,9})?Z?\z"
_REST: Final = r"\A(\.[0-9]{1,9})?(Z|[+-](0[0-9]|1[0-7]):?[0-5][0-9])?\z"
_LONGEST_OFFSET: Final = 18 * 3600
_REGION: Final = re.compile(r"[A-Za-z][A-Za-z0-9~/._+-]+")
# Java's ZoneId.SHORT_IDS, which Spark knows.
_SHORT: Final = dict(
    pair.split("=")
    for pair in (
        "ACT=Australia/Darwin AET=Australia/Sydney AGT=America/Argentina/Buenos_Aires ART=Africa/Cairo AST=America/Anchorage "
        "BET=America/Sao_Paulo BST=Asia/Dhaka CAT=Africa/Harare CNT=America/St_Johns CST=America/Chicago CTT=Asia/Shanghai "
        "EAT=Africa/Addis_Ababa ECT=Europe/Paris EST=-05:00 HST=-10:00 IET=America/Indiana/Indianapolis IST=Asia/Kolkata "
        "JST=Asia/Tokyo MIT=Pacific/Apia MST=-07:00 NET=Asia/Yerevan NST=Pacific/Auckland PLT=Asia/Karachi "
        "PNT=America/Phoenix PRT=America/Puerto_Rico PST=America/Los_Angeles SST=Pacific/Guadalcanal VST=Asia/Ho_Chi_Minh"
    ).split()
)


@lru_cache(maxsize=1024)
def zone_of(name: str) -> Zone | None:
    """Return the time zone with this Java name; None if there is none."""
    name = re.sub(r"([+-])(\d):", r"\g<1>0\2:", name.strip(), count=1)
    name = re.sub(r"([+-])(\d\d):(\d)\Z", r"\1\2:0\3", name, count=1)
    name = _SHORT.get(name, name)
    if name in {"Z", "UTC", "GMT", "UT"}:
        return 0
    for prefix in ("UTC", "GMT", "UT"):
        if name.startswith(prefix) and name[len(prefix)] in "+-":
            return _offset(name[len(prefix) :])
    if name[:1] in {"+", "-"}:
        return _offset(name)
    try:
        return ZoneInfo(name) if _REGION.fullmatch(name) else None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def _offset(text: str) -> int | None:
    found = _OFFSET.fullmatch(text)
    if found is None or (len(found[2]) == 1 and found[3]):
        return None
    if found[4] and (":" in text) != (text.count(":") == 2):
        return None
    minutes, seconds = int(found[3] or 0), int(found[4] or 0)
    total = int(found[2]) * 3600 + minutes * 60 + seconds
    if minutes > 59 or seconds > 59 or total > _LONGEST_OFFSET:
        return None
    return -total if found[1] == "-" else total


def dates(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast texts to dates: ``2020``, ``2020-1``, ``2020-1-2``; anything after a space or T is ignored."""
    if (quick := at_once(texts, kind)) is not None:
        return quick
    raw = texts.cast(pa.binary())
    follows = pc.is_in(pc.binary_slice(raw, 10, 11), array_of(_AFTER_A_DATE))
    is_usual = pc.and_(follows, _is_surely_a_day(raw))

    def usual(some: pa.Array) -> pa.Array | None:
        return at_once(_piece(some, 0, 10), kind)

    return apart(texts, is_usual, usual, lambda some: _dates(some, kind))


def _dates(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    return _taken_apart(texts, _DAY, lambda parts: _dates_of(parts, kind), kind)


def _dates_of(parts: pa.Array, kind: pa.DataType) -> pa.Array:
    days = _days(parts)
    is_short = pc.and_(pc.greater_equal(days, -(2**31)), pc.less(days, 2**31))
    return kept(is_short, days).cast(pa.int32()).cast(kind)


def _piece(texts: pa.Array, start: int, end: int) -> pa.Array:
    """Return a slice of each text by byte offsets; it may split a character of UTF-8."""
    return pc.cast(pc.binary_slice(texts.cast(pa.binary()), start, end), pa.string(), safe=False)


def _is_surely_a_day(raw: pa.Array) -> pa.Array:
    """Return a mask: texts that, if they begin with a year, continue with a day that every year has (so not 29 February)."""
    dash, day = pc.binary_slice(raw, 4, 5), pc.binary_slice(raw, 5, 10)
    return pc.and_(pc.equal(dash, b"-"), pc.is_in(day, array_of(_DAYS_OF_ALL_YEARS)))


def _taken_apart(
    texts: pa.Array, pattern: str, convert: Callable[[pa.Array], pa.Array], kind: pa.DataType
) -> pa.Array:
    """Apply ``convert`` to the parts that a pattern finds; null where the pattern does not match."""
    texts = pc.ascii_trim(texts, BLANKS)
    year = _piece(pc.ascii_ltrim(texts, "+-"), 0, 4)
    begins = pc.and_(pc.ascii_is_decimal(year), pc.equal(pc.binary_length(year), 4))
    # Reject days that no year has here: rejecting them by their parts takes ten times as long.
    begins = pc.and_not(begins, pc.is_in(pc.binary_slice(texts.cast(pa.binary()), 4, 10), array_of(_NO_DAYS)))
    cells = pa.nulls(len(texts), kind)
    if not pc.any(begins).as_py():
        return cells
    # Testing that a pattern does not match takes a third of the time that extracting its parts takes.
    is_found = pc.fill_null(pc.match_substring_regex(kept(begins, texts), pattern), False)
    return pc.replace_with_mask(cells, is_found, convert(pc.extract_regex(texts.filter(is_found), pattern)))


def _days(parts: pa.Array) -> pa.Array:
    """Return days since 1970, for any year; null if the day does not exist."""
    year, month, day = (_number(parts, name, 1) for name in ("year", "month", "day"))
    is_leap = pc.and_(_divides(year, 4), pc.or_(pc.invert(_divides(year, 100)), _divides(year, 400)))
    is_there = pc.and_(
        pc.less_equal(day, array_of(_DAYS).take(month)),
        pc.or_(is_leap, pc.or_(pc.not_equal(month, 2), pc.less(day, 29))),
    )
    # Let years begin in March: then the leap day comes last.
    is_before_march = pc.less(month, 3)
    year = pc.subtract(year, pc.if_else(is_before_march, 1, 0))
    month = pc.add(month, pc.if_else(is_before_march, 9, -3))
    cycle = pc.divide(pc.if_else(pc.less(year, 0), pc.subtract(year, 399), year), 400)
    year = pc.subtract(year, pc.multiply(cycle, 400))
    leaps = pc.subtract(pc.divide(year, 4), pc.divide(year, 100))
    of_year = pc.add(pc.divide(pc.add(pc.multiply(month, 153), 2), 5), day)
    found = pc.add(pc.add(pc.multiply(cycle, 146_097), pc.multiply(year, 365)), pc.add(leaps, of_year))
    return kept(is_there, pc.subtract(found, 719_469))


def _number(parts: pa.Array, name: str, default: int) -> pa.Array:
    """Return one of the numbers that a pattern extracted; a default if the text lacks it."""
    found = pc.ascii_ltrim(pc.struct_field(parts, name), "+")
    return pc.if_else(pc.equal(found, ""), str(default), found).cast(pa.int64())


def _divides(years: pa.Array, by: int) -> pa.Array:
    return pc.equal(pc.multiply(pc.divide(years, by), by), years)


def times(texts: pa.Array, kind: pa.DataType, zone: str) -> pa.Array:
    """Cast to times: instants, in the session's zone if the text has no zone; local times if the type has no zone."""
    here = (zone_of(zone) if kind.tz else 0) or 0
    shortest = pc.min(pc.binary_length(texts)).as_py() or 0
    quick = None
    if kind.tz is not None and shortest > _TO_THE_SECOND and pc.all(pc.ends_with(texts, "Z")).as_py():
        quick = _micros(texts, kind)
    elif (
        shortest >= _TO_THE_SECOND and (quick := at_once(texts, _MICROS)) is not None and kind.tz is not None
    ):
        quick = _localized(quick, here).cast(kind)  # Arrow reads no zone as a time without
    if quick is not None:
        return quick
    raw, length = texts.cast(pa.binary()), pc.binary_length(texts)
    # Arrow, unlike Spark, accepts hours and minutes with a zone (`T22-00:00`), so texts with a zone need seconds here.
    to_the_minute, to_the_second = (pc.equal(pc.binary_slice(raw, at, at + 1), b":") for at in (13, 16))
    rest = pc.match_substring_regex(_piece(texts, _TO_THE_SECOND, _LONGEST), _REST if kind.tz else _FRACTION)
    to_the_second = pc.and_(to_the_second, pc.is_in(pc.binary_slice(raw, 17, 19), array_of(_SECONDS)))
    to_the_minute = pc.and_(to_the_minute, pc.is_in(pc.binary_slice(raw, 11, 16), array_of(_HOURS)))
    to_the_minute = pc.and_(to_the_minute, pc.or_(pc.equal(length, 16), pc.and_(to_the_second, rest)))
    is_usual = pc.and_(pc.or_(pc.equal(length, 10), to_the_minute), _is_surely_a_day(raw))
    return apart(
        texts, is_usual, lambda some: _usual_times(some, kind, here), lambda some: _times(some, kind, here)
    )


def _times(texts: pa.Array, kind: pa.DataType, here: Zone) -> pa.Array:
    texts = kept(pc.invert(_is_surely_none(texts)), texts)
    return _taken_apart(texts, _MOMENT, lambda parts: _times_of(parts, kind, here), kind)


def _is_surely_none(texts: pa.Array) -> pa.Array:
    """Return a mask of texts in the usual form to the second whose hour or zone does not exist.

    With it, a column with one half ``CEST`` or ``24:00`` takes 2.1 times as long as a good one; taking the parts apart
    would take four times as long.
    """
    raw = texts.cast(pa.binary())
    rest = pc.ascii_ltrim(pc.ascii_rtrim(_piece(texts, _TO_THE_SECOND, _LONGEST), BLANKS), DIGITS + ".")
    zones = rest.dictionary_encode()
    names = [name.decode(errors="replace") for name in zones.dictionary.cast(pa.binary()).to_pylist()]
    is_none = pa.array([bool(name) and zone_of(name) is None for name in names], pa.bool_()).take(
        zones.indices
    )
    is_none = pc.or_(is_none, pc.invert(pc.is_in(pc.binary_slice(raw, 11, 16), array_of(_HOURS))))
    marks = [
        pc.equal(pc.binary_slice(raw, at, at + 1), mark)
        for at, mark in ((4, b"-"), (7, b"-"), (13, b":"), (16, b":"))
    ]
    marks += [
        pc.is_in(pc.binary_slice(raw, 17, 19), array_of(_SECONDS)),
        pc.less_equal(pc.binary_length(texts), _LONGEST),
    ]
    return pc.fill_null(reduce(pc.and_, marks, is_none), False)


def _times_of(parts: pa.Array, kind: pa.DataType, here: Zone) -> pa.Array:
    days, hour, minute, second = (
        _days(parts),
        *(_number(parts, name, 0) for name in ("hour", "minute", "second")),
    )
    minutes = pc.add(pc.multiply(pc.add(pc.multiply(days, 24), hour), 60), minute)
    seconds = pc.add(pc.multiply(minutes, 60), second)
    zones = pc.struct_field(parts, "zone").dictionary_encode()
    known = [zone_of(name) if name else here for name in zones.dictionary.to_pylist()]
    if kind.tz is None:
        known = [None if one is None else 0 for one in known]
    seconds = _instants(seconds, zones.indices, known)
    fraction = pc.ascii_rpad(pc.utf8_slice_codeunits(pc.struct_field(parts, "fraction"), 0, 6), 6, "0")
    # A value beyond 64 bits overflows and changes its sign.
    micros = pc.add(pc.multiply(seconds, _SECOND), fraction.cast(pa.int64()))
    is_there = pc.and_(
        pc.less_equal(pc.abs(seconds), _SECONDS_OF_MICROS + 1),
        pc.equal(pc.less(micros, 0), pc.less(seconds, 0)),
    )
    return kept(is_there, micros).cast(kind)


def _usual_times(texts: pa.Array, kind: pa.DataType, here: Zone) -> pa.Array | None:
    """Cast times and dates in the usual form, with or without a zone; None if one of them has another form."""
    length = pc.binary_length(texts)
    if pc.min(length).as_py() < _TO_THE_SECOND:
        rest = pc.if_else(pc.equal(length, 10), "T00:00:00", pc.if_else(pc.equal(length, 16), ":00", ""))
        texts = pc.binary_join_element_wise(texts, rest, "")
    if kind.tz is None:
        return _micros(pc.ascii_rtrim(texts, "Z"), kind)

    def local(some: pa.Array) -> pa.Array | None:
        found = _micros(some, _MICROS)
        return None if found is None else _localized(found, here).cast(kind)

    rest = _piece(texts, _TO_THE_SECOND, _LONGEST)
    is_local = pc.equal(pc.ascii_ltrim(rest, DIGITS + "."), "")
    found = []
    for mask, read in ((is_local, local), (pc.invert(is_local), lambda some: _micros(some, kind))):
        some = texts.filter(mask)
        if (cells := read(some) if len(some) else pa.nulls(0, kind)) is None:
            return None
        found.append((mask, cells))
    (mask, cells), (others, more) = found
    return pc.replace_with_mask(pc.replace_with_mask(pa.nulls(len(texts), kind), mask, cells), others, more)


def _micros(texts: pa.Array, kind: pa.DataType) -> pa.Array | None:
    """Cast with Arrow, with up to nine fractional digits (only since 1970, where cutting digits rounds down)."""
    found = at_once(texts, kind)
    if found is not None:
        return found
    nanos = at_once(texts, pa.timestamp("ns", kind.tz))
    if nanos is None or pc.min(nanos.cast(pa.int64())).as_py() < 0:
        return None
    return pc.divide(nanos.cast(pa.int64()), 1000).cast(kind)


def _instants(local: pa.Array, indices: pa.Array, zones: list[Zone | None]) -> pa.Array:
    """Convert local times of several zones to seconds since 1970; null for an unknown zone."""
    offsets = pa.array([one if isinstance(one, int) else None for one in zones], pa.int64()).take(indices)
    cells = pc.subtract(local, offsets)
    for at, zone in enumerate(zones):
        if isinstance(zone, ZoneInfo):
            mask = pc.fill_null(pc.equal(indices, at), False)
            clocks = local.filter(mask).cast(pa.timestamp("s"))
            cells = pc.replace_with_mask(cells, mask, _localized(clocks, zone))
    return cells


def _localized(local: pa.Array, zone: Zone) -> pa.Array:
    """Convert local times of one zone to numbers since 1970, in the times' unit; an ambiguous time is the earlier moment."""
    per_second = 1 if local.type.unit == "s" else _SECOND
    numbers = local.cast(pa.int64())
    if isinstance(zone, int):
        return pc.subtract(numbers, zone * per_second) if zone else numbers
    # Arrow applies no daylight-saving time after 2037.
    if not pc.any(pc.greater_equal(numbers, _ARROWS_RULES_END * per_second)).as_py():
        try:
            named = pc.assume_timezone(local, zone.key, ambiguous="earliest", nonexistent="raise")
            return named.cast(pa.int64())
        except pa.ArrowInvalid:
            pass  # a clock was moved forward, or there are no zones where Arrow looks for them
    return pa.array(
        [
            None if number is None else number - _offset_of(number // per_second, zone) * per_second
            for number in numbers.to_pylist()
        ],
        pa.int64(),
    )


def _offset_of(local: int, zone: ZoneInfo) -> int:
    """Return the UTC offset, in seconds, of a local time."""
    # Python's years end at 9999; the calendar, and with it the zones, repeat every 400 years.
    cycle = 146_097 * _DAY_SECONDS
    if local >= 253_402_214_400:
        local = local % cycle + 2 * cycle
    shown = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=max(local, -62_135_596_800 + _DAY_SECONDS))
    offset = shown.replace(tzinfo=zone, fold=0).utcoffset()
    assert offset is not None
    return offset // timedelta(seconds=1)
