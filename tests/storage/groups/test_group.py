"""Groups: counters, the PEL's bookkeeping, and what must stay cheap."""

from itertools import pairwise
from random import Random

import pytest
from support.invariants import check_invariants
from support.streams.pending import acknowledge, deliver, idle_ids, move, pending_ids

from rillet.storage.groups.group import Group
from rillet.storage.groups.pending import Order
from rillet.storage.streams.chunk import texts_in
from rillet.storage.streams.ids import MAX_ID
from rillet.storage.streams.stream import Stream

FIELDS = b"*2\r\n$1\r\nf\r\n$1\r\nv\r\n"


def number(ms: int) -> int:
    return ms << 64


def text(ms: int) -> bytes:
    return b"%d-0" % ms


def stream_of(count: int) -> Stream:
    stream = Stream()
    for ms in range(1, count + 1):
        stream.append(number(ms), FIELDS)
    return stream


def delivered(group: Group, name: bytes, first: int, last: int, now: int = 100) -> None:
    consumer = group.consumers.get(name) or group.create_consumer(name, now)
    deliver(group, consumer, list(map(number, range(first, last + 1))), now)


def test_loading_in_any_order_still_lists_in_id_order():
    group = Group()
    consumer = group.create_consumer(b"a", 1)
    order = [(ms * 7919) % 3001 for ms in range(3001)]
    for ms in order:
        group.add_pending(number(ms), consumer, 5, 1)
    assert pending_ids(group) == [text(ms) for ms in range(3001)]
    assert pending_ids(group, number(2000), number(2002)) == [text(2000), text(2001), text(2002)]


@pytest.mark.parametrize("old", [3, 400])
def test_idle_entries_are_found_in_id_order_whether_few_or_many(old):
    group = Group()
    consumer = group.create_consumer(b"a", 1)
    for ms in range(1, 501):
        deliver(group, consumer, [number(ms)], ms)
    move(group, consumer, [number(2)], 1000, 2)  # no longer idle
    expected = [text(ms) for ms in range(1, old + 1) if ms != 2]
    assert idle_ids(group, old) == expected
    assert idle_ids(group, old, count=2) == expected[:2]
    assert idle_ids(group, old, number(3), MAX_ID) == expected[1:]
    assert idle_ids(group, old, number(1), number(3)) == [text(1), text(3)]
    assert idle_ids(group, old, number(1), number(3), count=5) == [text(1), text(3)]
    assert idle_ids(group, old, number(2), number(2), count=5) == []
    assert idle_ids(group, old, consumer=consumer) == expected
    assert idle_ids(group, 0) == []


def test_acknowledged_entries_leave_nothing_behind():
    group = Group()
    consumer = group.create_consumer(b"a", 1)
    for ms in range(1, 20_001):
        deliver(group, consumer, [number(ms)], ms)
        if ms > 10:
            acknowledge(group, [number(ms - 10)])
        if ms == 100:
            assert next(group.pel.oldest()).number == number(91)
            assert pending_ids(group, consumer=group.create_consumer(b"b", 1)) == []
    assert len(group.pel) == 10
    assert len(group.pel.order.items) < 300
    assert [len(order.items) < 300 for order in group.pel._owned.values()] == [True]
    assert len(group.pel._idle.items) < 300


def test_what_was_acknowledged_is_swept_in_small_steps():
    group = Group()
    delivered(group, b"a", 1, 10_000)
    delivered(group, b"b", 10_001, 20_000)
    consumer = group.consumers[b"b"]
    assert next(group.pel.oldest()).number == number(1)
    assert pending_ids(group, consumer=consumer)[:1] == [text(10_001)]
    lists = [group.pel.order.items, group.pel._owned[consumer].items, group.pel._idle.items]
    order = [number(ms) for ms in range(1, 20_001)]
    Random(1).shuffle(order)
    sizes = [list(map(len, lists))]
    for at in range(0, len(order), 10):
        acknowledge(group, order[at : at + 10])
        sizes.append(list(map(len, lists)))
        if at % 1000 == 0:
            check_invariants(group)
    for column in zip(*sizes, strict=True):
        assert max(before - after for before, after in pairwise(column)) <= 4096
        assert column[-1] < 300


@pytest.mark.parametrize("runs", [1, 3])
def test_listing_many_by_time_looks_at_a_bounded_number_at_once(runs, monkeypatch):
    group = Group()
    for first in range(1, 90_001, 30_000):
        delivered(group, b"a", first, first + 29_999, now=100 + (first if runs == 1 else -first))
    looked: list[int] = []
    living = Order.living
    monkeypatch.setattr(
        Order, "living", lambda order, items: looked.append(len(items)) or living(order, items)
    )
    work = group.pel.long_work(None, by_time=True)
    assert work is not None
    steps = []
    for _ in work:
        steps.append(sum(looked))
        looked.clear()
    assert 0 < max(steps) <= 16_384
    check_invariants(group)


def test_a_removed_range_does_not_slow_later_walks():
    group = Group()
    delivered(group, b"a", 1, 5000)
    acknowledge(group, [number(ms) for ms in range(1, 4990)])
    assert group.pel.first().text == text(4990)
    assert len(group.pel.order.items) == 11


def deliver_next(group: Group, stream: Stream, count: int) -> list[bytes]:
    """XREADGROUP > in millisecond 5."""
    consumer = group.consumers.get(b"c") or group.create_consumer(b"c", 5)
    pieces, raw, last = stream.entries_after(group.last_id, count)
    texts = texts_in(pieces, raw)
    group.pel.deliver(consumer, pieces, texts, group.last_id, last, 5)
    group.last_id = last
    return texts


def test_an_entry_delivered_again_in_the_millisecond_of_its_acknowledgement_has_its_place_by_time():
    stream, group = stream_of(2), Group()
    assert not list(group.pel.oldest())  # from here on there is an order by time
    for _ in range(3):
        group.last_id = 0
        group.pel.acknowledge(deliver_next(group, stream, 1))
        assert group.pel.order.last() is None
    group.last_id = 0
    deliver_next(group, stream, 1)
    assert [entry.text for entry in group.pel.oldest()] == [text(1)]
    check_invariants(group)


def test_a_group_set_back_again_and_again_keeps_nothing_of_what_it_acknowledges():
    stream, group = stream_of(200), Group()
    group.pel.acknowledge(deliver_next(group, stream, 200)[:-1])
    for _ in range(10):
        group.last_id = 0
        group.pel.acknowledge(deliver_next(group, stream, 199))
    assert len(group.pel.order.items) + len(group.pel.order.late or ()) < 300
