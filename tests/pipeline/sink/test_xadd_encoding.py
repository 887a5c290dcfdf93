import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import from_arrow_schema

from rillet.pipeline.redis.connection import packed
from rillet.pipeline.sink.options import SinkOptions
from rillet.pipeline.sink.texts import texts
from rillet.pipeline.sink.xadd_encoding import RowEncoder, RowError

MOMENT = dt.datetime(2026, 11, 20, 1, 2, 3, 4)  # noqa: DTZ001 - Arrow's type says the zone


def commands(table: pa.Table, chunk_rows: int = 0, **options: str) -> list[list[bytes]]:
    checked = SinkOptions.of({"stream": "s"} | options, from_arrow_schema(table.schema), overwrite=False)
    chunks = list(RowEncoder(checked, "p").chunks(table.to_batches(), chunk_rows))
    assert all(chunk.rows <= (chunk_rows or chunk.rows) for chunk in chunks)
    assert all(chunk.data == packed(chunk.commands()) for chunk in chunks)
    return [words for chunk in chunks for words in chunk.commands()]


@pytest.mark.parametrize(
    ("column", "wanted"),
    [
        (pa.array(["é", ""]), ["é".encode(), b""]),
        (pa.array([b"\xff\x00\r\n"]), [b"\xff\x00\r\n"]),
        (pa.array([-5, 2**63 - 1]), [b"-5", b"9223372036854775807"]),
        (pa.array([True, False]), [b"true", b"false"]),
        (pa.array([1.5, 0.1]), [b"1.5", b"0.1"]),
        (pa.array([Decimal("1.50")]), [b"1.50"]),
        (pa.array([dt.date(2026, 11, 20)]), [b"2026-11-20"]),
        (pa.array([MOMENT], pa.timestamp("us", "UTC")), [b"2026-11-20T01:02:03.000004Z"]),
        (pa.array([MOMENT], pa.timestamp("us")), [b"2026-11-20T01:02:03.000004"]),
        (pa.array([[1, None]]), [b"[1,null]"]),
        (pa.array([{"a": 1, "b": {"c": "é"}}]), ['{"a":1,"b":{"c":"é"}}'.encode()]),
        (pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())), [b'{"k":1}']),
        (pa.array([{"b": b"\xff", "d": dt.date(2026, 1, 2)}]), [b'{"b":"/w==","d":"2026-01-02"}']),
        (pa.array([None], pa.int64()), [None]),
    ],
)  # fmt: skip
def test_values_are_written_as_text(column, wanted):
    assert texts(column) == wanted


def test_a_row_is_an_xadd():
    table = pa.table({"a": ["x", "y"], "n": [1, 2]})
    assert commands(table) == [
        [b"XADD", b"s", b"*", b"a", b"x", b"n", b"1"],
        [b"XADD", b"s", b"*", b"a", b"y", b"n", b"2"],
    ]


def test_stream_id_and_trimming_have_their_places():
    table = pa.table({"to": ["a", "b"], "id": ["1-1", "2-2"], "n": [1, 2]})
    assert commands(table, stream="", streamColumn="to", idColumn="id", maxLen="9") == [
        [b"XADD", b"a", b"MAXLEN", b"~", b"9", b"1-1", b"n", b"1"],
        [b"XADD", b"b", b"MAXLEN", b"~", b"9", b"2-2", b"n", b"2"],
    ]


def test_idmp_has_a_window_of_producers():
    table = pa.table({"n": list(range(201))})
    found = commands(table, delivery="idmp")
    assert found[0][:6] == [b"XADD", b"s", b"IDMP", b"p:0", b"0", b"*"]
    assert found[99][2:6] == [b"IDMP", b"p:0", b"99", b"*"]
    assert found[200][2:6] == [b"IDMP", b"p:2", b"0", b"*"]


@pytest.mark.parametrize(
    ("policy", "wanted"),
    [("skip", [[b"b", b"1"], [b"a", b"x", b"b", b"2"]]), ("empty", [[b"a", b"", b"b", b"1"], [b"a", b"x", b"b", b"2"]])],
)  # fmt: skip
def test_nulls_are_left_out_or_empty(policy, wanted):
    table = pa.table({"a": [None, "x"], "b": [1, 2]})
    assert [words[3:] for words in commands(table, nullPolicy=policy)] == wanted


def test_nulls_may_be_refused():
    with pytest.raises(RowError, match="row 1 of its task has no 'a'"):
        commands(pa.table({"a": ["x", None]}), nullPolicy="fail")


@pytest.mark.parametrize("column", ["stream", "id"])
def test_a_row_must_say_where_it_goes(column):
    table = pa.table({"stream": ["a", None], "id": ["1-1", None], "n": [1, 2]})
    options = {"idColumn": "id"} if column == "id" else {"stream": ""}
    with pytest.raises(RowError, match=f"row 1 of its task has no {column}: column '{column}' is empty"):
        commands(table, **options)


pairs = st.lists(st.tuples(st.text(max_size=3), st.binary(max_size=5)), min_size=1, max_size=4)


@given(st.lists(pairs, min_size=1, max_size=6), st.integers(0, 3), st.booleans())
def test_rows_that_bring_their_fields_keep_order_and_doubles(rows, skipped, as_map):
    pair = pa.struct([("name", pa.string()), ("value", pa.binary())])
    kind = pa.map_(pa.string(), pa.binary()) if as_map else pa.list_(pair)
    cells = rows if as_map else [[{"name": name, "value": value} for name, value in row] for row in rows]
    table = pa.table({"fields": pa.array(cells, kind), "other": [1] * len(rows)}).slice(skipped)
    wanted = [[word for name, value in row for word in (name.encode(), value)] for row in rows[skipped:]]
    assert [words[3:] for words in commands(table)] == wanted


def test_chunks_hold_no_more_rows_than_allowed():
    table = pa.table({"n": list(range(25))})
    assert [words[-1] for words in commands(table, 10)] == [b"%d" % number for number in range(25)]
