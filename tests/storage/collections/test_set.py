"""The forms in which Redis would keep sets, and choices by chance."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rillet.storage.collections.encoding_limits import Limits
from rillet.storage.collections.set import Set, is_integer

SMALL = Limits(set_max_intset_entries=4, set_max_listpack_entries=3, set_max_listpack_value=5)
MEMBERS = st.one_of(
    st.integers(-5, 12).map(b"%d".__mod__), st.sampled_from([b"a", b"bb", b"01", b"-0", b"", b"longer"])
)


def made_of(*members, limits=SMALL):
    value = Set.for_first(members[0], len(members), limits)
    for member in members:
        value.add(member, limits)
    return value


def test_integers_of_a_former_intset_stay_in_their_order():
    value = made_of(b"3", b"1", b"x")
    assert list(value) == [b"1", b"3", b"x"]


def test_many_members_at_once_end_a_compact_form_though_they_are_old():
    value = made_of(b"1", b"2")
    value.expect(4, SMALL)
    assert value.encoding == b"intset"
    value.expect(5, SMALL)
    assert value.encoding == b"hashtable"
    value = made_of(b"a")
    value.expect(4, SMALL)
    assert value.encoding == b"hashtable"


@given(st.sets(MEMBERS, min_size=1), st.sampled_from([b"intset", b"listpack", b"hashtable"]))
def test_what_was_loaded_is_made_to_fit(members, encoding):
    if encoding == b"intset" and not all(map(is_integer, members)):
        return
    value = Set(
        members,
        {b"intset": made_of(b"1"), b"listpack": made_of(b"a")}.get(encoding, made_of(b"longer")).encoding,
    )
    value.choose_encoding(SMALL)
    short = len(members) <= 3 and max(map(len, members)) <= 5
    if encoding == b"hashtable":
        only_integers = all(map(is_integer, members)) and len(members) <= 4
        assert value.encoding == (b"intset" if only_integers else b"listpack" if short else b"hashtable")
    else:
        assert value.encoding == (
            encoding if len(members) <= {b"intset": 4, b"listpack": 3}[encoding] else b"hashtable"
        )


@pytest.mark.parametrize("limits", [SMALL, Limits()], ids=["a hash table", "a listpack"])
def test_every_member_is_chosen_as_often(limits):
    value = made_of(*(b"m%d" % number for number in range(8)), limits=limits)
    chosen = Counter(value.random() for _ in range(4000))
    sampled = Counter(member for _ in range(2000) for member in value.sample(2))
    for counts in (chosen, sampled):
        assert set(counts) == set(value.members)
        assert all(350 < count < 650 for count in counts.values())


def test_a_few_of_many_are_chosen_without_a_list_of_all():
    value = made_of(*(b"m%d" % number for number in range(2000)), limits=Limits())
    assert len(set(value.sample(100))) == 100


def test_size_grows_with_members():
    assert made_of(b"a").payload_bytes < made_of(b"a", b"b").payload_bytes < 1000
    assert Set().payload_bytes == 0
