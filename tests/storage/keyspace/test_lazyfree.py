"""Big values are freed in steps, completely, and nothing that is still used."""

import gc
import inspect
import itertools
from collections import deque

import pytest
from sortedcontainers import SortedList
from support.streams.pending import deliver

from rillet.storage.collections.hash import Hash
from rillet.storage.collections.list import List
from rillet.storage.collections.set import Set
from rillet.storage.collections.sorted_set import SortedSet
from rillet.storage.freeing import Freeable
from rillet.storage.groups import consumer, pending
from rillet.storage.groups.group import Group
from rillet.storage.groups.pending import IdleOrder, Order, Pel
from rillet.storage.keyspace.keyspace import Keyspace
from rillet.storage.keyspace.lazyfree import PIECE, LazyFree
from rillet.storage.streams import chunk
from rillet.storage.streams.chunk import MAX_ENTRIES
from rillet.storage.streams.idempotency import Idempotency
from rillet.storage.streams.macro_nodes import MacroNodes
from rillet.storage.streams.stream import Stream

N = 20_000
FIELDS = b"*2\r\n$1\r\nf\r\n$1\r\nv\r\n"


class Witness(bytes):
    """Bytes that record when they are freed."""

    gone: list[bool]

    def __del__(self) -> None:
        self.gone.append(True)


def a_stream(entries: int = N) -> Stream:
    stream = Stream()
    for number in range(1, entries + 1):
        stream.append(number << 64, FIELDS)
    return stream


def a_group(witness: bytes, by: int, *, backwards: bool = False) -> Group:
    """All entries pending, some delivered together; the witness is the name of one that has some of them."""
    group = Group()
    consumers = [group.create_consumer(name, 0) for name in (b"c", witness)]
    starts = range(0, N, by)
    for start in reversed(starts) if backwards else starts:
        ids = [number << 64 for number in range(start + 1, start + by + 1)]
        deliver(group, consumers[start // by % 2], ids, start)
    group.give_back([1 << 64, 2 << 64], [1, 1])
    group.pel.order_of(group.unowned)  # it has all orders
    group.pel.oldest()
    return group


def with_group(by, *, backwards=False):
    def make(witness: bytes) -> Stream:
        stream = a_stream()
        stream.groups[b"g"] = a_group(witness, by, backwards=backwards)
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
    "stream with deliveries out of order": with_group(1, backwards=True),
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


def attributes(holder: object) -> list[object]:
    names = [
        *getattr(holder, "__dict__", ()),
        *(name for kind in type(holder).__mro__ for name in getattr(kind, "__slots__", ())),
    ]
    return [getattr(holder, name, None) for name in names if name != "__weakref__"]


@pytest.mark.parametrize("kind", MAKERS)
def test_the_parts_of_an_object_are_all_that_may_be_large_in_it(kind):
    value = MAKERS[kind](b"7-0")
    if isinstance(value, Hash):
        value.order()
        value.expire(b"f1", 5)
    if isinstance(value, (Set, SortedSet)):
        value.encoding = b""
        value.page(0, 1)
    if isinstance(value, Stream):
        value.idempotency = Idempotency(100, 100)
    left, seen = [value], set()
    while left:
        each = left.pop()
        if isinstance(each, Freeable):
            large = [
                part for part in attributes(each) if isinstance(part, (list, dict, set, deque, Freeable))
            ]
            sorted_lists = [part for part in attributes(each) if isinstance(part, SortedList)]
            parts = {id(part): part for part in each.parts()}
            assert {id(part) for part in large} <= parts.keys(), type(each)
            assert {id(part._lists) for part in sorted_lists} <= parts.keys(), type(each)
            seen.add(type(each))
        else:
            parts = {id(item): item for item in (each.values() if isinstance(each, dict) else each)}
        left += [part for part in parts.values() if isinstance(part, (list, dict, set, deque, Freeable))]
    assert seen or kind == "keys"
    if isinstance(value, Stream):
        assert {Stream, Group, Pel, Order, IdleOrder, Idempotency, MacroNodes} <= seen


def test_what_is_used_elsewhere_stays_whole():
    lazyfree = waiting()
    value = a_hash(b"v")
    lazyfree.free_later(value)
    steps(lazyfree)
    assert len(value) == N + 1
    assert (lazyfree.pending, lazyfree.freed) == (0, 0)


def test_a_copy_keeps_its_entries_and_pending_entries():
    stream = with_group(1000)(b"7-0")
    assert stream.macro_nodes.count > 100
    twin = stream.copy()
    expected = twin.range(0, 1 << 128), twin.macro_nodes.count, list(twin.groups[b"g"])
    lazyfree = waiting()
    lazyfree.free_later(stream)
    del stream
    steps(lazyfree)
    assert (twin.range(0, 1 << 128), twin.macro_nodes.count, list(twin.groups[b"g"])) == expected
    twin.append(N + 1 << 64, FIELDS)
    assert twin.macro_nodes.all()[-1].last_id == N + 1 << 64


def a_small_stream(witness: bytes = b"c") -> Stream:
    stream = a_stream(10)
    group = stream.groups[b"g"] = Group()
    deliver(group, group.create_consumer(witness, 0), [1 << 64, 2 << 64], 0)
    group.give_back([1 << 64], [1])
    return stream


@pytest.mark.parametrize("value", [b"x" * 1000, a_stream(10), a_small_stream(), Hash(), [b"a"] * 10])
def test_what_is_small_does_not_wait(value):
    lazyfree = waiting()
    lazyfree.free_later(value)
    assert lazyfree.pending == 0
    assert not lazyfree.step()


def test_a_database_of_a_few_small_keys_is_freed_at_once_and_without_the_collector():
    witness = Witness(b"c")
    gone = witness.gone = []
    keys = {b"string": b"v", b"hash": Hash(), b"list": List([b"a"]), b"stream": a_small_stream(witness)}
    lazyfree = waiting()
    lazyfree.free_later(keys, len(keys))
    del keys, witness
    assert gone
    assert (lazyfree.pending, lazyfree.step()) == (0, False)


@pytest.mark.parametrize("large", [a_stream, a_hash])
def test_a_database_of_a_few_keys_waits_if_one_of_them_is_large(large):
    lazyfree = waiting()
    lazyfree.free_later({b"small": Hash(), b"large": large(b"w") if large is a_hash else large()})
    assert lazyfree.pending == 1


def many_groups(stream: Stream) -> None:
    stream.groups |= {b"%d" % number: Group() for number in range(N)}


def many_pending_in_all(stream: Stream) -> None:
    group = stream.groups[b"a"] = Group()
    deliver(group, group.create_consumer(b"c", 0), [number << 64 for number in range(1, 61)], 0)


@pytest.mark.parametrize("add", [many_groups, many_pending_in_all])
def test_a_stream_waits_if_its_groups_are_small_but_hold_much_together(add):
    stream = a_small_stream()
    add(stream)
    lazyfree = waiting()
    lazyfree.free_later(stream)
    assert lazyfree.pending == 1


def test_without_a_listener_values_are_freed_immediately():
    lazyfree = LazyFree()
    lazyfree.free_later(a_hash(b"v"))
    assert lazyfree.pending == 0


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


def test_a_group_with_work_left_is_freed_in_steps_too(monkeypatch):
    monkeypatch.setattr(pending, "_CLEARED", 0)
    stream = a_stream()
    group = stream.groups[b"g"] = a_group(b"1-0", 100)
    consumer = next(iter(group.consumers.values()))
    group.delete_consumer_later(consumer)
    assert group.work is not None
    pel = Group.__dict__["pel"].__get__(group)
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


def test_the_weight_of_a_group_counts_what_its_work_has_left_and_does_not_finish_it():
    group = a_group(b"1-0", 100)
    entries = len(group.pel)
    group.create_consumer(b"other", 0)
    number = len(group.consumers)
    group.delete_consumer_later(next(iter(group.consumers.values())))
    assert group.counts == (number - 1, entries)
    assert group.work is not None
    assert len(group.pel) < entries
    assert group.counts == (number - 1, len(group.pel))


# Freed whole: each has at most some hundred objects.
LEAVES = {"Chunk", "Consumer", "Node", "Pending"}


def freeable_classes(base: type = Freeable) -> list[type]:
    return [kind for child in base.__subclasses__() for kind in (child, *freeable_classes(child))]


def test_every_class_beside_a_freeable_one_is_freeable_or_small():
    modules = {
        inspect.getmodule(kind) for kind in freeable_classes() if kind.__module__.startswith("rillet.")
    }
    made = [
        kind
        for module in {*modules, chunk, consumer}
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if kind.__module__ == module.__name__
        and not issubclass(kind, Exception)
        and not getattr(kind, "_is_protocol", False)
    ]
    others = {kind.__name__ for kind in made if not issubclass(kind, Freeable)}
    assert others == LEAVES | {"_Sizes"}  # which all streams share
