"""Sorted sets against a sorted list of pairs, and the forms in which Redis would keep them."""

from itertools import dropwhile, takewhile
from math import copysign, inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from support.invariants import check_invariants
from support.thorough import examples

from rillet.storage.collections.encoding_limits import Limits
from rillet.storage.collections.sorted_set import SortedSet

SMALL = Limits(zset_max_listpack_entries=4, zset_max_listpack_value=5)
SCORES = st.one_of(st.integers(-3, 3).map(float), st.sampled_from([inf, -inf, 0.5, 1e300, -0.0]))
MEMBERS = st.sampled_from([b"", b"a", b"aa", b"b", b"\xff", b"longer", b"c", b"d", b"e"])
PLACES = st.integers(0, 9)


class SortedSetMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.value = SortedSet()
        self.model = {}
        self.walk = None  # [cursor, met so far, there all the time]

    @property
    def pairs(self):
        return sorted((score, member) for member, score in self.model.items())

    def forget(self, member):
        del self.model[member]
        if self.walk:
            self.walk[2].discard(member)

    @rule(member=MEMBERS, score=SCORES)
    def put(self, member, score):
        self.value.put(member, score, SMALL)
        if self.model.get(member) != score:
            self.model[member] = score

    @rule(member=MEMBERS)
    def discard(self, member):
        assert self.value.discard(member) == (member in self.model)
        if member in self.model:
            self.forget(member)

    @precondition(lambda self: self.model)
    @rule(place=st.sampled_from([0, -1]))
    def pop(self, place):
        expected = self.pairs[place]
        assert self.value.pop(place) == expected
        self.forget(expected[1])

    @rule(first=PLACES, second=PLACES)
    def remove_range(self, first, second):
        pairs = self.pairs
        start, stop = min(first, len(pairs)), min(second, len(pairs))
        gone = pairs[start:stop]
        assert self.value.remove_range(start, stop) == len(gone)
        for _, member in gone:
            self.forget(member)

    @rule(low=SCORES, high=SCORES, after=st.booleans(), before=st.booleans())
    def range_of_scores(self, low, high, after, before):
        start, stop = self.value.score_range(low, high, after=after, before=before)
        expected = [
            pair
            for pair in self.pairs
            if (low < pair[0] if after else low <= pair[0])
            and (pair[0] < high if before else pair[0] <= high)
        ]
        assert list(self.value.slice(start, stop)) == expected
        assert list(self.value.slice(start, stop, reverse=True)) == expected[::-1]
        assert stop - start == len(expected)

    @rule(
        low=st.none() | MEMBERS,
        high=st.none() | MEMBERS,
        after=st.booleans(),
        before=st.booleans(),
        reverse=st.booleans(),
    )
    def range_of_names(self, low, high, after, before, reverse):
        """As a walk from either end finds it: from the first member in the range to the next that has left it."""

        def is_large(name):
            return low is None or (name > low if after else name >= low)

        def is_small(name):
            return high is None or (name < high if before else name <= high)

        expected = []
        if self.pairs and is_large(self.pairs[-1][1]) and is_small(self.pairs[0][1]):
            enters, stays = (is_small, is_large) if reverse else (is_large, is_small)
            walk = dropwhile(lambda pair: not enters(pair[1]), self.pairs[:: -1 if reverse else 1])
            expected = list(takewhile(lambda pair: stays(pair[1]), walk))
        start, stop = self.value.lex_range(low, high, after=after, before=before, reverse=reverse)
        assert list(self.value.slice(start, stop, reverse=reverse)) == expected

    @precondition(lambda self: self.model)
    @rule(count=st.integers(1, 12))
    def choose(self, count):
        found = self.value.sample(count)
        assert set(found) <= set(self.pairs)
        if count >= len(self.model):
            assert found == self.pairs[::-1]
        else:
            assert len(found) == count
            assert count < 0 or len(set(found)) == count

    @rule(count=st.integers(1, 4))
    def walk_on(self, count):
        if self.walk is None:
            self.walk = [0, set(), set(self.model)]
        cursor, found = self.value.page(self.walk[0], count)
        self.walk[0] = cursor
        self.walk[1].update(found)
        assert self.model.keys() >= set(found)
        if cursor == 0:
            assert self.walk[1] >= self.walk[2]
            self.walk = None

    @rule()
    def take_a_twin(self):
        twin = self.value.copy()
        self.value.put(b"of the other", 1.0, Limits(0, 0, 0, 0, 0, 0, 0, 0))
        self.value = twin
        self.walk = None

    @invariant()
    def both_are_equal(self):
        check_invariants(self.value)
        assert self.value.scores == self.model
        assert list(self.value.order) == self.pairs
        assert len(self.value) == len(self.model)
        for rank, (_, member) in enumerate(self.pairs):
            assert self.value.rank(member) == rank
        assert self.value.rank(b"missing") is None
        if self.value.encoding == b"listpack":
            assert len(self.model) <= SMALL.zset_max_listpack_entries
            assert all(len(member) <= SMALL.zset_max_listpack_value for member in self.model)


TestSortedSet = SortedSetMachine.TestCase
TestSortedSet.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)


def test_the_form_follows_number_and_length_of_members():
    value = SortedSet()
    for number in range(4):
        value.put(b"m%d" % number, 1.0, SMALL)
        assert value.encoding == b"listpack"
    value.put(b"m4", 1.0, SMALL)
    assert value.encoding == b"skiplist"
    value.remove_range(0, 4)
    assert value.encoding == b"skiplist"
    value = SortedSet()
    value.put(b"longer", 1.0, SMALL)
    assert value.encoding == b"skiplist"


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


def test_the_commands_that_make_it_hold_64_members_each():
    value = SortedSet({b"m%03d" % number: number + 0.5 for number in range(130)})
    commands = list(value.commands(b"k"))
    assert [len(words) for words in commands] == [130, 130, 6]
    assert commands[0][:4] == (b"ZADD", b"k", b"0.5", b"m000")
    assert commands[2][-2:] == (b"129.5", b"m129")


def test_parts_yield_members_and_scores_in_order():
    value = SortedSet({b"b": 1.0, b"a": 1.0, b"c": -inf})
    assert list(value.digest_parts()) == [b"c", b"-inf", b"a", b"1", b"b", b"1"]


@pytest.mark.parametrize("size", [0, 1, 100])
def test_size_grows_with_members(size):
    value = SortedSet({b"%d" % number: 1.0 for number in range(size)})
    assert size * 144 <= value.payload_bytes <= size * 260
