"""Pages of a PEL: what they share with the stream, what they keep of it, and how they shrink."""

from __future__ import annotations

import pytest
from support.pending import pending_ids, pieces_of, places_of

from rillet.storage.chunk import MAX_ENTRIES
from rillet.storage.cold import Cold
from rillet.storage.group import Group
from rillet.storage.stream import Stream
from rillet.storage.stream_id import MAX_ID, MAX_U64, encode

FIELDS = b"*2\r\n$1\r\nf\r\n$1\r\nv\r\n"


def number(ms: int) -> int:
    return ms << 64


def stream_of(entries: int) -> Stream:
    stream = Stream()
    for ms in range(1, entries + 1):
        stream.append(number(ms), FIELDS)
    return stream


def read(group: Group, stream: Stream, count: int, now: int = 1) -> None:
    consumer = group.consumers.get(b"c") or group.create_consumer(b"c", 0)
    pieces, _, last = stream.take_after(group.last_id, count)
    group.deliver(consumer, pieces, count, group.last_id, last, now)
    group.last_id = last


def private_ids(group: Group) -> int:
    """How many IDs the pages keep for themselves."""
    return sum(len(page.ms) for page in group.pel._pages if page.private)


@pytest.mark.parametrize("count", [1, 7, 100])
def test_what_is_read_in_order_shares_the_ids_of_the_stream(count):
    stream, group = stream_of(10 * MAX_ENTRIES), Group()
    for _ in range(10 * MAX_ENTRIES // count):
        read(group, stream, count)
    assert not private_ids(group)
    assert [page.ms for page in group.pel._pages] == [chunk.ms for chunk in stream._chunks]


def test_a_reader_that_keeps_up_with_the_stream_shares_its_ids_too():
    stream, group = Stream(), Group()
    for ms in range(1, 5 * MAX_ENTRIES + 1):
        stream.append(number(ms), FIELDS)
        read(group, stream, 1, ms)
    assert not private_ids(group)
    assert len(group.pel._pages) == 5


def test_a_group_that_begins_in_the_middle_shares_ids_from_there():
    stream, group = stream_of(10 * MAX_ENTRIES), Group(number(20))
    for _ in range(50):
        read(group, stream, 10)
    assert not private_ids(group)


def test_what_was_read_without_becoming_pending_leaves_a_gap():
    stream, group = stream_of(MAX_ENTRIES), Group()
    read(group, stream, 10)
    group.last_id = number(30)
    read(group, stream, 10)
    assert pending_ids(group) == [encode(number(ms)) for ms in [*range(1, 11), *range(31, 41)]]
    assert len(group.pel._pages) == 1


def test_a_page_that_is_full_in_the_middle_of_a_chunk_is_followed_by_one_without_what_it_has():
    stream, group = stream_of(3 * MAX_ENTRIES), Group(number(MAX_ENTRIES - 60))
    for count in (60, 4, 50, 30):
        read(group, stream, count)
    assert [len(page.blocks) for page in group.pel._pages] == [114, 30]
    assert pending_ids(group) == [encode(number(ms)) for ms in range(MAX_ENTRIES - 59, MAX_ENTRIES + 85)]
    assert all(group.pel.at(number(ms)) for ms in range(MAX_ENTRIES - 59, MAX_ENTRIES + 85))


def test_pending_ids_stay_whatever_becomes_of_the_stream():
    stream, group = stream_of(5 * MAX_ENTRIES), Group()
    cold = Cold()
    cold.depth = 1
    stream.chill(cold)
    read(group, stream, 4 * MAX_ENTRIES)
    expected = [encode(number(ms)) for ms in range(1, 4 * MAX_ENTRIES + 1)]
    while stream.pack_next(MAX_ID, cold):
        pass
    assert pending_ids(group) == expected
    stream.delete(number(200))
    stream.trim_to_length(100)
    assert pending_ids(group) == expected
    read(group, stream, MAX_ENTRIES // 2)
    assert len(pending_ids(group)) == len(group.pel) == 4 * MAX_ENTRIES + MAX_ENTRIES // 2


@pytest.mark.parametrize("trim", [True, False])
def test_a_stream_that_is_cut_all_the_time_does_not_leave_a_page_for_each_entry(trim):
    stream, group = Stream(), Group()
    for ms in range(1, 2001):
        stream.append(number(ms), FIELDS)
        read(group, stream, 1, ms)
        if trim:
            stream.trim_to_length(30)
        else:
            stream.delete(number(ms))
    assert len(group.pel) == 2000
    assert len(group.pel._pages) < 2000 / 50
    assert sum(len(page.ms) for page in group.pel._pages) < 2000 * 1.5


def test_few_that_are_left_of_many_take_little_room():
    stream, group = stream_of(200 * MAX_ENTRIES), Group()
    read(group, stream, 200 * MAX_ENTRIES)
    group.acknowledge([number(ms) for ms in range(1, 200 * MAX_ENTRIES + 1) if ms % 64])
    assert len(group.pel) == 400
    *pages, _last = group.pel._pages
    assert sum(len(page.blocks) for page in pages) < 4 * 400
    assert len(pages) < 20
    assert pending_ids(group) == [encode(number(ms)) for ms in range(64, 200 * MAX_ENTRIES + 1, 64)]


def test_acknowledging_everything_leaves_one_page():
    stream, group = stream_of(20 * MAX_ENTRIES), Group()
    read(group, stream, 20 * MAX_ENTRIES)
    ids = [encode(number(ms)) for ms in range(1, 20 * MAX_ENTRIES + 1)]
    for at in range(0, len(ids), 7):
        assert group.acknowledge_all(ids[at : at + 7])
    assert len(group.pel) == 0
    assert len(group.pel._pages) == 1
    assert group.pel.first() is None


@pytest.mark.parametrize(
    "ids",
    [
        [number(5) + 1],
        [number(5), number(5) + 1, number(5) + 2, number(6), number(7) + 9],
        [MAX_ID - 1, MAX_ID],
        [1, MAX_U64, MAX_U64 + 1],
    ],
)
def test_ids_of_one_millisecond_and_at_the_ends_are_found(ids):
    group = Group()
    group.deliver(group.create_consumer(b"c", 0), pieces_of(ids), len(ids), 0, ids[-1], 5)
    for each in ids:
        assert group.pel.at(each) is not None
        assert group.pel.at(each - 1) is None or each - 1 in ids
    assert pending_ids(group) == list(map(encode, ids))
    assert group.acknowledge_all(list(map(encode, reversed(ids)))) or len(ids) == 1
    assert len(group.pel) == 0


@pytest.mark.parametrize(
    "words",
    [
        [b"1-0", b"2-0", b"2-0"],
        [b"2-0", b"1-0", b"2-0"],
        [b"1-0", b"x"],
        [b"1-0", b"+2-0"],
        [b"1-0", b"2_0-0"],
        [b"1-0", b"2"],
        [b"1-0", b"-"],
        [b"1-0", b" 2-0"],
        [b"1-0", b"0" * 40 + b"2-0"],
        [b"1-0", b"99999999999999999999999-0"],
        [b"1-0", b"2-99999999999999999999999"],
        [b"2"],
        [b"-"],
        [b""],
    ],
)
def test_words_that_are_no_texts_of_pending_ids_acknowledge_nothing(words):
    stream, group = stream_of(10), Group()
    read(group, stream, 10)
    assert not group.acknowledge_all(words)
    assert len(group.pel) == 10


def test_claims_of_scattered_entries_remember_where_those_are():
    stream, group = stream_of(100 * MAX_ENTRIES), Group()
    read(group, stream, 100 * MAX_ENTRIES)
    scattered = [number(ms) for ms in range(1, 100 * MAX_ENTRIES, 3000)]
    other = group.create_consumer(b"d", 0)
    group.reassign(other, places_of(group, scattered), 9, 2)
    (block,) = other.blocks
    assert block.ids is not None
    assert [page.number(at) for page, at in group.pel.of_block(block)] == scattered
    near = [number(ms) for ms in range(50, 90, 3)]
    group.reassign(other, places_of(group, near), 9, 2)
    assert other.blocks[-1].ids is None
    assert [page.number(at) for page, at in group.pel.of_block(other.blocks[-1])] == near
