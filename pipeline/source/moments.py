"""Texts as dates and times, as Spark's ``try_cast`` of a string has them in the session's zone: null where it has null.

A time may have any number of digits after the second, of which six count, and a zone after the second: ``Z``, an
offset, or a name that Java has. A time without one is of the session's zone; in an hour that a clock skips it is as
if the clock had not been moved. A time of day alone, which Spark takes for one of today, is no time here: a batch that
is run again tomorrow is to have the same rows.

What is written as programs write it is cast a column at once, in whatever mixture (see `casts`).
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa
import pyarrow.compute as pc

from .casts import BLANKS, DIGITS, apart, at_once, kept

if TYPE_CHECKING:
    from collections.abc import Callable

Zone = int | ZoneInfo  # seconds east of UTC, or a region

_MICROS: Final = pa.timestamp("us")
_SECOND: Final = 1_000_000
_DAY_SECONDS: Final = 86_400
_SECONDS_OF_MICROS: Final = 2**63 // _SECOND  # on both sides of 1970 that 64 bits have room for
_ARROWS_RULES_END: Final = 2_114_380_800  # 2037
_TO_THE_SECOND: Final = 19  # characters, without a zone
_LONGEST: Final = 60  # characters that are looked at; a usual time has 35 at most
_AFTER_A_DATE: Final = pa.array([b"", b" ", b"T"])
_DAYS_OF_ALL_YEARS: Final = pa.array(
    [(date(2001, 1, 1) + timedelta(days=day)).strftime("%m-%d").encode() for day in range(365)]
)
_NO_DAYS: Final = pa.array(
    [f"-{day}".encode() for day in ("02-30", "02-31", "04-31", "06-31", "09-31", "11-31")]
)
_HOURS: Final = pa.array([f"{minute // 60:02}:{minute % 60:02}".encode() for minute in range(24 * 60)])
_SECONDS: Final = pa.array([b"%02d" % second for second in range(60)])
_DAYS: Final = pa.array([0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
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
    """Return a zone by what Java calls it; None: there is none."""
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
    """Return dates: ``2020``, ``2020-1``, ``2020-1-2``, and what follows that after a space or T does not matter."""
    if (quick := at_once(texts, kind)) is not None:
        return quick
    raw = texts.cast(pa.binary())
    follows = pc.is_in(pc.binary_slice(raw, 10, 11), _AFTER_A_DATE)
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
    """Return what texts have between two bytes, be it UTF-8 or not."""
    return pc.cast(pc.binary_slice(texts.cast(pa.binary()), start, end), pa.string(), safe=False)


def _is_surely_a_day(raw: pa.Array) -> pa.Array:
    """Return which texts begin with a day that each year has, if they begin with a year."""
    dash, day = pc.binary_slice(raw, 4, 5), pc.binary_slice(raw, 5, 10)
    return pc.and_(pc.equal(dash, b"-"), pc.is_in(day, _DAYS_OF_ALL_YEARS))


def _taken_apart(
    texts: pa.Array, pattern: str, convert: Callable[[pa.Array], pa.Array], kind: pa.DataType
) -> pa.Array:
    """Return what becomes of the parts that a pattern finds in texts; null where it is not found."""
    texts = pc.ascii_trim(texts, BLANKS)
    year = _piece(pc.ascii_ltrim(texts, "+-"), 0, 4)
    begins = pc.and_(pc.ascii_is_decimal(year), pc.equal(pc.binary_length(year), 4))
    # What no year has is found a tenth as fast by taking it apart.
    begins = pc.and_not(begins, pc.is_in(pc.binary_slice(texts.cast(pa.binary()), 4, 10), _NO_DAYS))
    cells = pa.nulls(len(texts), kind)
    if not pc.any(begins).as_py():
        return cells
    # To see that a pattern is not there takes a third of looking for its parts.
    is_found = pc.fill_null(pc.match_substring_regex(kept(begins, texts), pattern), False)
    return pc.replace_with_mask(cells, is_found, convert(pc.extract_regex(texts.filter(is_found), pattern)))


def _days(parts: pa.Array) -> pa.Array:
    """Return days since 1970, of any year; null where there is no such day."""
    year, month, day = (_number(parts, name, 1) for name in ("year", "month", "day"))
    is_leap = pc.and_(_divides(year, 4), pc.or_(pc.invert(_divides(year, 100)), _divides(year, 400)))
    is_there = pc.and_(
        pc.less_equal(day, _DAYS.take(month)),
        pc.or_(is_leap, pc.or_(pc.not_equal(month, 2), pc.less(day, 29))),
    )
    # Years that begin with March end with the day that not all have.
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
    """Return one of the numbers in texts that a pattern has taken apart; of one that is not there, a default."""
    found = pc.ascii_ltrim(pc.struct_field(parts, name), "+")
    return pc.if_else(pc.equal(found, ""), str(default), found).cast(pa.int64())


def _divides(years: pa.Array, by: int) -> pa.Array:
    return pc.equal(pc.multiply(pc.divide(years, by), by), years)


def times(texts: pa.Array, kind: pa.DataType, zone: str) -> pa.Array:
    """Return times: instants, of the session's zone where they name none; or what a clock showed, wherever, if the type has no zone."""
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
    # Arrow reads hours and minutes with a zone (`T22-00:00`, `T22:00+01:00`), Spark does not: a usual time with a zone has its seconds.
    to_the_minute, to_the_second = (pc.equal(pc.binary_slice(raw, at, at + 1), b":") for at in (13, 16))
    rest = pc.match_substring_regex(_piece(texts, _TO_THE_SECOND, _LONGEST), _REST if kind.tz else _FRACTION)
    to_the_second = pc.and_(to_the_second, pc.is_in(pc.binary_slice(raw, 17, 19), _SECONDS))
    to_the_minute = pc.and_(to_the_minute, pc.is_in(pc.binary_slice(raw, 11, 16), _HOURS))
    to_the_minute = pc.and_(to_the_minute, pc.or_(pc.equal(length, 16), pc.and_(to_the_second, rest)))
    is_usual = pc.and_(pc.or_(pc.equal(length, 10), to_the_minute), _is_surely_a_day(raw))
    return apart(
        texts, is_usual, lambda some: _usual_times(some, kind, here), lambda some: _times(some, kind, here)
    )


def _times(texts: pa.Array, kind: pa.DataType, here: Zone) -> pa.Array:
    texts = kept(pc.invert(_is_surely_none(texts)), texts)
    return _taken_apart(texts, _MOMENT, lambda parts: _times_of(parts, kind, here), kind)


def _is_surely_none(texts: pa.Array) -> pa.Array:
    """Return which texts, written to the second in two digits each, have an hour or a zone that does not exist.

    Half a column of ``CEST`` or ``24:00`` takes 2.1 times a good one; by their parts it would take four times.
    """
    raw = texts.cast(pa.binary())
    rest = pc.ascii_ltrim(pc.ascii_rtrim(_piece(texts, _TO_THE_SECOND, _LONGEST), BLANKS), DIGITS + ".")
    zones = rest.dictionary_encode()
    names = [name.decode(errors="replace") for name in zones.dictionary.cast(pa.binary()).to_pylist()]
    is_none = pa.array([bool(name) and zone_of(name) is None for name in names], pa.bool_()).take(
        zones.indices
    )
    is_none = pc.or_(is_none, pc.invert(pc.is_in(pc.binary_slice(raw, 11, 16), _HOURS)))
    marks = [
        pc.equal(pc.binary_slice(raw, at, at + 1), mark)
        for at, mark in ((4, b"-"), (7, b"-"), (13, b":"), (16, b":"))
    ]
    marks += [
        pc.is_in(pc.binary_slice(raw, 17, 19), _SECONDS),
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
    # What is beyond 64 bits changes its sign.
    micros = pc.add(pc.multiply(seconds, _SECOND), fraction.cast(pa.int64()))
    is_there = pc.and_(
        pc.less_equal(pc.abs(seconds), _SECONDS_OF_MICROS + 1),
        pc.equal(pc.less(micros, 0), pc.less(seconds, 0)),
    )
    return kept(is_there, micros).cast(kind)


def _usual_times(texts: pa.Array, kind: pa.DataType, here: Zone) -> pa.Array | None:
    """Return times as programs write them, or dates, with a zone or without, or None: others are among them."""
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
    """Return what Arrow reads, of up to nine digits after the second (from 1970 on: what is cut off is no less than nothing)."""
    found = at_once(texts, kind)
    if found is not None:
        return found
    nanos = at_once(texts, pa.timestamp("ns", kind.tz))
    if nanos is None or pc.min(nanos.cast(pa.int64())).as_py() < 0:
        return None
    return pc.divide(nanos.cast(pa.int64()), 1000).cast(kind)


def _instants(local: pa.Array, indices: pa.Array, zones: list[Zone | None]) -> pa.Array:
    """Return seconds since 1970 of what clocks showed in several zones; null where a zone is none."""
    offsets = pa.array([one if isinstance(one, int) else None for one in zones], pa.int64()).take(indices)
    cells = pc.subtract(local, offsets)
    for at, zone in enumerate(zones):
        if isinstance(zone, ZoneInfo):
            mask = pc.fill_null(pc.equal(indices, at), False)
            clocks = local.filter(mask).cast(pa.timestamp("s"))
            cells = pc.replace_with_mask(cells, mask, _localized(clocks, zone))
    return cells


def _localized(local: pa.Array, zone: Zone) -> pa.Array:
    """Return what clocks of one zone showed as numbers since 1970, in the unit of the times: of two moments the first one."""
    per_second = 1 if local.type.unit == "s" else _SECOND
    numbers = local.cast(pa.int64())
    if isinstance(zone, int):
        return pc.subtract(numbers, zone * per_second) if zone else numbers
    # Arrow moves no clock after 2037.
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
    """Return the seconds that a clock is ahead of UTC when it shows a moment."""
    # Python's years end with 9999; what zones do comes again after 400.
    cycle = 146_097 * _DAY_SECONDS
    if local >= 253_402_214_400:
        local = local % cycle + 2 * cycle
    shown = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=max(local, -62_135_596_800 + _DAY_SECONDS))
    offset = shown.replace(tzinfo=zone, fold=0).utcoffset()
    assert offset is not None
    return offset // timedelta(seconds=1)
