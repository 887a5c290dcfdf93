"""Names, ids and numbers as columns: fast ways and slow ways give the same."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rillet.pipeline.ledger import columns
from rillet.pipeline.ledger.text import id_number, id_text, name_bytes, name_text

numbers = st.one_of(st.integers(0, 30), st.integers(0, 2**64 - 1)).map(lambda number: b"%d" % number)
usual = st.tuples(numbers, numbers).map(b"-".join)
odd = st.sampled_from(
    [b"5", b"005-1", b"5-01", b"+3-0", b"$", b"-", b"+", b"", b"--", b"1-", b"-1", b"1-2-3", b"5,6-1", b"a-b", b"\xff"]
)  # fmt: skip


@given(st.lists(st.one_of(usual, odd), min_size=1))
def test_ids_are_spelled_as_one_by_one(words):
    expected = [id_text(word).decode(errors="backslashreplace") for word in words]
    assert columns._ids(words).to_pylist() == expected


@given(st.lists(st.integers(10, 99), min_size=1).map(lambda found: [b"17%d-%d" % (n, n % 10) for n in found]))
def test_ids_of_one_length_are_kept(words):
    assert columns._ids(words).to_pylist() == [word.decode() for word in words]


@given(st.lists(st.one_of(st.none(), usual, odd), min_size=1))
def test_ids_that_are_missing_are_null(words):
    expected = [None if word is None else id_text(word).decode(errors="backslashreplace") for word in words]
    assert columns._ids(words).to_pylist() == expected


@given(st.lists(st.binary(max_size=6), min_size=1))
def test_names_are_told_apart_and_found_again(words):
    texts = columns._names(words).to_pylist()
    assert texts == [name_text(word) for word in words]
    assert [name_bytes(text) for text in texts] == words


def test_a_name_that_is_text_stays_as_it_is():
    assert name_text("café 1".encode()) == "café 1"
    assert name_text(b"a\\x5c\xff") == "a\\x5cx5c\\xff"


@given(
    st.lists(
        st.one_of(st.none(), numbers, st.sampled_from([b"", b"x", b"-5", b"9223372036854775808"])), min_size=1
    )
)
def test_numbers_beyond_63_bits_are_null(words):
    def value(word: bytes | None) -> int | None:
        try:
            number = int(word or b"x")
        except ValueError:
            return None
        return number if number < 2**63 else None

    assert columns._numbers(words).to_pylist() == [value(word) for word in words]


@given(st.lists(st.tuples(st.sampled_from([b"1", b"2"]), usual, usual), min_size=1))
def test_a_first_delivery_is_one_that_the_group_had_not_passed(claims):
    counts, ids, lasts = map(list, zip(*claims, strict=True))
    found = columns._first_or_not(counts, columns._ids(ids), columns._ids(lasts)).to_pylist()
    assert found == [
        "delivered" if count == b"1" and id_number(entry_id) >= id_number(last) else "claimed"
        for count, entry_id, last in claims
    ]


@given(st.lists(usual, min_size=1))
def test_the_time_of_an_id_is_its_first_half(words):
    found = columns._milliseconds(pa.array([word.decode() for word in words])).to_pylist()
    halves = [int(word.partition(b"-")[0]) for word in words]
    assert found == [half if half < 2**63 else None for half in halves]
