import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from support.thorough import examples

from rillet.storage.keyspace.keyspace import Keyspace


@pytest.fixture
def keyspace():
    space = Keyspace(3)
    space.now = 1000
    return space


@pytest.fixture
def db(keyspace):
    return keyspace.databases[0]


def test_reading_counts_hits_and_misses_and_the_access(keyspace, db):
    db.add(b"k", b"v")
    keyspace.now = 2000
    assert db.read(b"k") == b"v"
    assert db.read(b"none") is None
    assert (keyspace.hits, keyspace.misses) == (1, 1)
    assert db.accessed == {b"k": 2000}


def test_nothing_expires_while_a_file_is_loaded(keyspace, db):
    db.add(b"k", b"v")
    db.set_expiry(b"k", 1)
    keyspace.expiring = False
    assert db.read(b"k") == b"v"
    assert db.expire_all_due(10) == 0
    keyspace.expiring = True
    assert db.expire_all_due(10) == 1
    assert len(db) == 0


def test_an_outdated_time_does_not_expire_a_key(keyspace, db):
    db.add(b"k", b"v")
    db.set_expiry(b"k", 1)
    db.set_expiry(b"k", 9000)
    assert db.expire_all_due(10) == 1
    assert len(db) == 1


def test_the_active_cycle_leaves_a_key_in_its_last_millisecond(keyspace, db):
    db.add(b"k", b"v")
    db.set_expiry(b"k", keyspace.now)
    assert db.expire_all_due(10) == 0
    keyspace.now += 1
    assert db.expire_all_due(10) == 1
    assert len(db) == 0


def test_setting_an_expiry_again_and_again_does_not_grow_the_heap(db):
    db.add(b"k", b"v")
    for when in range(10_000):
        db.set_expiry(b"k", 5000 + when)
    assert len(db.due) < 100


class ExpiryMatchesAModel(RuleBasedStateMachine):
    """Whatever is done, a key is visible exactly until its time, and nothing about it outlives it."""

    keys = st.sampled_from([b"a", b"b", b"c"])

    def __init__(self):
        super().__init__()
        self.keyspace = Keyspace(2)
        self.keyspace.now = 0
        self.model = [{}, {}]

    @rule(key=keys, side=st.integers(0, 1), keep=st.booleans())
    def put(self, key, side, keep):
        kept = self.model[side].get(key) if keep else None
        self.model[side][key] = kept
        self.keyspace.databases[side].put(key, b"v", keep_ttl=keep)

    @rule(key=keys, side=st.integers(0, 1), when=st.integers(0, 60))
    def set_expiry(self, key, side, when):
        if self.keyspace.databases[side].write(key) is not None:
            self.keyspace.databases[side].set_expiry(key, when)
            self.model[side][key] = when
            self.forget()

    @rule(key=keys, side=st.integers(0, 1))
    def persist(self, key, side):
        had = self.keyspace.databases[side].write(key) is not None and self.model[side][key] is not None
        assert self.keyspace.databases[side].clear_expiry(key) == had
        if key in self.model[side]:
            self.model[side][key] = None

    @rule(key=keys, side=st.integers(0, 1))
    def remove(self, key, side):
        self.keyspace.databases[side].peek(key)
        assert (self.keyspace.databases[side].remove(key) is not None) == (key in self.model[side])
        self.model[side].pop(key, None)

    @rule()
    def swap(self):
        self.keyspace.swap(*self.keyspace.databases)
        self.model.reverse()

    @rule(milliseconds=st.integers(0, 15))
    def pass_time(self, milliseconds):
        self.keyspace.now += milliseconds
        self.forget()

    @rule(side=st.integers(0, 1))
    def cycle(self, side):
        self.keyspace.databases[side].expire_all_due(100)
        assert set(self.keyspace.databases[side].entries) == set(self.model[side])

    def forget(self):
        now = self.keyspace.now
        self.model = [
            {key: when for key, when in side.items() if when is None or when >= now} for side in self.model
        ]

    @invariant()
    def the_same_keys_are_visible(self):
        for db, model in zip(self.keyspace.databases, self.model, strict=True):
            assert sorted(db.visible_keys()) == sorted(model)
            assert {key: when for key, when in db.expires.items() if key in model} == {
                key: when for key, when in model.items() if when is not None
            }
            assert set(db.expires) <= set(db.entries) == set(db.accessed)


TestExpiryMatchesAModel = ExpiryMatchesAModel.TestCase
TestExpiryMatchesAModel.settings = settings(max_examples=examples(60), stateful_step_count=30, deadline=None)
