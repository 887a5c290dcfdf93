"""pipeline/source/entry_batches.py and values.py: nothing of an entry is lost; what does not fit is handled as asked."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_schema

from rillet.pipeline.redis import ids
from rillet.pipeline.redis.options import OptionError, Options
from rillet.pipeline.source.entry_batches import ColumnOptions, Columns, MalformedEntryError, default_schema
from rillet.pipeline.source.values import UnsupportedTypeError

MAX = 2**64 - 1


def schema(**columns):
    found = t.StructType()
    for name, kind in columns.items():
        found.add(name, kind)
    return found


def rows_of(entries, *, options=None, **columns):
    found = Columns(schema(**columns), ColumnOptions.of(Options(options or {}))).batch(
        [("s", len(entries))], entries
    )
    assert found.schema == to_arrow_schema(schema(**columns), timezone="UTC")
    return found.to_pylist()


def entry(stream_id, *words):
    return [stream_id.encode(), [word if isinstance(word, bytes) else word.encode() for word in words]]


@given(
    st.lists(st.tuples(st.integers(0, MAX), st.integers(0, MAX), st.lists(st.tuples(st.binary(), st.binary()), min_size=1))),
)  # fmt: skip
@example(
    [(253_402_300_799_999, 0, [(b"f", b"v")]), (253_402_300_800_000, 0, [(b"f", b"v")])]
)  # the year 9999 and the next
def test_default_columns_keep_all_there_is(made):
    entries = [[b"%d-%d" % (ms, seq), [word for pair in fields for word in pair]] for ms, seq, fields in made]
    batch = Columns(default_schema(), ColumnOptions()).batch([("s", len(entries))], entries)
    assert batch.schema == to_arrow_schema(default_schema(), timezone="UTC")
    for row, (ms, seq, fields) in zip(batch.to_pylist(), made, strict=True):
        assert (row["stream"], row["id"]) == ("s", f"{ms}-{seq}")
        assert ids.split(ids.from_key(row["id_key"])) == (ms, seq)
        assert row["seq"] == seq
        expected = (
            datetime.fromtimestamp(ms // 1000, UTC).replace(microsecond=ms % 1000 * 1000)
            if ms <= 253_402_300_799_999
            else None
        )
        assert row["ts"] == expected
        assert [pair["value"] for pair in row["fields"]] == [value for _, value in fields]
        assert [pair["name"] for pair in row["fields"]] == [
            name.decode("utf-8", "backslashreplace") for name, _ in fields
        ]


def test_fields_may_be_asked_for_as_strings_or_binary():
    for kind, expected in (
        (t.StringType(), {"name": "n", "value": "\\xff"}),
        (t.BinaryType(), {"name": b"n", "value": b"\xff"}),
    ):
        pair = schema(name=kind, value=kind)
        assert rows_of([entry("1-0", "n", b"\xff")], fields=t.ArrayType(pair)) == [{"fields": [expected]}]


TYPED = {
    "text": (t.StringType(), "héllo", "héllo", b"\xff"),
    "raw": (t.BinaryType(), b"\xff\0", b"\xff\0", None),
    "yes": (t.BooleanType(), "true", True, "on"),
    "small": (t.ByteType(), "-128", -128, "128"),
    "big": (t.LongType(), "9223372036854775807", 2**63 - 1, "9223372036854775808"),
    "plain": (t.IntegerType(), "16", 16, "0x10"),
    "real": (t.DoubleType(), "1e3", 1000.0, "one"),
    "money": (t.DecimalType(10, 2), "-12345678.90", Decimal("-12345678.90"), "123456789.90"),
    "day": (t.DateType(), "2026-11-20", date(2026, 11, 20), "20.11.2026"),
    "at": (t.TimestampType(), "2026-11-20T10:00:00.5+02:00", datetime(2026, 11, 20, 8, 0, 0, 500_000, UTC), "noon"),
    "here": (t.TimestampNTZType(), "2026-11-20 10:00:00", datetime(2026, 11, 20, 10), "2026-13-01"),  # noqa: DTZ001 - has no zone
    "list": (t.ArrayType(t.LongType()), "[1, null, 3]", [1, None, 3], '["a"]'),
    "map": (t.MapType(t.StringType(), t.DoubleType()), '{"a": 1}', [("a", 1.0)], "[]"),
    "tree": (schema(a=t.LongType(), b=t.StringType()), '{"a": 1, "b": {"c": [2]}}', {"a": 1, "b": '{"c": [2]}'}, "{"),
}  # fmt: skip


@pytest.mark.parametrize("name", TYPED)
def test_a_field_is_read_as_its_columns_type(name):
    kind, good, expected, wrong = TYPED[name]
    columns = {name: kind, "_corrupt_record": t.StringType()}
    entries = [entry("1-0", name, good), entry("2-0", "other", "x")]
    assert rows_of(entries, **columns) == [
        {name: expected, "_corrupt_record": None},
        {name: None, "_corrupt_record": None},
    ]
    if wrong is not None:
        entries = [entry(f"{number}-0", name, wrong if number in {2, 5} else good) for number in range(6)]
        found = rows_of(entries, **columns)
        assert [row[name] for row in found] == [None if number in {2, 5} else expected for number in range(6)]
        assert [index for index, row in enumerate(found) if row["_corrupt_record"]] == [2, 5]
        kept = rows_of(entries, options={"parseMode": "dropmalformed"}, **{name: kind, "id": t.StringType()})
        assert [row["id"] for row in kept] == ["0-0", "1-0", "3-0", "4-0"]
        with pytest.raises(MalformedEntryError, match=f"entry 2-0: column or field '{name}'"):
            rows_of(entries, options={"parseMode": "FAILFAST"}, **columns)


def test_a_time_without_a_zone_is_utc():
    texts = ["2026-11-20T10:00:00", "2026-11-20T10:00:00Z", "2026-11-20"]
    rows = rows_of([entry("1-0", "at", text) for text in texts], at=t.TimestampType())
    assert [row["at"].hour for row in rows] == [10, 10, 0]
    assert {str(row["at"].tzinfo) for row in rows} == {"UTC"}


def test_the_corrupt_record_has_the_whole_entry():
    entries = [entry("1-0", "n", "x", "n", b"\xff", "q", '"')]
    columns = {"n": t.LongType(), "bad": t.StringType()}
    assert rows_of(entries, options={"columnNameOfCorruptRecord": "bad"}, **columns) == [
        {"n": None, "bad": '{"n": "x", "n": "\\\\xff", "q": "\\""}'}
    ]


@given(
    st.lists(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc123")), min_size=1), min_size=1)
)
def test_of_several_fields_of_one_name_the_last_counts(made):
    entries = [entry("1-0", *(word for pair in fields for word in pair)) for fields in made]
    rows = rows_of(entries, a=t.StringType(), b=t.StringType())
    assert rows == [{name: dict(fields).get(name) for name in "ab"} for fields in made]


def test_json_in_one_field_fills_the_columns():
    texts = [
        '{"n": 1, "price": 1.10, "name": "x", "tags": ["a", 1], "gone": null}',
        '{"n": "1"}',
        '{"n": true, "name": {"a": 1}}',
        '{"price": 1.105}',
        "[]",
        "no json",
    ]
    entries = [entry(f"{index}-0", "doc", text) for index, text in enumerate(texts)] + [
        entry("9-0", "other", "x")
    ]
    columns = {
        "id": t.StringType(), "n": t.LongType(), "price": t.DecimalType(5, 2), "name": t.StringType(),
        "tags": t.ArrayType(t.StringType()), "_corrupt_record": t.StringType(),
    }  # fmt: skip
    found = rows_of(entries, options={"valueFormat": "json", "valueField": "doc"}, **columns)
    assert found[0] == {
        "id": "0-0", "n": 1, "price": Decimal("1.10"), "name": "x", "tags": ["a", "1"], "_corrupt_record": None,
    }  # fmt: skip
    assert [row["n"] for row in found[1:]] == [1, *[None] * 5]
    assert found[2]["name"] == '{"a": 1}'
    assert found[3]["price"] == Decimal("1.11")
    is_good = (1, 3)  # as texts they fit
    assert [row["_corrupt_record"] for row in found[1:]] == [
        None if at in is_good else text for at, text in enumerate([*texts, '{"other": "x"}'])
    ][1:]


def test_json_numbers_dates_and_bytes_are_checked():
    text = '{"f": "NaN", "d": "2026-11-20", "t": "2026-11-20T10:00:00", "z": "2026-11-20T10:00:00Z", "b": "/w=="}'
    columns = {
        "f": t.DoubleType(), "d": t.DateType(), "t": t.TimestampNTZType(), "z": t.TimestampType(), "b": t.BinaryType(),
    }  # fmt: skip
    (row,) = rows_of([entry("1-0", "value", text)], options={"valueFormat": "json"}, **columns)
    assert str(row["f"]) == "nan"
    assert (row["d"], row["b"]) == (date(2026, 11, 20), b"\xff")
    assert row["z"].replace(tzinfo=None) == row["t"]
    for wrong in ('{"t": "2026-11-20T10:00Z"}', '{"f": "x"}', '{"f": true}', '{"d": 1}', '{"b": "?"}'):
        with pytest.raises(MalformedEntryError):
            rows_of(
                [entry("1-0", "value", wrong)],
                options={"valueFormat": "json", "parseMode": "FAILFAST"},
                **columns,
            )


HOSTILE = [
    r'"\ud83d"', "[" * 200_000, '{"a":' * 200_000, "[" * 900 + "]" * 900, "1e9999999999999999999", "-1e-9999999999999999999",
    "1e400", "NaN", "-Infinity", "1" * 5000, "1." + "1" * 5000, "99999999999", '"0001-01-01T00:00:00+14:00"',
    '"9999-12-31T23:59:59-14:00"', '"+99999-01-01"', '"2026-02-30"', r'"\u0000"', '""', "null", "{}", "",
]  # fmt: skip
WRAPS = ["{}", "[{}]", '{{"a": {}}}', '{{"b": {}}}', "{{{}: 1}}", '{{"a": [{}]}}', '{{"x": {}}}']


@pytest.mark.parametrize("form", ["json", "fields"])
@pytest.mark.parametrize(
    "kind",
    [*(kind for kind, *_ in TYPED.values()), t.MapType(t.StringType(), t.ArrayType(t.DecimalType(10, 2))), t.ArrayType(t.StringType())],
    ids=str,
)  # fmt: skip
def test_nothing_an_entry_says_stops_a_query(kind, form):
    texts = [wrap.format(text) for text in HOSTILE for wrap in WRAPS]
    if form == "json":
        texts = [f'{{"v": {text}}}' for text in texts]
    raw = [text.encode() for text in texts] + [b"\xff", b'"\xed\xa0\xbd"', b"\0"]
    name = "value" if form == "fields" else "v"
    columns = schema(**{"id": t.StringType(), name: kind, "_corrupt_record": t.StringType()})

    def read(entries, mode):
        options = ColumnOptions(parse_mode=mode, value_format=form)
        return (
            Columns(columns, options)
            .batch([("s", len(entries))], entries)
            .select(["id", "_corrupt_record"])
            .to_pylist()
        )

    entries = [entry(f"{index}-0", "value", text) for index, text in enumerate(raw)]
    rows = read(entries, "PERMISSIVE")
    good = [row for row in rows if row["_corrupt_record"] is None]
    assert read(entries, "DROPMALFORMED") == good
    whole = {row["id"] for row in good}
    for each, text in zip(entries, raw, strict=True):
        if each[0].decode() in whole:
            assert read([each], "FAILFAST") == [{"id": each[0].decode(), "_corrupt_record": None}], text[:80]
        else:
            with pytest.raises(MalformedEntryError):
                read([each], "FAILFAST")


def test_a_surrogate_spoils_only_its_own_row():
    texts = ['{"name": "a"}', r'{"name": "\ud83d"}', '{"name": "b"}']
    entries = [entry(f"{index}-0", "value", text) for index, text in enumerate(texts)]
    rows = rows_of(
        entries, options={"valueFormat": "json"}, name=t.StringType(), _corrupt_record=t.StringType()
    )
    assert [row["name"] for row in rows] == ["a", None, "b"]
    assert [row["_corrupt_record"] for row in rows] == [None, texts[1], None]


def test_a_prefix_separates_our_columns_from_fields_of_the_same_names():
    entries = [entry("1-0", "id", "mine", "ts", "5")]
    columns = {"_id": t.StringType(), "id": t.StringType(), "ts": t.LongType()}
    assert rows_of(entries, options={"metadataPrefix": "_"}, **columns) == [
        {"_id": "1-0", "id": "mine", "ts": 5}
    ]
    with pytest.raises(OptionError, match=r"column .ts. is timestamp.*metadataPrefix"):
        rows_of(entries, ts=t.LongType())


def test_schemas_that_cannot_be_are_refused_before_anything_is_read():
    with pytest.raises(OptionError, match="'fields' is array"):
        rows_of([], fields=t.MapType(t.StringType(), t.StringType()))
    for kind in (t.VariantType(), t.ArrayType(t.VariantType()), t.DayTimeIntervalType()):
        with pytest.raises(UnsupportedTypeError, match="column 'v': entries cannot be read as"):
            Columns(schema(v=kind), ColumnOptions())
    with pytest.raises(OptionError, match="several columns 'v'"):
        Columns(t.StructType().add("v", "string").add("v", "integer"), ColumnOptions())
    with pytest.raises(OptionError, match="'n' must be nullable"):
        Columns(t.StructType().add("n", t.LongType(), nullable=False), ColumnOptions())
    with pytest.raises(OptionError, match="valueField"):
        rows_of([], options={"valueField": "x"})


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("seconds", "1735689600"), ("seconds", "1735689600.0"), ("milliseconds", "1735689600000"),
        ("microseconds", "1735689600000000"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", [t.TimestampType(), t.TimestampNTZType()])
def test_times_may_be_numbers_since_1970(form, text, kind):
    options = {"timestampFormat": form}
    [row] = rows_of([entry("1-0", "at", text)], options=options, at=kind)
    assert row["at"].replace(tzinfo=UTC) == datetime(2025, 1, 1, tzinfo=UTC)
    document = f'{{"at": {text}, "nothing": null}}'
    [row] = rows_of(
        [entry("1-0", "value", document)], options=options | {"valueFormat": "json"}, at=kind, nothing=kind
    )
    assert row["at"].replace(tzinfo=UTC) == datetime(2025, 1, 1, tzinfo=UTC)
    assert row["nothing"] is None


@pytest.mark.parametrize(
    "text", ["", "2025-01-01", "nan", "inf", "-inf", "1e300", "0x10", str(10**18), "-62135596801", "true"]
)
def test_what_is_no_moment_since_1970_is_null_and_reported(text):
    entries = [entry("1-0", "at", "5"), entry("2-0", "at", text)]
    rows = rows_of(
        entries, options={"timestampFormat": "seconds"}, at=t.TimestampType(), _corrupt_record=t.StringType()
    )
    assert [row["at"] is None for row in rows] == [False, True]
    assert [row["_corrupt_record"] is None for row in rows] == [True, False]
