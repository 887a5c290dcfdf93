"""What must hold inside the values of ``storage``, whatever happened to them."""

from bisect import bisect_right
from collections import Counter
from functools import singledispatch
from itertools import pairwise
from operator import attrgetter

from rillet.storage.collections.deadlines import Deadlines
from rillet.storage.collections.hash import Hash
from rillet.storage.collections.list import _AROUND, List
from rillet.storage.collections.scan_order import ScanOrder
from rillet.storage.collections.set import INTSET, Set, is_integer
from rillet.storage.collections.sorted_set import SortedSet
from rillet.storage.groups.group import Group
from rillet.storage.groups.pending import _SLACK, MAX_MS, UNOWNED_MS, Order, Pel, _number
from rillet.storage.listpack_sizes import element_size
from rillet.storage.streams.chunk import Chunk, opened
from rillet.storage.streams.cold_chunks import _MOST_READ_ONCE, ChunkCache
from rillet.storage.streams.idempotency import Idempotency
from rillet.storage.streams.ids import encode
from rillet.storage.streams.macro_nodes import MacroNodes, shared_bytes
from rillet.storage.streams.stream import Stream


@singledispatch
def check_invariants(value, *_):
    """Assert that the parts of a value agree with one another."""
    raise TypeError(value)


@check_invariants.register
def _(chunk: Chunk):
    size = len(chunk)
    assert size == len(chunk.seq) == len(chunk.heads) == len(chunk.offsets) - 1 > 0
    assert len(chunk.data) == chunk.offsets[-1]
    assert all(begin < end for begin, end in pairwise(chunk.offsets))
    assert all(chunk.id_at(at - 1) < chunk.id_at(at) for at in range(1, size))


@check_invariants.register
def _(nodes: MacroNodes):
    known = nodes.known
    assert len(nodes.shared) == max(len(known) - 1, 0)
    for one, other, shared in zip(known, known[1:], nodes.shared, strict=False):
        assert one.last_id < other.first_id
        assert shared == shared_bytes(one.first_id, other.first_id)
    for node in known:
        assert node.live > 0 <= node.deleted or node is known[0]  # a trim by MINID can leave it empty
        assert node.first_id <= node.last_id
    assert not known or known[-1].last_id <= nodes.accounted
    ids = [
        chunk.id_at(at)
        for chunk in map(opened, nodes._chunks)
        for at in range(len(chunk))
        if chunk.id_at(at) <= nodes.accounted
    ]
    firsts = [node.first_id for node in known]
    assert Counter(bisect_right(firsts, number) - 1 for number in ids) == Counter(
        {index: node.live for index, node in enumerate(known)}
    )


@check_invariants.register
def _(stream: Stream):
    assert len(stream.chunks) == len(stream.firsts)
    number, before = 0, -1
    for each, first in zip(stream.chunks, stream.firsts, strict=True):
        chunk = opened(each)
        check_invariants(chunk)
        assert before < first <= chunk.id_at(0)
        number, before = number + len(chunk), chunk.id_at(-1)
    assert stream.length == number
    assert before <= stream.last_id
    assert stream.first_id == (opened(stream.chunks[0]).id_at(0) if stream.chunks else 0)
    assert stream.tail is None or stream.tail is stream.chunks[-1]
    check_invariants(stream.macro_nodes)


@check_invariants.register
def _(cache: ChunkCache):
    sizes = [size for _, size in cache._unpacked]
    assert cache._unpacked_bytes == sum(sizes)
    assert cache._unpacked_bytes <= cache.limit or len(sizes) == 1
    assert len(cache._read_once) <= _MOST_READ_ONCE


@check_invariants.register
def _(idempotency: Idempotency):
    for known in idempotency.producers.values():
        assert 0 < len(known) <= idempotency.maxsize
    assert idempotency.added >= 0 <= idempotency.duplicates


@check_invariants.register
def _(pel: Pel, owners):
    alive = sorted(pel.by_text.values(), key=_number)
    assert all(encode(entry.number) == text == entry.text for text, entry in pel.by_text.items())
    assert list(pel.order.walk()) == alive
    assert len(pel.order.items) <= 2 * len(alive) + _SLACK
    assert pel.order.end >= max(map(_number, alive), default=0)
    assert {entry.consumer for entry in alive} <= owners
    for consumer in owners:
        own = [entry for entry in alive if entry.consumer is consumer]
        assert consumer.pending == len(own)
        order = None if pel._owned is None else pel._owned.get(consumer, Order(consumer))
        if order is not None:
            assert list(order.walk()) == own
            assert len(order.items) <= 2 * len(own) + _SLACK
            assert order.living(list(order.late or ())) == list(order.late or ())
    if pel._idle is not None:
        in_order = sorted(alive, key=attrgetter("ms", "serial", "number"))
        assert list(pel._idle.oldest(MAX_MS)) == in_order


@check_invariants.register
def _(group: Group):
    check_invariants(group.pel, {group.unowned, *group.consumers.values()})
    for entry in group:
        assert (entry.ms == UNOWNED_MS) == (entry.consumer is group.unowned)


@check_invariants.register
def _(deadlines: Deadlines):
    heap = deadlines.heap
    assert all(heap[(at - 1) // 2] <= heap[at] for at in range(1, len(heap)))
    assert {(when, name) for name, when in deadlines.when.items()} <= set(heap)


@check_invariants.register
def _(scan: ScanOrder, present):
    assert 0 <= scan._filled <= scan._next <= len(scan._keys)
    places = [*scan._keys[: scan._filled], *scan._keys[scan._next :]]
    assert scan._gone <= set(places)
    assert sorted([key for key in places if key not in scan._gone]) == sorted(present)
    assert len(scan) == len(present)


@check_invariants.register
def _(value: Set):
    assert value.encoding is not INTSET or all(map(is_integer, value.members))
    if value._order is not None:
        check_invariants(value._order, value.members.keys())


@check_invariants.register
def _(value: Hash):
    if value.times is not None:
        assert value.times.when
        assert value.times.when.keys() <= value.fields.keys()
        check_invariants(value.times)
    if value._order is not None:
        check_invariants(value._order, value.fields.keys())


@check_invariants.register
def _(value: List):
    assert 0 <= value._start <= len(value._items)
    assert value.size == _AROUND + sum(map(element_size, value._items[value._start :]))


@check_invariants.register
def _(value: SortedSet):
    assert list(value.order) == sorted([(score, member) for member, score in value.scores.items()])
    if value._scan is not None:
        check_invariants(value._scan, value.scores.keys())
