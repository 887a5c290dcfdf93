"""The fast way gives the rows of the slow one, whatever a file holds and wherever it is cut."""

from __future__ import annotations

import gzip
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.wire import encode_command as record

from rillet.pipeline.ledger import schema
from rillet.pipeline.ledger.errors import LedgerError
from rillet.pipeline.ledger.files import piece as parse
from rillet.pipeline.ledger.files.piece import Piece, read_piece
from rillet.pipeline.ledger.records import fast_path, scan, shapes
from rillet.pipeline.ledger.records.fast_path import FastPath
from rillet.pipeline.ledger.records.ordinals import Numbering
from rillet.pipeline.ledger.records.recorder import Recorder
from rillet.pipeline.ledger.records.scan import START, Cursor
from rillet.pipeline.ledger.records.sorter import Sorter
from rillet.pipeline.ledger.schema import NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator

BLOCK = 64  # bytes, so that small files have many

names = st.sampled_from([b"s", b"orders", b"\xff", b"a\r\n*1", b"", b"b\r\n$1\r\n0\r\n"])
ids = st.sampled_from(
    [b"1-1", b"5-3", b"12-0", b"1790000000000-0", b"007-1", b"5", b"9223372036854775808-0", b"$"]
)
numbers = st.sampled_from([b"1", b"2", b"12", b"01", b"1790000000123", b"9" * 20, b"-1", b""])


@st.composite
def claims(draw) -> bytes:
    words = [
        b"XCLAIM", draw(names), draw(names), draw(names), b"0", draw(ids), b"TIME", draw(numbers), b"RETRYCOUNT",
        draw(numbers), b"FORCE", b"JUSTID", b"LASTID", draw(ids),
    ]  # fmt: skip
    return record(*draw(st.sampled_from([words, words, words, words[:12], [*words[:4], b"7", *words[5:]]])))


@st.composite
def adds(draw) -> bytes:
    options = draw(
        st.sampled_from([[], [], [b"MAXLEN", b"=", b"5"], [b"maxlen", b"=", b"12"], [b"MINID", b"=", b"3-0"],
                         [b"MINID", b"=", b"3"], [b"MAXLEN", b"5"], [b"NOMKSTREAM"], [b"MAXLEN", b"=", b"5", b"LIMIT", b"9"]])
    )  # fmt: skip
    return record(b"XADD", draw(names), *options, draw(ids), b"f", draw(values))


usual = [
    record(*b"XCLAIM orders g c 0 5-3 TIME 17 RETRYCOUNT 1 FORCE JUSTID LASTID 5-3".split()),
    record(*b"XADD orders 5-3 f v".split()),
    record(*b"XACK orders g 5-3 5-4".split()),
    record(*b"XGROUP SETID orders g 5-4 ENTRIESREAD 7".split()),
]
state = [
    record(b"MULTI"),
    record(b"EXEC"),
    record(b"SELECT", b"3"),
    record(b"SELECT", b"0"),
    record(b"DEL", b"s"),
]
notes = [b"#MS:1700000000123\r\n", b"#TS:1700000001\r\n", b"# a remark\r\n", b"#MS:x\r\n"]
pieces = [*usual, *state, *notes, b"\r\n", b"*", b"\r\n*1", b"$9\r\n", b"plain"]
values = st.lists(st.sampled_from(pieces), max_size=4).map(b"".join).flatmap(
    lambda value: st.integers(0, len(value)).map(lambda end: value[:end])
)  # fmt: skip
acks = st.builds(
    lambda key, group, found: record(b"XACK", key, group, *found), names, names, st.lists(ids, max_size=20)
)
moves = st.builds(
    lambda what, last, count: record(b"XGROUP", what, b"s", b"g", last, b"ENTRIESREAD", count),
    st.sampled_from([b"SETID", b"SETID", b"CREATE"]), ids, numbers,
)  # fmt: skip
records = st.one_of(st.sampled_from([*usual, *state, *notes]), claims(), adds(), acks, moves)
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
    monkeypatch.setattr(shapes, "_FEW", 1)
    monkeypatch.setattr(fast_path, "_MOST_SKIPPED", 0)
    monkeypatch.setattr(fast_path, "_SOME", 3)


@contextmanager
def reading(*, fast: bool, portion: int = 1 << 20) -> Iterator[list[int]]:
    """Only that way, in portions of so many bytes; how many bytes were taken each time."""
    sizes: list[int] = []
    take = FastPath.take

    def counted(self, data, at, position, clock):
        taken = take(self, data, at, position, clock)
        sizes.append(taken.size)
        return taken

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FastPath, "is_worth", lambda _self, _data: fast)
        patch.setattr(FastPath, "take", counted)
        patch.setattr(parse, "_PORTION", portion)
        yield sizes


def rows_of(data: bytes, start: Cursor = START, end: Cursor | None = None) -> Rows:
    """All rows in order; or that there was an error."""
    piece = Piece("somewhere", 3, start=start, end=end, data=data)
    try:
        found = [tuple(row.values()) for batch in read_piece(piece) for row in batch.to_pylist()]
    except LedgerError:
        return "refused"
    at = NAMES.index("ordinal")
    return sorted(found, key=lambda row: row[at])


@settings(max_examples=300)
@given(data=files, portion=st.one_of(st.integers(40, 400), st.just(1 << 20)))
@example(data=b"".join(usual) * 3 + notes[0] + b"".join(usual) * 3, portion=1 << 20)
@example(data=usual[0] + record(b"XADD", b"s", b"5-3", b"f", b"v\r\n*1") + usual[0] * 2, portion=1 << 20)
@example(data=usual[1] + record(b"XADD", b"s", b"5-3", b"f", b"\n" + notes[0]) + usual[0], portion=1 << 20)
@example(data=usual[0] * 3 + state[2] + usual[0] * 3 + state[3] + usual[1], portion=1 << 20)
def test_the_rows_are_those_of_the_slow_way(data, portion):
    with reading(fast=False):
        expected = rows_of(data)
    with reading(fast=True, portion=portion):
        assert rows_of(data) == expected


@settings(max_examples=150)
@given(data=files, cut=st.integers(0, 1500), portion=st.integers(40, 400))
def test_a_file_that_is_cut_anywhere_is_refused_by_both_or_by_none(data, cut, portion):
    with reading(fast=False):
        expected = rows_of(data[:cut])
    with reading(fast=True, portion=portion):
        assert rows_of(data[:cut]) == expected


@settings(max_examples=150)
@given(before=files, data=files, after=files, portion=st.integers(40, 400))
def test_a_piece_from_the_middle_has_the_same_rows(before, data, after, portion):
    with reading(fast=False):
        walk = scan.Walk(START)
        for at in range(0, len(before), BLOCK):
            walk.feed(before[at : at + BLOCK])
        start = Cursor(len(before), clock=walk.clock, index=1)
        end = Cursor(len(before) + len(data))
        with reading(fast=False):
            expected = [rows_of(data, start, None), rows_of(data + after, start, end)]
    with reading(fast=True, portion=portion):
        assert [rows_of(data, start, None), rows_of(data + after, start, end)] == expected


@settings(max_examples=100)
@given(runs=st.lists(st.tuples(st.sampled_from(usual), st.integers(1, 5)), min_size=1, max_size=8))
def test_usual_records_are_all_taken(runs):
    data = b"".join(each * number for each, number in runs)
    with reading(fast=True) as sizes:
        rows_of(data + usual[1])
    assert sizes == [len(data)]


def test_what_is_not_proved_ends_what_is_taken():
    odd = record(b"XADD", b"s", b"5-3", b"f", b"v\r\n*1\r\n$4\r\n")
    with reading(fast=True) as sizes:
        rows_of(usual[0] * 8 + state[4] * 3 + odd + usual[1])
    assert sizes == [len(usual[0]) * 8 + len(state[4]) * 3]


def test_annotations_are_taken_with_the_records_before_which_they_stand():
    data = usual[0] + notes[0] + usual[0] + notes[1] + notes[0] + usual[1]
    with reading(fast=True) as sizes:
        rows = rows_of(data + notes[1] + usual[2])
    assert sizes == [len(data)]
    at = NAMES.index("clock_ms")
    assert [row[at] for row in rows] == [None, 1700000000123, 1700000000123, 1700000001000, 1700000001000]


def test_records_of_one_length_and_different_shapes_are_told_apart():
    data = record(b"XADD", b"s", b"5-3", b"f", b"long") + record(b"XADD", b"s", b"5-3", b"long", b"f")
    with reading(fast=True) as sizes:
        rows = rows_of(data * 4 + usual[2])
    assert sizes == [len(data) * 4]
    assert [row[NAMES.index("event")] for row in rows] == ["added"] * 8 + ["acked"] * 2


def test_a_record_in_a_value_behind_what_is_as_long_as_others_is_none():
    like = record(b"XADD", b"s", b"5-3", b"f", b"vvv")
    fake = usual[0]
    odd = record(b"XADD", b"s", b"5-3", b"f", b"v\r\n" + fake[:-2])
    assert len(odd) - len(fake) == len(like)
    with reading(fast=True) as sizes:
        rows = rows_of(like * 5 + odd + like * 3)
    assert sizes == [len(like) * 5]
    assert [row[NAMES.index("event")] for row in rows] == ["added"] * 9


def test_records_that_differ_only_in_how_many_words_they_say_they_have_are_told_apart():
    wrong = usual[0].replace(b"*14", b"*15")
    with reading(fast=True):
        assert rows_of(usual[0] * 5 + wrong + usual[0] * 3) == "refused"


def test_a_first_delivery_has_the_count_1_and_no_other_spelling():
    odd = record(*b"XCLAIM orders g c 0 5-3 TIME 17 RETRYCOUNT 01 FORCE JUSTID LASTID 5-3".split())
    with reading(fast=True):
        rows = rows_of(usual[0] * 2 + odd * 2 + usual[0])
    assert [row[NAMES.index("event")] for row in rows] == ["delivered"] * 2 + ["claimed"] * 2 + ["delivered"]


def test_it_is_tried_seldom_where_it_does_not_help(monkeypatch):
    monkeypatch.setattr(fast_path, "_MOST_SKIPPED", 3)
    path = FastPath(Sorter(Recorder()), Numbering(0, START), 1)
    bad = record(b"XADD", b"s", b"5-3", b"f", b"\r\n*1\r\n$4\r\n") + usual[0] * 3

    def tries(data: bytes) -> list[bool]:
        found = [path.is_worth(data) for _ in range(5)]
        path.take(data, 0, 0, None)
        return found

    assert tries(bad) == [True] * 5
    assert tries(bad) == [False] + [True] * 4
    assert tries(usual[0] * 3) == [False] * 3 + [True] * 2
    assert tries(bad) == [True] * 5


def test_a_file_with_little_of_it_is_read_the_slow_way():
    path = FastPath(Sorter(Recorder()), Numbering(0, START), 1)
    much = record(b"SET", b"k", b"x" * 700)
    assert path.is_worth(usual[0] * 3 + much)
    assert not path.is_worth(usual[0] + much)


def test_a_packed_file_is_read_fast_too(tmp_path):
    packed = tmp_path / "appendonly.aof.1.incr.aof.gz"
    packed.write_bytes(gzip.compress(b"".join(usual) * 4))
    with reading(fast=True) as sizes:
        rows = [row for batch in read_piece(Piece(str(packed), 3)) for row in batch.to_pylist()]
    assert sum(sizes) == len(b"".join(usual)) * 4 - len(usual[3])
    assert len(rows) == 4 * 5
