"""The forms in which Redis would keep sorted sets, and their parts."""

from math import copysign, inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rillet.storage.collections.encoding_limits import Limits
from rillet.storage.collections.sorted_set import SortedSet

SMALL = Limits(zset_max_listpack_entries=4, zset_max_listpack_value=5)
SCORES = st.one_of(st.integers(-3, 3).map(float), st.sampled_from([inf, -inf, 0.5, 1e300, -0.0]))
MEMBERS = st.sampled_from([b"", b"a", b"aa", b"b", b"\xff", b"longer", b"c", b"d", b"e"])


def test_many_members_at_once_end_the_compact_form():
    value = SortedSet()
    value.expect([b"a"] * 4, SMALL)
    assert value.encoding == b"listpack"
    value.expect([b"a"] * 5, SMALL)
    assert value.encoding == b"skiplist"
    value = SortedSet()
    value.expect([b"a", b"longer"], SMALL)
    assert value.encoding == b"skiplist"


def test_a_listpack_knows_no_negative_zero():
    value = SortedSet()
    value.put(b"a", -0.0, SMALL)
    assert copysign(1, value.scores[b"a"]) == 1
    value.put(b"longer", 1.0, SMALL)
    value.put(b"b", -0.0, SMALL)
    assert copysign(1, value.scores[b"b"]) == -1


@given(st.dictionaries(MEMBERS, SCORES, min_size=1), st.booleans())
def test_what_was_loaded_is_made_to_fit(scores, packed):
    value = SortedSet(scores)
    if not packed:
        value.expect([b"longer"], SMALL)
    value.choose_encoding(SMALL)
    fits = len(scores) <= 4 and (packed or max(map(len, scores)) <= 5)
    assert value.encoding == (b"listpack" if fits else b"skiplist")


def test_parts_yield_members_and_scores_in_order():
    value = SortedSet({b"b": 1.0, b"a": 1.0, b"c": -inf})
    assert list(value.digest_parts()) == [b"c", b"-inf", b"a", b"1", b"b", b"1"]


@pytest.mark.parametrize("size", [0, 1, 100])
def test_size_grows_with_members(size):
    value = SortedSet({b"%d" % number: 1.0 for number in range(size)})
    assert size * 144 <= value.payload_bytes <= size * 260
