import pytest
from hypothesis import given
from hypothesis import strategies as st

from rillet.protocol.errors import ReplyError
from rillet.storage.streams.ids import (
    MAX_ID,
    MAX_U64,
    InvalidID,
    encode,
    parse,
    parse_auto_seq,
    parse_bound,
    parse_interval,
)

BIG = b"18446744073709551615"
NOT_IDS = [
    b"",
    b"-",
    b"+",
    b"$",
    b"*",
    b">",
    b"1-",
    b"-1",
    b"1-2-3",
    b"a",
    b"1-a",
    b"1 ",
    b"1_0",
    b"0x10",
    b"++5",
]


@given(st.integers(0, MAX_ID))
def test_the_text_of_an_id_reads_back_as_the_same_id(stream_id):
    assert parse(encode(stream_id)) == stream_id


def parsed(word, missing_seq):
    try:
        return parse(word, missing_seq)
    except InvalidID:
        return None


DIGITS = st.text("0123456789", min_size=1, max_size=24) | st.integers(MAX_U64 - 9, MAX_U64 + 9).map(str)


@given(
    DIGITS,
    st.none() | st.just("") | DIGITS | st.text("0123456789-+ \0a", max_size=3),
    st.sampled_from([0, MAX_U64]),
)
def test_digits_are_read_as_words_of_any_spelling(ms, seq, missing_seq):
    """With a space in front nothing is recognised at sight."""
    word = (ms if seq is None else f"{ms}-{seq}").encode()
    assert parsed(word, missing_seq) == parsed(b" " + word, missing_seq)


@given(st.integers(0, MAX_ID), st.integers(0, MAX_ID))
def test_ids_order_by_milliseconds_and_then_by_sequence(one, other):
    assert (one < other) == (divmod(one, 1 << 64) < divmod(other, 1 << 64))


@pytest.mark.parametrize(
    ("word", "ms", "seq"),
    [
        (b"5", 5, 9),
        (b"5-3", 5, 3),
        (b"007-08", 7, 8),
        (b"+5-+6", 5, 6),
        (b" 5-\t6", 5, 6),
        (BIG + b"-" + BIG, MAX_U64, MAX_U64),
        (b"00000000000000000000000000000000001", 1, 9),
        # C's view: the word ends at a NUL, and strtoull wraps what is not a tidy negative number
        (b"5-3\0junk", 5, 3),
        (b"1- -5", 1, MAX_U64 - 4),
        (b"1--05", 1, MAX_U64 - 4),
        (b"1--0", 1, 0),
        (b"1--9223372036854775809", 1, (1 << 63) - 1),
    ],
)
def test_numbers_are_read_as_leniently_as_redis_reads_them(word, ms, seq):
    assert parse(word, 9) == ms << 64 | seq


@pytest.mark.parametrize(
    "word",
    [
        *NOT_IDS,
        b"18446744073709551616",
        b"1-18446744073709551616",
        b"1--5",
        b"1--9223372036854775808",
        b"0" * 128,
    ],
)
def test_what_is_no_number_is_no_id(word):
    with pytest.raises(InvalidID):
        parse(word)


def test_a_word_of_127_bytes_can_still_be_an_id():
    assert parse(b"0" * 126 + b"7") == 7 << 64


def test_a_bound_may_be_the_smallest_or_the_greatest_id():
    assert (parse_bound(b"-"), parse_bound(b"+"), parse_bound(b"4", 7)) == (0, MAX_ID, 4 << 64 | 7)
    assert (parse_bound(b"-\0x"), parse_bound(b"+\0")) == (0, MAX_ID)
    with pytest.raises(InvalidID):
        parse_bound(b"-" + b"\0" * 127)


def test_an_end_without_a_sequence_covers_its_whole_millisecond():
    assert parse_interval(b"5", b"5") == (5 << 64, 5 << 64 | MAX_U64)


def test_an_exclusive_bound_is_moved_by_one():
    assert parse_interval(b"(5-3", b"(6-0") == (5 << 64 | 4, 5 << 64 | MAX_U64)
    assert parse_interval(b"(5", b"(5") == (5 << 64 | 1, 5 << 64 | (MAX_U64 - 1))


@pytest.mark.parametrize(
    ("start", "end", "text"),
    [
        (b"(" + BIG + b"-" + BIG, b"+", b"ERR invalid start ID for the interval"),
        (b"-", b"(0-0", b"ERR invalid end ID for the interval"),
        (b"(" + BIG + b"-" + BIG, b"bad", b"ERR invalid start ID for the interval"),
    ],
)
def test_an_exclusive_bound_at_the_edge_is_refused(start, end, text):
    with pytest.raises(ReplyError) as caught:
        parse_interval(start, end)
    assert caught.value.text == text


@pytest.mark.parametrize("word", [b"(", b"(-", b"(+", b"((1", b"1("])
def test_the_parenthesis_needs_an_explicit_id(word):
    with pytest.raises(InvalidID):
        parse_interval(word, b"+")


def test_a_star_as_sequence_asks_for_the_next_one():
    assert parse_auto_seq(b"5-*") == 5
    assert parse_auto_seq(b"5-1") is None
    assert parse_auto_seq(b"5-**") is None
    with pytest.raises(InvalidID):
        parse_auto_seq(b"x-*")
