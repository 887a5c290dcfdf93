"""The meter: what it says is what the keys take, whatever was done to them."""

import tracemalloc
from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from support.fake_server import FakeServer, make_client, run
from support.thorough import examples

from rillet.storage.collections.list import List
from rillet.storage.keyspace import frequency, metering
from rillet.storage.keyspace.frequency import Settings
from rillet.storage.keyspace.keyspace import Keyspace
from rillet.storage.keyspace.memory import memory_of_key
from rillet.storage.streams.stream import Stream

MINUTE = 60_000
NOW = 1_700_000_000_000 // MINUTE * MINUTE


def entry(number):
    return b"*2\r\n$5\r\nfield\r\n$9\r\nvalue%04d\r\n" % (number % 10_000)


@pytest.fixture
def keyspace():
    keyspace = Keyspace()
    keyspace.now = NOW
    metering.switch_on(keyspace)
    return keyspace


def measured(db):
    db.meter.measure_touched(db.entries)
    return db.meter.memory


def true_sizes(db):
    return {key: memory_of_key(key, value) for key, value in db.entries.items()}


def test_without_a_limit_databases_are_plain_and_nothing_is_kept():
    keyspace = Keyspace()
    assert {db.meter for db in keyspace.databases} == {None}
    metering.switch_on(keyspace)
    keyspace.databases[0].add(b"k", b"v")
    metering.switch_off(keyspace)
    assert {db.meter for db in keyspace.databases} == {None}
    assert keyspace.databases[0].entries == {b"k": b"v"}


def test_a_value_that_changes_after_it_was_looked_up_is_measured_at_the_next_look(keyspace):
    db = keyspace.databases[0]
    stream = Stream()
    db.add(b"s", stream)
    before = db.meter.memory_of(db)
    found = db.write(b"s")
    for number in range(1000):
        found.append((number + 1) << 64, entry(number))
    assert db.meter.memory_of(db) > before + 20_000
    assert measured(db) == true_sizes(db)


def test_keys_that_were_there_before_count_as_the_mean_until_they_are_measured():
    keyspace = Keyspace()
    db = keyspace.databases[0]
    for number in range(5000):
        db.add(b"key:%04d" % number, b"x" * 100)
    metering.switch_on(keyspace)
    estimated = db.meter.memory_of(db)
    assert len(db.meter.memory) < 1000
    steps = 0
    while metering.measure_some(keyspace):
        steps += 1
        assert steps < 1000
    assert len(db.meter.memory) == 5000
    assert db.meter.memory_of(db) == estimated
    assert not metering.measure_some(keyspace)


def test_a_stream_whose_chunks_are_packed_without_a_command_is_measured_again(keyspace):
    db = keyspace.databases[0]
    stream = Stream()
    db.add(b"s", stream)
    for number in range(5000):
        stream.append((number + 1) << 64, entry(number))
    db.add(b"k", b"v")
    full = db.meter.memory_of(db)
    keyspace.cold.depth = 1
    for index in range(len(stream.chunks) - 1):
        keyspace.cold.pack(stream, index)
    assert db.meter.memory_of(db) == full
    metering.measure_unseen(keyspace)
    assert db.meter.memory_of(db) < full * 0.7
    assert db.meter.total == sum(true_sizes(db).values())


def test_what_lazyfree_has_weighs_until_it_is_freed(keyspace):
    keyspace.lazyfree.on_queued = lambda: None
    db = keyspace.databases[0]
    db.add(b"l", List([b"element %d" % number for number in range(5000)]))
    size = measured(db)[b"l"]
    db.remove(b"l")
    assert keyspace.lazyfree.memory == size
    assert db.meter.memory_of(db) == 0
    while keyspace.lazyfree.step():
        pass
    assert keyspace.lazyfree.memory == 0


def test_data_loaded_elsewhere_is_measured_after_the_takeover(keyspace):
    keyspace.databases[0].add(b"old", b"v")
    fresh = Keyspace()
    fresh.databases[0].add(b"new", b"v" * 500)
    keyspace.take_over(fresh)
    while metering.measure_some(keyspace):
        pass
    assert keyspace.databases[0].meter.memory == true_sizes(keyspace.databases[0])
    assert b"new" in keyspace.databases[0].meter.memory


def test_many_touched_keys_are_settled_on_the_way(keyspace):
    db = keyspace.databases[0]
    for number in range(10_000):
        db.add(b"%d" % number, List([b"x"]))
    assert len(db.meter.touched) <= 256


# How true the sizes are

SHAPES = {
    "strings": (4000, lambda n: [("SET", f"key{n}", "x" * 100)]),
    "lists": (20, lambda n: [("RPUSH", f"key{n}", *[f"element{i}" for i in range(200)])]),
    "hashes": (20, lambda n: [("HSET", f"key{n}", *[f"word{i}" for i in range(400)])]),
    "sets": (20, lambda n: [("SADD", f"key{n}", *[f"member{n}.{i}" for i in range(200)])]),
    "sorted sets": (
        20,
        lambda n: [("ZADD", f"key{n}", *[w for i in range(200) for w in (i * n, f"m{n}.{i}")])],
    ),
    "streams": (20, lambda n: [("XADD", f"key{n}", f"{i + 1}-1", "field", f"value {i}") for i in range(500)]),
    "groups": (
        200,
        lambda n: [
            ("XADD", f"key{n}", "*", "field", "value"),
            ("XGROUP", "CREATE", f"key{n}", "g", "0"),
            ("XREADGROUP", "GROUP", "g", "c", "STREAMS", f"key{n}", ">"),
        ],
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_counted_is_about_what_python_allocates(shape):
    count, commands = SHAPES[shape]
    server = FakeServer()
    server.keyspace.on_event, server.propagation.active = None, False
    client = make_client(server=server)
    words = [[str(word).encode() for word in command] for n in range(count) for command in commands(n)]
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for argv in words:
            run(client, *[bytes(bytearray(word)) for word in argv])
        allocated = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    counted = sum(true_sizes(client.db).values())
    assert 0.7 < counted / allocated < 1.5


# Frequencies


def test_a_counter_grows_ever_more_rarely_and_never_beyond_its_limit():
    always = [frequency.after_access(counter, 0) for counter in (0, 5, 254, 255)]
    assert always == [1, 6, 255, 255]
    assert frequency.after_access(5, 10) == 6
    grown = Counter(frequency.after_access(15, 10) - 15 for _ in range(3000))
    assert 5 < grown[1] < 90  # 1 of 101


def test_a_counter_decays_with_the_minutes():
    kept = frequency.stored(100, NOW)
    after = [frequency.decayed(kept, NOW + minutes * MINUTE, 1) for minutes in (0, 1, 50, 1000)]
    assert after == [100, 99, 50, 0]
    assert frequency.decayed(kept, NOW + 10 * MINUTE, 5) == 98
    assert frequency.decayed(kept, NOW + 10 * MINUTE, 0) == 100
    assert frequency.decayed(kept, NOW - MINUTE, 1) == 100


def test_accesses_are_counted_under_lfu_but_not_under_no_touch(keyspace):
    keyspace.usage = Settings(log_factor=0, decay_minutes=1)
    db = keyspace.databases[0]
    db.put(b"k", b"v")
    assert db.frequency(b"k") == 5
    for _ in range(10):
        db.read(b"k")
    assert db.frequency(b"k") == 15
    keyspace.touching = False
    db.read(b"k")
    db.write(b"k")
    assert db.frequency(b"k") == 15
    db.touch(b"k")
    assert db.frequency(b"k") == 16
    db.remove(b"k")
    assert db.frequencies == {}


def test_under_lrm_only_modifications_count(keyspace):
    keyspace.by_modification, keyspace.touching = True, False
    db = keyspace.databases[0]
    db.add(b"k", b"v")
    keyspace.now += 5000
    db.read(b"k")
    db.write(b"k")
    db.touch(b"k")
    assert db.accessed[b"k"] == NOW
    db.modified(b"k")
    assert db.accessed[b"k"] == NOW + 5000


KEYS = st.sampled_from(["a", "b", "c", "d"])
WORDS = st.sampled_from(["", "x", "12", "y" * 50, "z" * 3000])


class Metered(RuleBasedStateMachine):
    """Random commands of all types: the sum of the meter is what measuring all keys gives."""

    @initialize(before=st.lists(st.tuples(KEYS, WORDS), max_size=4))
    def begin(self, before):
        server = FakeServer()
        server.config.lazyfree_lazy_server_del = False
        server.config.lazyfree_lazy_user_flush = False
        self.client = make_client(server=server)
        self.keyspace = server.keyspace
        self.keyspace.lazyfree.on_queued = lambda: None
        for key, word in before:
            self.run("SET", key, word)
        metering.switch_on(self.keyspace)
        while metering.measure_some(self.keyspace):
            pass

    def run(self, *words):
        run(self.client, *words)

    @rule(key=KEYS, word=WORDS)
    def strings(self, key, word):
        self.run("SET", key, word)

    @rule(
        key=KEYS,
        word=WORDS,
        name=st.sampled_from(["APPEND", "GETSET", "SETNX", "RPUSH", "LPUSH", "SADD", "SREM"]),
    )
    def words(self, name, key, word):
        self.run(name, key, word)

    @rule(key=KEYS, word=WORDS, field=WORDS)
    def fields(self, key, field, word):
        self.run("HSET", key, field, word)
        self.run("HPEXPIRE", key, 1000, "FIELDS", 1, field)

    @rule(key=KEYS, at=st.integers(0, 5000), word=WORDS)
    def ranges(self, key, at, word):
        self.run("SETRANGE", key, at, word)
        self.run("SETBIT", key, at, 1)

    @rule(key=KEYS, score=st.integers(-5, 5), word=WORDS)
    def scores(self, key, score, word):
        self.run("ZADD", key, score, word)

    @rule(
        key=KEYS,
        name=st.sampled_from(["LPOP", "RPOP", "SPOP", "ZPOPMIN", "DEL", "UNLINK", "GETDEL", "PERSIST"]),
    )
    def taken(self, name, key):
        self.run(name, key)

    @rule(key=KEYS, count=st.integers(1, 150), word=WORDS)
    def entries(self, key, count, word):
        for _ in range(count):
            self.run("XADD", key, "*", "f", word)
        self.run("XGROUP", "CREATE", key, "g", "0")

    @rule(key=KEYS, consumer=WORDS)
    def deliveries(self, key, consumer):
        self.run("XREADGROUP", "GROUP", "g", consumer, "COUNT", 100, "STREAMS", key, ">")
        self.run("XAUTOCLAIM", key, "g", "other", 0, "0", "COUNT", 10)

    @rule(key=KEYS, length=st.integers(0, 100))
    def trimmed(self, key, length):
        self.run("XTRIM", key, "MAXLEN", length)
        self.run("XGROUP", "DESTROY", key, "g")

    @rule(
        one=KEYS,
        other=KEYS,
        name=st.sampled_from(["RENAME", "COPY", "RPOPLPUSH", "SUNIONSTORE", "ZUNIONSTORE", "SORT"]),
    )
    def between(self, name, one, other):
        if name == "ZUNIONSTORE":
            self.run(name, one, 1, other)
        elif name == "SORT":
            self.run(name, one, "ALPHA", "STORE", other)
        else:
            self.run(name, one, other)

    @rule(key=KEYS, db=st.integers(0, 2))
    def elsewhere(self, key, db):
        self.run("MOVE", key, db)
        self.run("COPY", key, key, "DB", db)

    @rule(db=st.integers(0, 2))
    def databases(self, db):
        self.run("SWAPDB", 0, db)
        self.run("SELECT", db)

    @rule(key=KEYS, ms=st.integers(-1, 500))
    def expiry(self, key, ms):
        self.run("PEXPIRE", key, ms)

    @rule(ms=st.integers(1, 1500))
    def time_goes_on(self, ms):
        self.client.server.advance(ms)
        for db in self.keyspace.databases:
            db.expire_all_due(100)
        self.run("HGETALL", "a")

    @rule(name=st.sampled_from(["FLUSHDB", "FLUSHALL"]))
    def flushed(self, name):
        self.run(name)
        self.run("FLUSHALL")
        assert [db.meter.total for db in self.keyspace.databases] == [0] * 16
        assert sum(db.meter.memory_of(db) for db in self.keyspace.databases) == 0

    @rule()
    def freed(self):
        while self.keyspace.lazyfree.step():
            pass
        assert self.keyspace.lazyfree.memory == 0

    @invariant()
    def the_sum_is_that_of_the_keys(self):
        for db in self.keyspace.databases:
            assert measured(db) == true_sizes(db)
            assert db.meter.total == sum(db.meter.memory.values()) >= 0
            assert set(db.meter.unseen) == {key for key, value in db.entries.items() if type(value) is Stream}
            assert db.entries.keys() == db.accessed.keys()
        assert self.keyspace.lazyfree.memory >= 0


TestMetered = Metered.TestCase
TestMetered.settings = settings(max_examples=examples(40), stateful_step_count=20, deadline=None)
