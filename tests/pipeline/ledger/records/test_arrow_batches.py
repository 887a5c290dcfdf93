"""Names, ids and numbers as columns: fast ways and slow ways give the same."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rillet.pipeline.ledger.errors import LedgerError
from rillet.pipeline.ledger.records import arrow_batches, column_builders
from rillet.pipeline.ledger.spelling import canonical_id, id_number, spell_name, unspell_name

numbers = st.one_of(st.integers(0, 30), st.integers(0, 2**64 - 1)).map(lambda number: b"%d" % number)
usual = st.tuples(numbers, numbers).map(b"-".join)
odd = st.sampled_from(
    [b"5", b"005-1", b"5-01", b"+3-0", b"$", b"-", b"+", b"", b"--", b"1-", b"-1", b"1-2-3", b"5,6-1", b"a-b", b"\xff"]
)  # fmt: skip


padded = st.sampled_from([b"005-1", b"5-01", b"00-00", b"9" * 40 + b"-1", b"1-" + b"9" * 20])
in_pieces = st.lists(
    st.one_of(
        st.lists(st.one_of(usual, padded), min_size=1),
        st.lists(st.integers(10, 99), min_size=1).map(lambda each: [b"17%d-%d" % (n, n % 10) for n in each]),
    ),
    min_size=1,
)


@given(in_pieces)
def test_ids_are_spelled_as_one_by_one(pieces):
    joined = column_builders.JoinedColumn()
    for words in pieces:
        assert column_builders.are_ids(b",".join(words), len(words))
        joined.add(b",".join(words), len(words))
    found, half = joined.ids()
    expected = [canonical_id(word).decode(errors="backslashreplace") for words in pieces for word in words]
    assert found.to_pylist() == expected
    assert half == 0 or {each.index("-") for each in expected} == {half}


@pytest.mark.parametrize("words", [[b"-1"], [b"1-1", b"2-"], [b"1-1", b"-2", b"3-3"], [b"1-", b"-1"]])
def test_half_an_id_is_refused(words):
    joined = column_builders.JoinedColumn()
    joined.add(b",".join(words), len(words))
    with pytest.raises(LedgerError):
        joined.ids()


@given(st.lists(st.one_of(usual, odd), min_size=1))
def test_what_has_the_look_of_ids_has_one_dash_each_and_no_comma(words):
    expected = all(word.count(b"-") == 1 and not word.strip(b"0123456789-") for word in words)
    assert column_builders.are_ids(b",".join(words), len(words)) == expected


@given(st.lists(st.lists(st.one_of(numbers, st.just(b"")), min_size=1), min_size=1))
def test_numbers_that_were_joined_are_found_again(pieces):
    joined = column_builders.JoinedColumn()
    for words in pieces:
        assert column_builders.are_numbers(b",".join(words), len(words))
        joined.add(b",".join(words), len(words))
    found = [int(word) if word else None for words in pieces for word in words]
    expected = [number if number is not None and number < 2**63 else None for number in found]
    assert joined.numbers().to_pylist() == expected


@given(st.lists(st.lists(st.integers(0, 300), min_size=1, max_size=40), min_size=1, max_size=40), st.data())
def test_coded_words_are_found_again(pieces, data):
    coded = column_builders.DictionaryColumn()
    for piece in pieces:
        coded.add([b"%d" % each for each in piece])
    found = coded.column(int, pa.int64())
    expected = [each for piece in pieces for each in piece]
    assert found.to_pylist() == expected
    places = data.draw(st.lists(st.integers(0, len(expected) - 1)))
    there = coded.column(int, pa.int64(), pa.array(places, pa.int64()))
    assert there.to_pylist() == [expected[place] for place in places]


def test_more_different_words_than_fit_in_a_byte_are_found_again():
    coded = column_builders.DictionaryColumn()
    coded.add([b"1", b"1"])
    coded.add([b"%d" % each for each in range(400)])
    coded.add([b"7"] * 3)
    assert coded.column(int, pa.int64()).to_pylist() == [1, 1, *range(400), 7, 7, 7]


@given(st.lists(st.one_of(st.none(), usual, odd), min_size=1))
def test_ids_that_are_missing_are_null(words):
    expected = [
        None if word is None else canonical_id(word).decode(errors="backslashreplace") for word in words
    ]
    assert column_builders.ids_column(words).to_pylist() == expected


@given(st.lists(st.binary(max_size=6), min_size=1))
def test_different_names_stay_different_and_are_found_again(words):
    texts = arrow_batches._names(words).to_pylist()
    assert texts == [spell_name(word) for word in words]
    assert [unspell_name(text) for text in texts] == words


def test_a_name_that_is_text_stays_as_it_is():
    assert spell_name("café 1".encode()) == "café 1"
    assert spell_name(b"a\\x5c\xff") == "a\\x5cx5c\\xff"


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

    assert column_builders.numbers_column(words).to_pylist() == [value(word) for word in words]


@given(st.lists(st.tuples(st.sampled_from([b"1", b"2"]), usual, usual), min_size=1))
def test_a_first_delivery_is_one_that_the_group_had_not_passed(claims):
    counts, ids, lasts = map(list, zip(*claims, strict=True))
    is_once = pa.array([count == b"1" for count in counts])
    found = arrow_batches._first_or_not(
        is_once, column_builders.ids_column(ids), column_builders.ids_column(lasts)
    ).to_pylist()
    assert found == [
        "delivered" if count == b"1" and id_number(entry_id) >= id_number(last) else "claimed"
        for count, entry_id, last in claims
    ]


@given(st.lists(usual, min_size=1))
def test_the_time_of_an_id_is_its_first_half(words):
    joined = column_builders.JoinedColumn()
    joined.add(b",".join(words), len(words))
    found = column_builders.first_halves(*joined.ids()).to_pylist()
    halves = [int(word.partition(b"-")[0]) for word in words]
    assert found == [half if half < 2**63 else None for half in halves]
