"""pipeline/redis/ids.py: integers, text and keys say the same, in the same order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rillet.pipeline.redis import ids

stream_ids = st.integers(0, ids.MAX_ID) | st.sampled_from([0, 1, ids.MAX_U64, ids.MAX_U64 + 1, ids.MAX_ID])


@given(stream_ids)
def test_every_form_of_an_id_leads_back_to_it(stream_id):
    assert ids.parse(ids.text(stream_id)) == stream_id
    assert ids.parse(ids.encode(stream_id)) == stream_id
    assert ids.from_key(ids.key(stream_id)) == stream_id
    assert ids.join(*ids.split(stream_id)) == stream_id


@given(stream_ids, stream_ids)
def test_keys_sort_as_ids_do(one, other):
    assert (ids.key(one) < ids.key(other)) == (one < other)


def test_a_missing_sequence_is_what_the_caller_says():
    assert ids.parse("7") == ids.join(7, 0)
    assert ids.parse(b"7", ids.MAX_U64) == ids.join(7, ids.MAX_U64)


@pytest.mark.parametrize(
    "word", ["", "-", "+", "$", "1-", "-1", "1-2-3", "a", " 1", "1-*", "18446744073709551616", "1\n"]
)
def test_words_that_are_no_ids_are_named(word):
    with pytest.raises(ValueError, match="not a stream id"):
        ids.parse(word)


def test_times_outside_the_range_give_the_nearest_id():
    assert ids.from_ms(-5) == 0
    assert ids.from_ms(2**70) == ids.MAX_U64 << 64


def test_a_key_of_another_length_is_refused():
    with pytest.raises(ValueError, match="16 bytes"):
        ids.from_key(b"short")
