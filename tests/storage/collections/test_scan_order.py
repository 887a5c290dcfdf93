from itertools import pairwise

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from support.invariants import check_invariants
from support.thorough import examples

from rillet.storage.collections.scan_order import ScanOrder
from rillet.storage.keyspace.keyspace import Keyspace

KEYS = st.sampled_from([b"k%d" % number for number in range(24)])


def test_a_page_passes_over_keys_that_went():
    order = ScanOrder([b"%d" % number for number in range(100)])
    for number in range(60, 99):
        order.remove(b"%d" % number)
    cursor, page = order.page(0, 10)
    assert len(page) == 10
    assert set(page) == {b"99", *(b"%d" % number for number in range(51, 60))}
    assert order.page(cursor, 1)[1] == [b"50"]


def test_a_page_does_not_look_through_everything_for_the_keys_it_may_have():
    order = ScanOrder([b"%d" % number for number in range(1000)])
    for number in range(500, 1000):
        order.remove(b"%d" % number)
    assert order.page(0, 10) == (900, [])


def test_places_of_keys_that_went_are_closed_before_they_are_many_more_than_keys():
    order = ScanOrder([b"%d" % number for number in range(100_000)])
    for number in range(90_000):
        order.remove(b"%d" % number)
    cursor, page = order.page(0, 100_000)
    assert (cursor, len(page), len(order)) == (0, 10_000, 10_000)
    assert len(order._keys) < 25_000


def test_no_run_of_removals_pays_for_all_places_that_are_closed(monkeypatch):
    pieces = []
    close = ScanOrder._close_places
    monkeypatch.setattr(ScanOrder, "_close_places", lambda order: pieces.append(order._next) or close(order))
    order = ScanOrder([b"%d" % number for number in range(10_000)])
    for number in range(5_000):
        order.remove(b"%d" % number)
    assert not pieces
    for number in range(5_000, 5_100):
        order.remove(b"%d" % number)
    assert len(pieces) == 100
    assert pieces[-1] < 5_000


@pytest.fixture
def closing():
    """An order of which places are being closed: the even keys up to 100 went, and the first 20 places are done."""
    order = ScanOrder([b"%d" % number for number in range(100)], step=10)
    for number in [*range(0, 100, 2), 99, 97]:
        order.remove(b"%d" % number)
    assert (order._filled, order._next, len(order._keys)) == (10, 20, 100)
    return order


STAYING = {b"%d" % number for number in range(1, 97, 2)}


def test_a_walk_from_anywhere_continues_while_gaps_are_being_closed(closing):
    assert len(closing) == len(STAYING)
    everywhere = [closing.page(cursor, cursor)[1] for cursor in range(1, 101)]
    assert sorted(everywhere[-1]) == sorted(STAYING)
    for fewer, more in pairwise(everywhere):
        assert set(fewer) <= set(more) <= STAYING
        assert len(fewer) == len(set(fewer)) >= len(more) - 1


def test_only_keys_that_are_there_are_drawn_while_places_are_being_closed(closing):
    assert {closing.random() for _ in range(2000)} == STAYING


class Walk:
    def __init__(self, present):
        self.cursor = 0
        self.always_there = set(present)
        self.met = set()


class ScanGuarantee(RuleBasedStateMachine):
    """Several walks at once over a changing database: none misses a key that was always there."""

    def __init__(self, step):
        super().__init__()
        self.db = Keyspace(1).databases[0]
        self.step = step
        self.walks = []

    def order(self):
        if self.db.scan_order is None:
            self.db.scan_order = ScanOrder(self.db.entries, self.step)
        return self.db.order()

    def gone(self, key):
        for walk in self.walks:
            walk.always_there.discard(key)

    @rule(key=KEYS)
    def put(self, key):
        self.db.put(key, b"v")

    @rule(key=KEYS)
    def remove(self, key):
        self.db.remove(key)
        self.gone(key)

    @rule(key=KEYS)
    def replace(self, key):
        self.db.replace(key, b"new")

    @rule()
    def clear(self):
        self.db.clear()
        for walk in self.walks:
            walk.always_there.clear()

    @rule()
    def begin(self):
        self.walks.append(Walk(self.db.entries))
        self.go_on(len(self.walks) - 1, 3)

    @rule(which=st.integers(0, 9), count=st.integers(1, 6))
    def go_on(self, which, count):
        if which >= len(self.walks):
            return
        walk = self.walks[which]
        before = walk.cursor
        walk.cursor, page = self.order().page(before, count)
        assert len(page) <= count
        assert not before or walk.cursor < before
        walk.met.update(page)
        if not walk.cursor:
            assert walk.always_there <= walk.met
            del self.walks[which]

    @invariant()
    def knows_exactly_the_keys(self):
        order = self.order()
        check_invariants(order, self.db.entries.keys())
        assert sorted(order.page(0, 1000)[1]) == sorted(self.db.entries)
        assert len(order) == len(self.db.entries)
        assert not order or order.random() in self.db.entries


@pytest.mark.parametrize("step", [2, 1024])
def test_a_key_that_is_always_there_is_met_by_every_walk(step):
    run_state_machine_as_test(
        lambda: ScanGuarantee(step),
        settings=settings(max_examples=examples(60), stateful_step_count=40, deadline=None),
    )
