"""Names, ids and numbers as columns: fast ways and slow ways give the same."""

from hypothesis import given
from hypothesis import strategies as st

from rillet.pipeline.ledger import schema
from rillet.pipeline.ledger.records import arrow_batches, sorter
from rillet.pipeline.ledger.records.recorder import claim_event
from rillet.pipeline.ledger.spelling import canonical_id, id_number, spell_name, unspell_name

numbers = st.one_of(st.integers(0, 30), st.integers(0, 2**64 - 1)).map(lambda number: b"%d" % number)
usual = st.tuples(numbers, numbers).map(b"-".join)
odd = st.sampled_from(
    [b"5", b"005-1", b"5-01", b"+3-0", b"$", b"-", b"+", b"", b"--", b"1-", b"-1", b"1-2-3", b"5,6-1", b"a-b", b"\xff"]
)  # fmt: skip


padded = st.sampled_from([b"005-1", b"5-01", b"00-00", b"9" * 40 + b"-1", b"1-" + b"9" * 20])


@given(st.lists(st.one_of(usual, padded, odd), min_size=1))
def test_what_is_taken_for_canonical_ids_is_that(words):
    if sorter._are_ids(b",".join(words), len(words)):
        assert [canonical_id(word) for word in words] == words
        assert all(int(half) < 2**63 for word in words for half in word.split(b"-"))
    assert sorter._are_ids(b"1790000000000-0,1-1,1790000000001-10", 3)


@given(st.lists(st.lists(st.one_of(numbers, st.just(b"")), min_size=1), min_size=1))
def test_numbers_that_were_joined_are_found_again(pieces):
    for words in pieces:
        assert sorter._are_numbers(b",".join(words), len(words))
    found = [int(word) if word else None for words in pieces for word in words]
    expected = [number if number is not None and number < 2**63 else None for number in found]
    assert arrow_batches._split_numbers([b",".join(words) for words in pieces]).to_pylist() == expected


@given(st.lists(st.one_of(st.none(), usual, odd), min_size=1))
def test_ids_that_are_missing_are_null(words):
    expected = [
        None if word is None else canonical_id(word).decode(errors="backslashreplace") for word in words
    ]
    assert arrow_batches.ids_column(words).to_pylist() == expected


@given(st.lists(st.binary(max_size=6), min_size=1))
def test_different_names_stay_different_and_are_found_again(words):
    texts = arrow_batches.names_column(words).to_pylist()
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

    assert arrow_batches.numbers_column(words).to_pylist() == [value(word) for word in words]


@given(st.sampled_from([b"1", b"2"]), usual, usual)
def test_a_first_delivery_is_one_that_the_group_had_not_passed(count, entry_id, last):
    is_first = count == b"1" and id_number(entry_id) >= id_number(last)
    assert claim_event(entry_id, last, count) == (schema.DELIVERED if is_first else schema.CLAIMED)
