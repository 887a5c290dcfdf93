"""A piece gives the rows of a recorder that takes one command after the other, whatever a file holds."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.thorough import examples
from support.wire import encode_command as record

from rillet.pipeline.ledger import schema
from rillet.pipeline.ledger.errors import LedgerError
from rillet.pipeline.ledger.files.piece import FilePiece, read_piece
from rillet.pipeline.ledger.records import scan, sorter
from rillet.pipeline.ledger.records.recorder import Recorder
from rillet.pipeline.ledger.records.scan import START, Cursor
from rillet.pipeline.ledger.schema import NAMES

BLOCK = 64  # bytes, so that small files have many

names = st.sampled_from(
    [b"s", b"orders", b"\xff", b"a\r\n*1", b"", b"b\r\n$1\r\n0\r\n", b"caf\xc3\xa9", b"a\\x5c"]
)
ids = st.sampled_from(
    [b"1-1", b"5-3", b"12-0", b"1790000000000-0", b"007-1", b"5", b"9223372036854775808-0", b"$", b"1790000000000-10",
     b"5-01", b"18446744073709551615-3", b"1,2-3", b"1-1,2-2"]
)  # fmt: skip
numbers = st.sampled_from(
    [b"1", b"2", b"12", b"01", b"1790000000123", b"9" * 20, b"-1", b"", b"18446744073709551616", b"x"]
)


@st.composite
def claims(draw) -> bytes:
    words = [
        b"XCLAIM", draw(names), draw(names), draw(names), b"0", draw(ids), b"TIME", draw(numbers), b"RETRYCOUNT",
        draw(numbers), b"FORCE", b"JUSTID", b"LASTID", draw(ids),
    ]  # fmt: skip
    odd = [
        words[:12],
        [*words[:4], b"7", *words[5:]],
        [*words[:6], *words[8:10], *words[6:8], *words[10:]],
        [*words, b"x"],
    ]
    return record(*draw(st.sampled_from([words] * 4 + odd)))


@st.composite
def adds(draw) -> bytes:
    options = draw(
        st.sampled_from([[], [], [b"MAXLEN", b"=", b"5"], [b"maxlen", b"=", b"12"], [b"MINID", b"=", b"3-0"],
                         [b"MINID", b"=", b"3"], [b"minid", b"=", b"3-0"], [b"MAXLEN", b"=", b"x"], [b"MAXLEN", b"5"], [b"NOMKSTREAM"], [b"MAXLEN", b"=", b"5", b"LIMIT", b"9"]])
    )  # fmt: skip
    return record(b"XADD", draw(names), *options, draw(ids), b"f", draw(values))


usual = [
    record(*b"XCLAIM orders g c 0 5-3 TIME 17 RETRYCOUNT 1 FORCE JUSTID LASTID 5-3".split()),
    record(*b"XADD orders 5-3 f v".split()),
    record(*b"XACK orders g 5-3 5-4".split()),
    record(*b"XGROUP SETID orders g 5-4 ENTRIESREAD 7".split()),
]
state = [
    record(b"MULTI"), record(b"EXEC"), record(b"SELECT", b"3"), record(b"SELECT", b"0"), record(b"DEL", b"s"),
]  # fmt: skip
notes = [b"#MS:1700000000123\r\n", b"#TS:1700000001\r\n", b"# a remark\r\n", b"#MS:x\r\n"]
pieces = [*usual, *state, *notes, b"\r\n", b"*", b"\r\n*1", b"$9\r\n", b"plain"]
values = st.lists(st.sampled_from(pieces), max_size=4).map(b"".join).flatmap(
    lambda value: st.integers(0, len(value)).map(lambda end: value[:end])
)  # fmt: skip
acks = st.builds(
    lambda key, group, found: record(b"XACK", key, group, *found), names, names, st.lists(ids, max_size=20)
)
tails = numbers.map(lambda count: [b"ENTRIESREAD", count]) | st.sampled_from([[], [b"entriesread", b"3"]])
moves = st.builds(
    lambda what, key, group, last, tail: record(b"XGROUP", what, key, group, last, *tail),
    st.sampled_from([b"SETID", b"SETID", b"CREATE", b"setid"]), names, names, ids, tails,
)  # fmt: skip
others = [
    record(*words.split())
    for words in (
        b"multi", b"select 1", b"DEL s t", b"XDEL s 1-1", b"HSET h f v", b"XADD", b"XACK s", b"XADD s * f v",
        b"xack s g 1-1", b"xadd s 1-1 f v",
    )
]  # fmt: skip
records = st.one_of(
    st.sampled_from([*usual, *state, *notes]), claims(), adds(), acks, moves, st.sampled_from(others)
)
files = st.lists(
    st.one_of(records, st.tuples(st.sampled_from(usual), st.integers(2, 5)).map(lambda run: run[0] * run[1])),
    min_size=1,
    max_size=20,
).map(b"".join)

Rows = list[tuple[object, ...]] | str


@pytest.fixture(autouse=True)
def small(monkeypatch) -> None:
    for module in (schema, scan):
        monkeypatch.setattr(module, "BLOCK", BLOCK)


@contextmanager
def only_the_recorder() -> Iterator[None]:
    """The sorter passes every command on to its recorder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorter, "USUAL", {})
        yield


def rows_of(data: bytes, start: Cursor = START, end: Cursor | None = None) -> Rows:
    """All rows in order; or that there was an error."""
    piece = FilePiece("somewhere", 3, start=start, end=end, data=data)
    try:
        found = [tuple(row.values()) for batch in read_piece(piece) for row in batch.to_pylist()]
    except LedgerError:
        return "refused"
    at = NAMES.index("ordinal")
    return sorted(found, key=lambda row: row[at])


@settings(max_examples=examples(300))
@given(data=files)
@example(data=b"".join(usual) * 3 + notes[0] + b"".join(usual) * 3)
@example(data=usual[0] + record(b"XADD", b"s", b"5-3", b"f", b"v\r\n*1") + usual[0] * 2)
@example(data=usual[1] + record(b"XADD", b"s", b"5-3", b"f", b"\n" + notes[0]) + usual[0])
@example(data=usual[0] * 3 + state[2] + usual[0] * 3 + state[3] + usual[1])
def test_the_rows_are_those_of_the_recorder(data):
    with only_the_recorder():
        expected = rows_of(data)
    assert rows_of(data) == expected


@settings(max_examples=examples(150))
@given(data=files, cut=st.integers(0, 1500))
def test_a_file_that_is_cut_anywhere_is_refused_by_both_or_by_none(data, cut):
    with only_the_recorder():
        expected = rows_of(data[:cut])
    assert rows_of(data[:cut]) == expected


@settings(max_examples=examples(150))
@given(before=files, data=files, after=files)
def test_a_piece_from_the_middle_has_the_same_rows(before, data, after):
    walk = scan.Walk(START)
    for at in range(0, len(before), BLOCK):
        walk.feed(before[at : at + BLOCK])
    start = Cursor(len(before), clock=walk.clock, index=1)
    end = Cursor(len(before) + len(data))
    with only_the_recorder():
        expected = [rows_of(data, start, None), rows_of(data + after, start, end)]
    assert [rows_of(data, start, None), rows_of(data + after, start, end)] == expected


def test_an_annotation_times_the_records_behind_it():
    rows = rows_of(usual[0] + notes[0] + usual[0] + notes[1] + notes[0] + usual[1] + notes[1] + usual[2])
    clocks = [row[NAMES.index("clock_ms")] for row in rows]
    assert clocks == [None, 1700000000123, 1700000000123, 1700000001000, 1700000001000]


def test_a_record_with_fewer_words_than_it_says_is_refused():
    wrong = usual[0].replace(b"*14", b"*15")
    assert rows_of(usual[0] * 5 + wrong + usual[0] * 3) == "refused"


def test_a_first_delivery_has_the_count_1_and_no_other_spelling():
    odd = record(*b"XCLAIM orders g c 0 5-3 TIME 17 RETRYCOUNT 01 FORCE JUSTID LASTID 5-3".split())
    rows = rows_of(usual[0] * 2 + odd * 2 + usual[0])
    assert [row[NAMES.index("event")] for row in rows] == ["delivered"] * 2 + ["claimed"] * 2 + ["delivered"]


def test_a_record_that_is_no_list_of_words_is_refused():
    for words in ([[b"nested"]], [1], b"text", [b"XADD", b"s", 5], [b"XCLAIM", *[7] * 13]):
        with pytest.raises(LedgerError):
            sorter.Sorter(Recorder()).take([words], [0], [(1, None)])
