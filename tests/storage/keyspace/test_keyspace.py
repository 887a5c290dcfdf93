import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from support.thorough import examples

from rillet.storage.keyspace import notifications as events
from rillet.storage.keyspace.keyspace import Keyspace
from rillet.storage.streams.stream import Stream
from rillet.storage.value_types import type_name

ALL = (1 << 14) - 1


@pytest.fixture
def keyspace():
    space = Keyspace(3)
    space.now = 1000
    return space


@pytest.fixture
def db(keyspace):
    return keyspace.databases[0]


@pytest.fixture
def heard(keyspace):
    """Every event as (database, event, key)."""
    calls = []
    keyspace.notify_mask = ALL
    keyspace.on_event = lambda index, event, key, _fields: calls.append((index, event, key))
    return calls


def watch(db, key):
    db.watched[key] = [1, 0]


def version(db, key):
    return db.watched[key][1]


def wait_for(db, *keys):
    for key in keys:
        db.awaited[key] = 1


def ready(keyspace):
    return [(db.index, key) for db, key in keyspace.ready]


def test_the_names_of_types():
    assert [type_name(None), type_name(b""), type_name(Stream())] == [b"none", b"string", b"stream"]


def test_reading_counts_hits_and_misses_and_the_access(keyspace, db):
    db.add(b"k", b"v")
    keyspace.now = 2000
    assert db.read(b"k") == b"v"
    assert db.read(b"none") is None
    assert (keyspace.hits, keyspace.misses) == (1, 1)
    assert db.accessed == {b"k": 2000}


def test_writing_counts_nothing_but_is_an_access(keyspace, db, heard):
    db.add(b"k", b"v")
    heard.clear()
    keyspace.now = 2000
    assert db.write(b"k") == b"v"
    assert db.write(b"none") is None
    assert (keyspace.hits, keyspace.misses, heard) == (0, 0, [])
    assert db.accessed == {b"k": 2000}


def test_looking_counts_but_is_no_access(keyspace, db, heard):
    db.add(b"k", b"v")
    heard.clear()
    keyspace.now = 2000
    assert db.look(b"k") == b"v"
    assert db.look(b"none") is None
    assert db.look(b"none", notify=False) is None
    assert (keyspace.hits, keyspace.misses) == (1, 2)
    assert db.accessed == {b"k": 1000}
    assert heard == [(0, b"keymiss", b"none")]


def test_peeking_leaves_no_trace(keyspace, db, heard):
    db.add(b"k", b"v")
    heard.clear()
    keyspace.now = 2000
    assert db.peek(b"k") == b"v"
    assert db.peek(b"none") is None
    assert (keyspace.hits, keyspace.misses, heard, db.accessed) == (0, 0, [], {b"k": 1000})


def test_no_access_is_noted_while_touching_is_off(keyspace, db):
    db.add(b"k", b"v")
    keyspace.now = 2000
    keyspace.touching = False
    db.read(b"k")
    db.write(b"k")
    assert db.accessed == {b"k": 1000}


@pytest.mark.parametrize("method", ["read", "write", "look", "peek"])
def test_every_lookup_drops_a_key_past_its_time(keyspace, db, heard, method):
    expired = []
    keyspace.on_expired = lambda database, key: expired.append((database.index, key))
    db.add(b"k", b"v")
    db.set_expiry(b"k", 1500)
    watch(db, b"k")
    keyspace.now = 1500
    assert getattr(db, method)(b"k") == b"v"
    keyspace.now = 1501
    heard.clear()
    assert getattr(db, method)(b"k") is None
    assert expired == [(0, b"k")]
    assert heard[0] == (0, b"expired", b"k")
    assert keyspace.expired == 1
    assert version(db, b"k") == 1
    assert (db.entries, db.expires, db.accessed) == ({}, {}, {})


def test_nothing_expires_while_a_file_is_loaded(keyspace, db):
    db.add(b"k", b"v")
    db.set_expiry(b"k", 1)
    keyspace.expiring = False
    assert db.read(b"k") == b"v"
    assert db.expire_all_due(10) == 0
    keyspace.expiring = True
    assert db.expire_all_due(10) == 1
    assert len(db) == 0


def test_adding_sends_new_and_wakes(keyspace, db, heard):
    wait_for(db, b"k")
    db.add(b"k", b"v")
    assert heard == [(0, b"new", b"k")]
    assert ready(keyspace) == [(0, b"k")]


def test_putting_over_a_value_drops_the_expiry_unless_it_is_kept(db):
    db.add(b"k", b"v")
    db.set_expiry(b"k", 5000)
    db.put(b"k", b"w", keep_ttl=True)
    assert db.expires == {b"k": 5000}
    db.put(b"k", b"x")
    assert (db.entries, db.expires) == ({b"k": b"x"}, {})


def test_putting_over_a_key_past_its_time_expires_it_first(keyspace, db, heard):
    db.add(b"k", b"v")
    db.set_expiry(b"k", 1)
    heard.clear()
    db.put(b"k", b"w", keep_ttl=True)
    assert heard == [(0, b"expired", b"k"), (0, b"new", b"k")]
    assert db.expires == {}


def test_putting_wakes_only_if_the_type_changes(keyspace, db):
    wait_for(db, b"k")
    db.entries[b"k"] = b"v"
    db.put(b"k", b"w")
    assert ready(keyspace) == []
    db.put(b"k", Stream())
    assert ready(keyspace) == [(0, b"k")]


def test_replacing_is_a_removal_and_an_addition(keyspace, db, heard):
    db.add(b"k", b"v")
    db.set_expiry(b"k", 5000)
    wait_for(db, b"k")
    heard.clear()
    db.replace(b"k", b"w")
    assert heard == [(0, b"new", b"k")]
    assert ready(keyspace) == [(0, b"k")]
    assert (db.entries, db.expires) == ({b"k": b"w"}, {})


def test_remove_returns_the_old_value(keyspace, db):
    stream = Stream()
    db.add(b"k", stream)
    db.set_expiry(b"k", 5000)
    wait_for(db, b"k")
    assert db.remove(b"k") is stream
    assert db.remove(b"k") is None
    assert ready(keyspace) == [(0, b"k")]
    assert (db.entries, db.expires, db.accessed) == ({}, {}, {})


def test_keys_past_their_time_are_hidden_but_left(db):
    db.add(b"a", b"")
    db.add(b"b", b"")
    assert list(db.visible_keys()) == [b"a", b"b"]
    db.set_expiry(b"a", 1)
    assert list(db.visible_keys()) == [b"b"]
    assert len(db) == 2


def test_clearing_signals_the_waiters_of_each_key(keyspace, db):
    for key in (b"here", b"idle"):
        db.add(key, b"v")
    for key in (b"here", b"absent"):
        watch(db, key)
    wait_for(db, b"here", b"absent")
    assert db.clear() == 2
    assert (version(db, b"here"), version(db, b"absent")) == (1, 0)
    assert ready(keyspace) == [(0, b"here")]


def test_a_flush_is_signalled_once(keyspace):
    calls = []
    keyspace.on_flushed = lambda: calls.append([len(db) for db in keyspace.databases])
    for db in keyspace.databases:
        db.add(b"k", b"v")
    assert keyspace.flush(keyspace.databases) == 3
    assert calls == [[0, 0, 0]]


def test_a_swap_exchanges_everything_but_the_people(keyspace, db):
    other = keyspace.databases[1]
    db.add(b"k", b"v")
    db.set_expiry(b"k", 5000)
    db.order()
    wait_for(db, b"w")
    keyspace.swap(db, other)
    assert (db.entries, db.expires, db.accessed, len(db.order())) == ({}, {}, {}, 0)
    assert (other.entries, other.expires, other.accessed) == ({b"k": b"v"}, {b"k": 5000}, {b"k": 1000})
    assert other.order().page(0, 5) == (0, [b"k"])
    assert (db.index, db.awaited, other.awaited) == (0, {b"w": 1}, {})
    keyspace.now = 6000
    assert (db.expire_all_due(10), other.expire_all_due(10)) == (0, 1)


def test_a_swap_signals_keys_that_exist_on_either_side(keyspace, db):
    other = keyspace.databases[1]
    db.add(b"mine", b"v")
    other.add(b"theirs", b"v")
    for side in (db, other):
        for key in (b"mine", b"theirs", b"neither's"):
            watch(side, key)
            wait_for(side, key)
    keyspace.swap(db, other)
    assert sorted(ready(keyspace)) == [(0, b"mine"), (0, b"theirs"), (1, b"mine"), (1, b"theirs")]
    assert [key for key, (_, changes) in db.watched.items() if changes] == [b"mine", b"theirs"]


def test_a_swap_with_itself_changes_nothing(keyspace, db):
    db.add(b"k", b"v")
    watch(db, b"k")
    keyspace.swap(db, db)
    assert version(db, b"k") == 0
    assert len(db) == 1


def test_the_active_cycle_looks_at_no_more_keys_than_allowed(keyspace, db):
    for number in range(10):
        db.add(b"%d" % number, b"")
        db.set_expiry(b"%d" % number, 500 + number)
    assert db.expire_all_due(4) == 4
    assert sorted(db.entries) == [b"%d" % number for number in range(4, 10)]


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


def test_a_modification_reaches_watchers_and_trackers(keyspace, db):
    calls = []
    keyspace.on_modified = lambda database, key, _by_time: calls.append((database.index, key))
    watch(db, b"k")
    db.modified(b"k")
    db.modified(b"other")
    assert version(db, b"k") == 1
    assert calls == [(0, b"k"), (0, b"other")]


def test_an_event_of_a_class_that_is_off_is_not_sent(keyspace, db, heard):
    keyspace.notify_mask = events.GENERIC
    keyspace.notify(events.STRING, b"set", b"k", db)
    keyspace.notify(events.GENERIC, b"del", b"k", db)
    assert heard == [(0, b"del", b"k")]


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
