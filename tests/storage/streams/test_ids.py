import pytest
from hypothesis import given
from hypothesis import strategies as st

from rillet.storage.streams.ids import MAX_ID, MAX_U64, InvalidID, encode, parse


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


@pytest.mark.parametrize(
    "word",
    [
        b"", b"-", b"+", b"$", b"*", b">", b"1-", b"-1", b"1-2-3", b"a", b"1-a", b"1 ", b"1_0", b"0x10", b"++5",
        b"18446744073709551616", b"1-18446744073709551616", b"1--5", b"1--9223372036854775808", b"0" * 128,
    ],
)  # fmt: skip
def test_what_is_no_number_is_no_id(word):
    with pytest.raises(InvalidID):
        parse(word)
