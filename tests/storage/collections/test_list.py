"""storage/collections/list.py against Python's own list, and its forms against Redis' limits."""

from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from support.invariants import check_invariants

from rillet.storage.codecs import listpack
from rillet.storage.collections.encoding_limits import Limits
from rillet.storage.collections.list import LISTPACK, QUICKLIST, List

DEFAULT = -2
WORD = st.one_of(
    st.sampled_from([b"", b"a", b"b", b"0", b"-1", b"007", b"123456789"]), st.binary(max_size=80)
)
WORDS = st.lists(WORD, min_size=1, max_size=40)


class AgainstAList(RuleBasedStateMachine):
    """Every change made to both; then they hold the same."""

    LIMIT: ClassVar[int] = DEFAULT

    def __init__(self) -> None:
        super().__init__()
        self.mine = List()
        self.model: list[bytes] = []

    @rule(words=WORDS, times=st.integers(1, 4))
    def push_left(self, words, times):
        for _ in range(times):
            self.mine.push_left(words, self.LIMIT)
            self.model[:0] = words[::-1]

    @rule(words=WORDS, times=st.integers(1, 4))
    def push_right(self, words, times):
        for _ in range(times):
            self.mine.push_right(words, self.LIMIT)
            self.model += words

    @precondition(lambda self: self.model)
    @rule(times=st.integers(1, 100))
    def pop_left(self, times):
        for _ in range(min(times, len(self.model))):
            assert self.mine.pop_left() == self.model.pop(0)

    @precondition(lambda self: self.model)
    @rule(times=st.integers(1, 30))
    def pop_right(self, times):
        for _ in range(min(times, len(self.model))):
            assert self.mine.pop_right() == self.model.pop()

    @rule(data=st.data())
    def keep(self, data):
        first = data.draw(st.integers(0, len(self.model)))
        stop = data.draw(st.integers(first, len(self.model)))
        self.mine.keep(first, stop)
        self.model = self.model[first:stop]

    @precondition(lambda self: self.model)
    @rule(data=st.data(), word=WORD)
    def put(self, data, word):
        index = data.draw(st.integers(0, len(self.model) - 1))
        self.mine.put(index, word, self.LIMIT)
        self.model[index] = word

    @rule(data=st.data(), word=WORD)
    def insert(self, data, word):
        index = data.draw(st.integers(0, len(self.model)))
        self.mine.insert(index, word, self.LIMIT)
        self.model.insert(index, word)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def remove(self, data):
        some = data.draw(st.sets(st.integers(0, len(self.model) - 1), min_size=1, max_size=5))
        self.mine.remove(sorted(some))
        self.model = [word for index, word in enumerate(self.model) if index not in some]

    @rule(word=WORD, within=st.integers(0, 50))
    def find(self, word, within):
        places = [index for index, other in enumerate(self.model) if other == word]
        near = within or len(self.model)
        assert list(self.mine.find(word, within=within)) == [index for index in places if index < near]
        assert list(self.mine.find(word, within=within, backwards=True)) == [
            index for index in reversed(places) if index >= len(self.model) - near
        ]

    @rule()
    def copy(self):
        twin = self.mine.copy()
        self.mine.push_right([b"only here"], self.LIMIT)
        self.mine = twin

    @invariant()
    def they_are_equal(self):
        check_invariants(self.mine)
        assert len(self.mine) == len(self.model)
        assert list(self.mine.digest_parts()) == self.model
        assert self.mine.slice(0, len(self.model)) == self.model
        assert [self.mine.at(index) for index in range(len(self.model))] == self.model

    @invariant()
    def the_size_is_that_of_a_listpack(self):
        assert self.mine.size == len(listpack.pack(list(map(listpack.text, self.model))))


TestAgainstAList = AgainstAList.TestCase


@given(WORDS)
def test_the_commands_of_a_rewrite_make_it_again(words):
    again: list[bytes] = []
    for name, key, *elements in List(words * 5).commands(b"l"):
        assert (name, key) == (b"RPUSH", b"l")
        assert len(elements) <= 64
        again += elements
    assert again == words * 5


def test_matches_are_found_from_the_end_across_thousands():
    many = List([b"x", *[b"y"] * 3000, b"x", *[b"y"] * 100])
    assert list(many.find(b"x", backwards=True)) == [3001, 0]
    assert list(many.find(b"x", backwards=True, within=3000)) == [3001]


def filled(limit, count, word=b"x" * 98):
    """Elements that take 100 bytes each (101 if they are longer), pushed one by one."""
    made = List()
    for _ in range(count):
        made.push_right([word], limit)
    return made


@pytest.mark.parametrize(("limit", "most"), [(-1, 4096), (-2, 8192), (-3, 16384), (-4, 32768), (-5, 65536)])
def test_a_list_is_a_quicklist_from_a_number_of_bytes_on(limit, most):
    word = b"x" * 62  # takes 64; before it is added it counts 62
    fits = (most - 7 - 62) // 64 + 1
    assert filled(limit, fits, word).encoding is LISTPACK
    assert filled(limit, fits + 1, word).encoding is QUICKLIST


def test_a_list_is_a_quicklist_from_a_number_of_elements_on():
    assert filled(5, 5).encoding is LISTPACK
    assert filled(5, 6).encoding is QUICKLIST
    assert filled(0, 1).encoding is LISTPACK
    assert filled(0, 2).encoding is QUICKLIST
    assert filled(1000, 1, b"x" * 8192).encoding is QUICKLIST


def test_it_is_a_listpack_again_at_half_the_limit():
    made = filled(8, 9)
    while len(made) > 5:
        made.pop_left()
        made.shrunk(8)
    assert made.encoding is QUICKLIST
    made.pop_left()
    made.shrunk(8)
    assert made.encoding is LISTPACK


def test_a_replaced_or_inserted_element_counts_too():
    made = List([b"a", b"b"])
    made.put(0, b"x" * 9000, DEFAULT)
    assert made.encoding is QUICKLIST
    made.put(0, b"a", DEFAULT)
    made.shrunk(DEFAULT)
    assert made.encoding is LISTPACK
    made.insert(1, b"x" * 9000, DEFAULT)
    assert made.encoding is QUICKLIST


def test_what_was_loaded_is_a_listpack_up_to_the_whole_limit():
    made = filled(6, 6)
    made.choose_encoding(Limits(list_max_listpack_size=6))
    assert made.encoding is LISTPACK
    made.choose_encoding(Limits(list_max_listpack_size=5))
    assert made.encoding is QUICKLIST
    made.choose_encoding(Limits(list_max_listpack_size=6))
    assert made.encoding is QUICKLIST


def test_a_queue_gives_the_room_of_what_is_gone_back():
    made = List()
    for number in range(10_000):
        made.push_right([b"%d" % number], DEFAULT)
        if number >= 10:
            assert made.pop_left() == b"%d" % (number - 10)
    assert len(made) == 10
    assert len(made._items) < 200


def test_the_end_of_a_stack_costs_no_copy_each_time():
    made = List([b"x"] * 10_000)
    moves = 0
    for _ in range(5_000):
        before = made._items, made._start
        made.push_left([b"y"], DEFAULT)
        moves += made._start > before[1]
        made.pop_left()
    assert moves <= 2
