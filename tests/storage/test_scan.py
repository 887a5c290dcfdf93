from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rillet.storage.keyspace import Keyspace
from rillet.storage.scan import ScanOrder

KEYS = st.sampled_from([b"k%d" % number for number in range(24)])


def walk(order, count):
    """All pages of a walk that nothing disturbs."""
    cursor, pages = 0, []
    while True:
        cursor, page = order.page(cursor, count)
        pages.append(page)
        if not cursor:
            return pages


def test_an_undisturbed_walk_meets_every_key_once():
    keys = [b"%d" % number for number in range(25)]
    pages = walk(ScanOrder(keys), 10)
    assert [len(page) for page in pages] == [10, 10, 5]
    assert sorted(key for page in pages for key in page) == sorted(keys)


def test_a_walk_over_nothing_is_over_at_once():
    assert ScanOrder().page(0, 10) == (0, [])


def test_a_page_of_the_exact_size_ends_the_walk():
    assert ScanOrder([b"a", b"b"]).page(0, 2) == (0, [b"a", b"b"])


def test_a_cursor_beyond_all_keys_ends_no_later_than_a_new_walk():
    assert ScanOrder([b"a"]).page(1 << 60, 1) == (0, [b"a"])


def test_deleting_each_page_while_walking_empties_the_order_without_repetition():
    order = ScanOrder([b"%d" % number for number in range(100)])
    cursor, met = 0, []
    while True:
        cursor, page = order.page(cursor, 7)
        met += page
        for key in page:
            order.remove(key)
        if not cursor:
            break
    assert len(order) == 0
    assert len(met) == len(set(met)) == 100


def test_every_key_can_be_drawn():
    order = ScanOrder([b"a", b"b", b"c"])
    order.remove(b"a")
    assert {order.random() for _ in range(200)} == {b"b", b"c"}


class Walk:
    def __init__(self, present):
        self.cursor = 0
        self.always_there = set(present)
        self.met = set()


class ScanGuarantee(RuleBasedStateMachine):
    """Several walks at once over a database that changes: nobody misses a key that was always there."""

    def __init__(self):
        super().__init__()
        self.db = Keyspace(1).databases[0]
        self.walks = []

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
        walk.cursor, page = self.db.order().page(before, count)
        assert len(page) <= count
        assert not before or walk.cursor < before
        walk.met.update(page)
        if not walk.cursor:
            assert walk.always_there <= walk.met
            del self.walks[which]

    @invariant()
    def knows_exactly_the_keys(self):
        order = self.db.order()
        assert sorted(order.page(0, 1000)[1]) == sorted(self.db.entries)


TestScanGuarantee = ScanGuarantee.TestCase
TestScanGuarantee.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
