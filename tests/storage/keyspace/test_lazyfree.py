"""Big values are freed in steps, completely, and nothing that is still used."""

from __future__ import annotations

import gc
import inspect
import itertools

import pytest
from support.pending import pieces_of

from rillet.storage.collections.hash import Hash
from rillet.storage.collections.list import List
from rillet.storage.collections.set import Set
from rillet.storage.collections.sorted_set import SortedSet
from rillet.storage.groups.group import Group
from rillet.storage.keyspace import lazyfree as freeing
from rillet.storage.keyspace.keyspace import Keyspace
from rillet.storage.keyspace.lazyfree import PIECE, LazyFree
from rillet.storage.streams.chunk import MAX_ENTRIES
from rillet.storage.streams.stream import Stream

N = 20_000
FIELDS = b"*2\r\n$1\r\nf\r\n$1\r\nv\r\n"


class Witness(bytes):
    """Bytes that tell when they are freed."""

    gone: list[bool]

    def __del__(self) -> None:
        self.gone.append(True)


def a_stream(entries: int = N) -> Stream:
    stream = Stream()
    for number in range(1, entries + 1):
        stream.append(number << 64, FIELDS)
    return stream


def a_group(witness: bytes, by: int) -> Group:
    """All entries pending, some delivered together; the witness is the name of one that has some of them."""
    group = Group()
    consumers = [group.create_consumer(name, 0) for name in (b"c", witness)]
    for start in range(0, N, by):
        ids = [number << 64 for number in range(start + 1, start + by + 1)]
        group.deliver(consumers[start // by % 2], pieces_of(ids), by, start << 64, ids[-1], start)
    group.give_back([1 << 64, 2 << 64], [1, 1])
    return group


def with_group(by):
    def make(witness: bytes) -> Stream:
        stream = a_stream()
        stream.groups[b"g"] = a_group(witness, by)
        return stream

    return make


def a_hash(witness: bytes) -> Hash:
    value = Hash()
    value.fields = {b"f%d" % number: b"v" for number in range(N)} | {b"w": witness}
    return value


MAKERS = {
    "hash": a_hash,
    "list": lambda witness: List([witness, *(b"%d" % number for number in range(N))]),
    "set": lambda witness: Set({witness, *(b"%d" % number for number in range(N))}),
    "sorted set": lambda witness: SortedSet({witness: 0.0} | {b"%d" % number: 1.0 for number in range(N)}),
    "stream with deliveries of many": with_group(1000),
    "stream with deliveries of one": with_group(1),
    "keys": lambda witness: {b"%d" % number: a_hash(witness) if number == 5 else b"v" for number in range(N)},
}


@pytest.fixture(autouse=True)
def no_collector():
    gc.disable()
    yield
    gc.enable()


def waiting() -> LazyFree:
    lazyfree = LazyFree()
    lazyfree.on_queued = lambda: None
    return lazyfree


def steps(lazyfree: LazyFree) -> int:
    number = 1
    while lazyfree.step():
        number += 1
    return number


@pytest.mark.parametrize("kind", MAKERS)
def test_everything_is_freed_in_many_steps_and_without_the_collector(kind):
    witness = Witness(b"7-0")
    gone = witness.gone = []
    value = MAKERS[kind](witness)
    lazyfree = waiting()
    lazyfree.free_later(value, 3)
    del value, witness
    assert (lazyfree.pending, lazyfree.freed) == (3, 0)
    assert not gone
    # A stream's entries go by whole chunks, and what was delivered together by whole pages.
    objects = N / MAX_ENTRIES if kind == "stream with deliveries of many" else N
    assert steps(lazyfree) > objects / PIECE
    assert gone
    assert (lazyfree.pending, lazyfree.freed) == (0, 3)
    assert not lazyfree.step()


def test_what_is_used_elsewhere_stays_whole():
    lazyfree = waiting()
    value = a_hash(b"v")
    lazyfree.free_later(value)
    steps(lazyfree)
    assert len(value) == N + 1
    assert (lazyfree.pending, lazyfree.freed) == (0, 0)


def test_a_part_that_is_used_elsewhere_stays_whole():
    lazyfree = waiting()
    words = [b"%d" % number for number in range(N)]
    lazyfree.free_later([words, [b"other"] * N])
    steps(lazyfree)
    assert len(words) == N


def test_a_copy_keeps_its_entries_and_pending_entries():
    stream = with_group(1000)(b"7-0")
    assert stream.nodes > 100
    twin = stream.copy()
    expected = twin.range(0, 1 << 128), twin.nodes, list(twin.groups[b"g"])
    lazyfree = waiting()
    lazyfree.free_later(stream)
    del stream
    steps(lazyfree)
    assert (twin.range(0, 1 << 128), twin.nodes, list(twin.groups[b"g"])) == expected
    twin.append(N + 1 << 64, FIELDS)
    assert twin.known_nodes()[-1].last_id == N + 1 << 64


@pytest.mark.parametrize("value", [b"x" * 1000, a_stream(10), Hash(), [b"a"] * 10])
def test_what_is_small_does_not_wait(value):
    lazyfree = waiting()
    lazyfree.free_later(value)
    assert lazyfree.pending == 0
    assert not lazyfree.step()


def test_without_a_listener_values_are_freed_immediately():
    lazyfree = LazyFree()
    lazyfree.free_later(a_hash(b"v"))
    assert lazyfree.pending == 0


def test_keys_that_go_are_buried_and_renamed_ones_are_not_touched():
    keyspace = Keyspace()
    lazyfree = keyspace.lazyfree
    lazyfree.on_queued = lambda: None
    db = keyspace.databases[0]
    for key in (b"renamed", b"deleted", b"overwritten"):
        db.add(key, a_hash(b"v"))
    db.replace(b"new", db.entries[b"renamed"])
    db.remove(b"renamed")
    db.remove(b"deleted")
    db.put(b"overwritten", b"v")
    assert lazyfree.pending == 3
    steps(lazyfree)
    assert lazyfree.freed == 2
    assert len(db.entries[b"new"]) == N + 1


def test_a_flush_counts_its_keys():
    keyspace = Keyspace()
    keyspace.lazyfree.on_queued = lambda: None
    db = keyspace.databases[3]
    for number in range(1000):
        db.add(b"%d" % number, b"v")
        db.set_expiry(b"%d" % number, 5)
    assert keyspace.flush(keyspace.databases) == 1000
    assert keyspace.lazyfree.pending == 1000
    steps(keyspace.lazyfree)
    assert (keyspace.lazyfree.pending, keyspace.lazyfree.freed) == (0, 1000)


def test_a_few_keys_with_much_in_them_are_freed_piece_by_piece():
    keyspace = Keyspace()
    keyspace.lazyfree.on_queued = lambda: None
    keyspace.databases[0].add(b"s", a_stream())
    keyspace.flush(keyspace.databases)
    assert keyspace.lazyfree.pending == 1


def test_statistics_can_be_reset():
    keyspace = Keyspace()
    keyspace.lazyfree.on_queued = lambda: None
    db = keyspace.databases[0]
    db.add(b"h", a_hash(b"v"))
    db.read(b"h")
    db.read(b"missing")
    db.remove(b"h")
    steps(keyspace.lazyfree)
    keyspace.reset_statistics()
    assert (keyspace.hits, keyspace.misses, keyspace.lazyfree.freed) == (0, 0, 0)


def test_the_data_that_a_replica_had_before_is_freed_later():
    mine, fresh = Keyspace(), Keyspace()
    mine.lazyfree.on_queued = lambda: None
    mine.databases[1].add(b"h", a_hash(b"v"))
    fresh.databases[1].add(b"h", a_hash(b"v"))
    mine.take_over(fresh)
    assert mine.lazyfree.pending == 1
    steps(mine.lazyfree)
    assert len(mine.databases[1].entries[b"h"]) == N + 1


def test_what_is_cut_off_a_stream_is_freed_later():
    keyspace = Keyspace()
    keyspace.lazyfree.on_queued = lambda: None
    stream = a_stream()
    keyspace.databases[0].add(b"s", stream)
    assert stream.trim_to_length(10) == N - 10
    assert keyspace.lazyfree.pending == 0  # it is no key
    assert steps(keyspace.lazyfree) > 1
    assert stream.length == len(list(stream.ids_from(0))) == 10


def test_a_group_with_pending_cleanup_is_freed_in_steps_too():
    stream = a_stream()
    group = stream.groups[b"g"] = a_group(b"1-0", 100)
    consumer = next(iter(group.consumers.values()))
    group.delete_consumer_later(consumer)
    pel = group._pel
    del group, consumer
    lazyfree = LazyFree()
    lazyfree.on_queued = lambda: None
    lazyfree.free_later(stream)
    del stream
    sizes = [len(pel)]
    while lazyfree.step():
        sizes.append(len(pel))
    assert sizes[-1] < sizes[0] - 5000  # what the consumer had is gone; the rest we hold
    assert max(before - after for before, after in itertools.pairwise(sizes)) < 2000


def test_the_weight_of_a_group_counts_its_pending_cleanup_and_does_not_finish_it():
    group = a_group(b"1-0", 100)
    entries = len(group.pel)
    group.create_consumer(b"other", 0)
    number = len(group.consumers)
    group.delete_consumer_later(next(iter(group.consumers.values())))
    assert group.weight == (number - 1, entries)
    assert group.pending_cleanup is not None
    assert len(group.pel) < entries
    assert group.weight == (number - 1, len(group.pel))


def test_every_class_that_values_are_made_of_is_a_leaf_or_is_taken_apart():
    known = (*freeing._HOLDERS, *freeing._LEAVES)
    modules = {inspect.getmodule(kind) for kind in known if kind.__module__.startswith("rillet.")}
    made = [
        kind
        for module in modules
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if kind.__module__ == module.__name__ and not issubclass(kind, Exception)
    ]
    assert {kind.__name__ for kind in made if not issubclass(kind, known)} == {
        "_Sizes"
    }  # shared by all streams
