"""What the sink writes the source reads back, whatever the type, the value and the session's zone."""

import json
import math
from datetime import UTC, date, datetime

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import types as t
from support.thorough import examples

from rillet.pipeline.sink.texts import texts
from rillet.pipeline.source.values import parse_texts, unsupported

ZONES = [
    "UTC", "Europe/Amsterdam", "America/New_York", "Asia/Kolkata", "Africa/Monrovia", "Australia/Lord_Howe", "Asia/Kathmandu",
    "+05:30", "America/St_Johns", "Pacific/Apia",
]  # fmt: skip
WORDS = st.text(st.characters(codec="utf-8"), max_size=8)
MOMENTS = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29))  # noqa: DTZ001 - of each zone


def decimals(precision, scale):
    return st.integers(-(10**precision) + 1, 10**precision - 1).map(lambda number: f"{number}e-{scale}")


SCALARS = {
    pa.string(): WORDS,
    pa.binary(): st.binary(max_size=8) | st.sampled_from([b"abcd", b"hello world", b"\xff\xfe"]),
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-(2**7), 2**7 - 1),
    pa.int16(): st.integers(-(2**15), 2**15 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.decimal128(38, 18): decimals(38, 18),
    pa.decimal128(20, 0): decimals(20, 0),
    pa.decimal128(5, 5): decimals(5, 5),
    pa.date32(): st.dates(date(1, 1, 1), date(9999, 12, 31)),
    pa.timestamp("us"): MOMENTS,
    pa.timestamp("us", "UTC"): MOMENTS.map(lambda moment: moment.replace(tzinfo=UTC)),
}


def nested(parts):
    """Types with members: lists, structs, and maps with string keys."""
    values = dict(parts)
    kinds = st.sampled_from(sorted(values, key=str))
    return st.one_of(
        kinds.map(lambda kind: (pa.list_(kind), st.lists(st.none() | values[kind], max_size=3))),
        kinds.map(
            lambda kind: (
                pa.map_(pa.string(), kind),
                st.dictionaries(WORDS, st.none() | values[kind], max_size=3).map(lambda pairs: list(pairs.items())),
            )
        ),
        st.tuples(kinds, kinds).map(
            lambda two: (
                pa.struct([("a", two[0]), ("b", two[1])]),
                st.fixed_dictionaries({"a": st.none() | values[two[0]], "b": st.none() | values[two[1]]}),
            )
        ),
    )  # fmt: skip


flat = st.sampled_from(sorted(SCALARS, key=str)).map(lambda kind: (kind, SCALARS[kind]))
once = nested(SCALARS.items())
columns = flat | once | once.flatmap(lambda inner: nested([inner, (pa.int64(), SCALARS[pa.int64()])]))


def filled(values, kind):
    """An array of such values; decimals are given as texts, which nothing rounds."""

    def made(value, kind):
        if value is None:
            return None
        if pa.types.is_decimal(kind):
            return pa.scalar(value).cast(kind).as_py()
        if pa.types.is_list(kind):
            return [made(each, kind.value_type) for each in value]
        if pa.types.is_map(kind):
            return [(key, made(each, kind.item_type)) for key, each in value]
        if pa.types.is_struct(kind):
            return {field.name: made(value[field.name], field.type) for field in kind}
        return value

    return pa.array([made(value, kind) for value in values], kind)


def in_zone(kind, zone):
    """The type as Spark gives it to a sink: instants have the zone of the session."""
    if pa.types.is_timestamp(kind) and kind.tz:
        return pa.timestamp("us", zone)
    if pa.types.is_list(kind):
        return pa.list_(in_zone(kind.value_type, zone))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, in_zone(kind.item_type, zone))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, in_zone(field.type, zone)) for field in kind])
    return kind


def comparable(value):
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else (value, math.copysign(1, value))
    if isinstance(value, (list, tuple)):
        return [comparable(each) for each in value]
    if isinstance(value, dict):
        return {key: comparable(each) for key, each in value.items()}
    return value


@settings(max_examples=examples(300))
@given(st.data(), columns, st.sampled_from(ZONES))
def test_each_value_of_each_type_comes_back(data, column, zone):
    kind, values = column
    given_values = filled(data.draw(st.lists(st.none() | values, min_size=1, max_size=6)), kind)
    written = texts(given_values.cast(in_zone(kind, zone)).slice(0))
    for offset in (0, 1):  # batches are slices of what Spark sends
        assert texts(given_values.cast(in_zone(kind, zone)).slice(offset)) == written[offset:]
    back, bad = parse_texts(written, kind, zone=zone)
    assert bad == []
    assert comparable(back.to_pylist()) == comparable(given_values.to_pylist())
    if pa.types.is_nested(kind):
        assert all(
            text is None or json.loads(text, parse_constant=pytest.fail) is not None for text in written
        )


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1.0, b"1.0"), (1e16, b"1.0E16"), (1e-7, b"1.0E-7"), (0.001, b"0.001"), (0.0009999, b"9.999E-4"), (9999999.0, b"9999999.0"),
        (1e7, b"1.0E7"), (123456789.5, b"1.234567895E8"), (math.nan, b"NaN"), (math.inf, b"Infinity"), (-math.inf, b"-Infinity"),
        (-0.0, b"-0.0"), (1.7976931348623157e308, b"1.7976931348623157E308"), (2.2250738585072014e-308, b"2.2250738585072014E-308"),
    ],
)  # fmt: skip
def test_doubles_are_written_as_spark_shows_them(value, shown):
    assert texts(pa.array([value, None, 2.5])) == [shown, None, b"2.5"]
    member = shown.decode() if math.isfinite(value) else f'"{shown.decode()}"'
    assert texts(pa.array([{"x": value}])) == [b'{"x":%b}' % member.encode()]


def test_decimals_are_written_without_an_exponent():
    column = pa.array(["0.000000000000000001", None, "-1.5"]).cast(pa.decimal128(38, 18))
    assert texts(column) == [b"0.000000000000000001", None, b"-1.500000000000000000"]


def test_a_time_whose_offset_has_seconds_is_written_in_utc():
    old, new = datetime(1930, 6, 1, 12, tzinfo=UTC), datetime(2026, 6, 1, 12, tzinfo=UTC)
    column = pa.array([old, new], pa.timestamp("us", "Europe/Amsterdam"))
    assert texts(column) == [b"1930-06-01T12:00:00.000000Z", b"2026-06-01T14:00:00.000000+0200"]


@pytest.mark.parametrize(
    "kind",
    [t.VariantType(), t.DayTimeIntervalType(), t.YearMonthIntervalType(), t.TimeType()],
    ids=lambda kind: kind.typeName(),
)
def test_types_that_no_entry_can_hold_are_found_wherever_they_are(kind):
    for whole in (
        kind,
        t.ArrayType(kind),
        t.MapType(t.StringType(), kind),
        t.ArrayType(t.StructType().add("x", t.ArrayType(kind))),
    ):
        assert unsupported(t.StructType().add("a", "integer").add("v", whole)) is kind


def test_types_that_are_read_back_are_supported():
    kind = (
        t.StructType()
        .add("a", t.ArrayType(t.MapType(t.StringType(), t.DecimalType(5, 2))))
        .add("b", "timestamp_ntz")
    )
    assert unsupported(kind.add("c", t.NullType())) is None
