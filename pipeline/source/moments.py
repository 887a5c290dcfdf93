"""Texts as dates and times, as Spark's ``try_cast`` of a string has them in the session's zone: null where it has null.

A time may have any number of digits after the second, of which six count, and a zone after the second: ``Z``, an
offset, or a name that Java has. A time without one is of the session's zone; in an hour that a clock skips it is as
if the clock had not been moved. A time of day alone, which Spark takes for one of today, is no time here: a batch that
is run again tomorrow is to have the same rows.

What is written as programs write it is cast a column at once, in whatever mixture (see `casts`).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa
import pyarrow.compute as pc

from .casts import BLANKS, apart, at_once, each_of, kept

Zone = int | ZoneInfo  # seconds east of UTC, or a region

_MICROS: Final = pa.timestamp("us")
_SECOND: Final = 1_000_000
_LEAST: Final = -(2**63)
_MOST: Final = 2**63 - 1
_DAYS: Final = pa.array([0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
_DATE: Final = r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_USUAL_DATE: Final = rf"(?s)\A{_DATE}([ T].*)?\z"
_USUAL: Final = rf"(?s)\A{_DATE}[T ]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]*)?([^0-9.].*)?\z"
_ARROWS_RULES_END: Final = 2_114_380_800 * _SECOND  # 2037
_TO_THE_SECOND: Final = 19  # characters, without a zone
_LONGEST_USUAL: Final = 80
# What the slow ways below may read.
_SHORT_DATE: Final = r"-(0?[1-9]|1[0-2])(-(0?[1-9]|[12][0-9]|3[01])"
_PERHAPS_DAY: Final = rf"(?s)\A[+-]?[0-9]{{4,7}}({_SHORT_DATE}([ T].*)?)?)?\z"
_PERHAPS: Final = rf"(?s)\A[+-]?[0-9]{{4,6}}({_SHORT_DATE}([ T]([01]?[0-9]|2[0-3])(:[0-5]?[0-9](:[0-5]?[0-9](\.[0-9]*)?([^0-9.].*)?)?)?)?)?)?\z"
_MOMENT: Final = re.compile(
    r"([+-]?[0-9]{4,6})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T]([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?"
    r"([^0-9.].*)?)?)?)?)?)?",
    re.DOTALL,
)
_DAY: Final = re.compile(r"([+-]?[0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?", re.DOTALL)
_OFFSET: Final = re.compile(r"([+-])([0-9]{1,2})(?::?([0-9]{2})(?::?([0-9]{2}))?)?")
_WITH_OFFSET: Final = r"[+-](0[0-9]|1[0-7]):?[0-5][0-9]\z"
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
    is_usual = pc.equal(pc.binary_length(texts), 10)
    return apart(texts, is_usual, lambda some: at_once(some, kind), lambda some: _dates(some, kind))


def _dates(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    texts = pc.ascii_trim(texts, BLANKS)
    perhaps = pc.match_substring_regex(texts, _PERHAPS_DAY)
    if not pc.any(perhaps).as_py():
        return pa.nulls(len(texts), kind)
    is_usual = pc.match_substring_regex(texts, _USUAL_DATE)
    usual = pc.binary_slice(kept(is_usual, texts).cast(pa.binary()), 0, 10).cast(pa.string())
    cells = kept(_has_day(usual), usual).cast(kind)
    rare = pc.and_not(perhaps, is_usual)
    return each_of(rare, texts, _day, cells.cast(pa.int32())).cast(kind)


def _day(text: str) -> int | None:
    found = _DAY.fullmatch(text)
    days = None if found is None else _days(int(found[1]), int(found[2] or 1), int(found[3] or 1))
    return days if days is not None and -(2**31) <= days < 2**31 else None


def _days(year: int, month: int, day: int) -> int | None:
    """Return days since 1970, of any year; None: there is no such day."""
    cycles, year = divmod(year, 400)
    try:
        return (datetime(year + 2000, month, day) - datetime(1970, 1, 1)).days + (cycles - 5) * 146_097  # noqa: DTZ001 - a date
    except ValueError:
        return None


def _has_day(texts: pa.Array) -> pa.Array:
    """Return whether months have the days of dates that are written as usual."""
    raw = texts.cast(pa.binary())
    year, month, day = (
        pc.binary_slice(raw, at, end).cast(pa.string()).cast(pa.int64())
        for at, end in ((0, 4), (5, 7), (8, 10))
    )
    is_leap = pc.and_(_divides(year, 4), pc.or_(pc.invert(_divides(year, 100)), _divides(year, 400)))
    is_there = pc.less_equal(day, _DAYS.take(month))
    return pc.and_(is_there, pc.or_(is_leap, pc.or_(pc.not_equal(month, 2), pc.less(day, 29))))


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
        quick = _localized(quick.cast(pa.int64()), here).cast(kind)  # Arrow reads no zone as a time without
    if quick is not None:
        return quick
    raw = texts.cast(pa.binary())
    # Arrow reads hours and minutes with a zone (`T22-00:00`, `T22:00+01:00`), Spark does not: a usual time has its seconds.
    is_usual = pc.and_(*(pc.equal(pc.binary_slice(raw, at, at + 1), b":") for at in (13, 16)))
    return apart(
        texts, is_usual, lambda some: _usual_times(some, kind, here), lambda some: _times(some, kind, here)
    )


def _times(texts: pa.Array, kind: pa.DataType, here: Zone) -> pa.Array:
    texts = pc.ascii_trim(texts, BLANKS)
    perhaps = pc.match_substring_regex(texts, _PERHAPS)
    if not pc.any(perhaps).as_py():
        return pa.nulls(len(texts), kind)
    length = pc.binary_length(texts)
    # A date, or one with hours and minutes, is as usual once it is whole; what else is as long is not usual then, either.
    rest = pc.if_else(pc.equal(length, 10), "T00:00:00", pc.if_else(pc.equal(length, 16), ":00", ""))
    whole = pc.binary_join_element_wise(texts, rest, "")
    is_usual = pc.and_(pc.match_substring_regex(whole, _USUAL), pc.less_equal(length, _LONGEST_USUAL))
    raw = kept(is_usual, whole).cast(pa.binary())
    seconds = pc.binary_slice(raw, 0, 19).cast(pa.string())
    try:
        local = seconds.cast(_MICROS)
    except pa.ArrowInvalid:
        local = kept(_has_day(seconds), seconds).cast(_MICROS)
    rest = pc.binary_slice(raw, 19, _LONGEST_USUAL).cast(pa.string())
    micros = local.cast(pa.int64())
    if pc.any(pc.starts_with(rest, ".")).as_py():
        digits = pc.replace_substring_regex(rest, r"\A\.?([0-9]{0,6})(.|\n)*\z", r"\1")
        micros = pc.add(micros, pc.ascii_rpad(digits, 6, "0").cast(pa.int64()))
    zones = pc.replace_substring_regex(rest, r"\A(\.[0-9]*)? *", "").dictionary_encode()
    known = [here if not name else zone_of(name) for name in zones.dictionary.to_pylist()]
    if kind.tz is None:
        known = [None if one is None else 0 for one in known]
    cells = _instants(micros, zones.indices, known)

    def convert(text: str) -> int | None:
        return _moment(text, here, has_zone=kind.tz is not None)

    rare = pc.and_not(perhaps, is_usual)
    return each_of(rare, texts, convert, cells).cast(kind)


def _usual_times(texts: pa.Array, kind: pa.DataType, here: Zone) -> pa.Array | None:
    """Return times as programs write them, with a zone or without, or None: others are among them."""
    is_zoned = pc.or_(pc.ends_with(texts, "Z"), pc.match_substring_regex(texts, _WITH_OFFSET))
    has_zone = pc.fill_null(is_zoned, False)
    zoned = texts.filter(has_zone)
    if kind.tz is None:
        return None if len(zoned) else _micros(texts, kind)
    if len(zoned) == len(texts):
        return _micros(texts, kind)
    local = _micros(texts.filter(pc.invert(has_zone)), _MICROS)
    if local is None:
        return None
    instants = _localized(local.cast(pa.int64()), here).cast(kind)
    if not len(zoned):
        return instants
    others = _micros(zoned, kind)
    if others is None:
        return None
    found = pc.replace_with_mask(pa.nulls(len(texts), kind), has_zone, others)
    return pc.replace_with_mask(found, pc.invert(has_zone), instants)


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
    """Return microseconds since 1970 of what clocks showed in several zones; null where a zone is none."""
    offsets = pa.array([one if isinstance(one, int) else None for one in zones], pa.int64()).take(indices)
    cells = pc.subtract(local, pc.multiply(offsets, _SECOND))
    for at, zone in enumerate(zones):
        if isinstance(zone, ZoneInfo):
            mask = pc.fill_null(pc.equal(indices, at), False)
            cells = pc.replace_with_mask(cells, mask, _localized(local.filter(mask), zone))
    return cells


def _localized(local: pa.Array, zone: Zone) -> pa.Array:
    """Return microseconds since 1970 of what clocks of one zone showed: of two moments the first one."""
    if isinstance(zone, int):
        return pc.subtract(local, zone * _SECOND) if zone else local
    # Arrow moves no clock after 2037.
    if not pc.any(pc.greater_equal(local, _ARROWS_RULES_END)).as_py():
        try:
            named = pc.assume_timezone(
                local.cast(_MICROS), zone.key, ambiguous="earliest", nonexistent="raise"
            )
            return named.cast(pa.int64())
        except pa.ArrowInvalid:
            pass  # a clock was moved forward, or there are no zones where Arrow looks for them
    return pa.array(
        [None if micros is None else _instant(micros, zone) for micros in local.to_pylist()], pa.int64()
    )


def _instant(local: int, zone: Zone) -> int:
    if isinstance(zone, int):
        return local - zone * _SECOND
    # Python's years end with 9999; what zones do comes again after 400.
    cycle = 146_097 * 86_400 * _SECOND
    shifted = local
    if not -62_135_596_800 * _SECOND <= local < 253_402_214_400 * _SECOND:
        shifted = (
            local % cycle + (2 * cycle if local > 0 else 0)
            if local > 0
            else -62_135_596_800 * _SECOND + 86_400 * _SECOND
        )
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=shifted)
    offset = moment.replace(tzinfo=zone, fold=0).utcoffset()
    assert offset is not None
    return local - offset // timedelta(microseconds=1)


def _moment(text: str, here: Zone, *, has_zone: bool) -> int | None:
    """Return one time that is written in another way."""
    found = _MOMENT.fullmatch(text)
    if found is None:
        return None
    days = _days(int(found[1]), int(found[2] or 1), int(found[3] or 1))
    hour, minute, second = (int(found[at] or 0) for at in (4, 5, 6))
    zone: Any = zone_of(found[8]) if found[8] else here
    if days is None or zone is None or hour > 23 or minute > 59 or second > 59:
        return None
    fraction = int((found[7] or "")[:6].ljust(6, "0"))
    local = ((days * 24 + hour) * 60 + minute) * 60 + second
    instant = local * _SECOND + fraction
    if has_zone:
        instant = _instant(instant, zone)
    return instant if _LEAST <= instant <= _MOST else None
