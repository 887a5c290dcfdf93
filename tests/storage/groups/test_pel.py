"""Pages of a PEL: what they share with the stream, what they keep of it, and how they shrink."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.streams.pending import looks, pending_ids, pieces_of, places_of

from rillet.storage.groups.deliveries import in_columns
from rillet.storage.groups.group import Group
from rillet.storage.groups.pel_pages import first_of, texts_of
from rillet.storage.groups.pel_search import any_idle, find_idle, given_back, oldest
from rillet.storage.streams.chunk import MAX_ENTRIES
from rillet.storage.streams.cold_chunks import ChunkCache
from rillet.storage.streams.ids import MAX_ID, MAX_U64, encode
from rillet.storage.streams.stream import Stream
from rillet.storage.streams.trimming import trim_to_length
from rillet.storage.streams.tuning import DEFAULT, Tuning

if TYPE_CHECKING:
    from rillet.storage.groups.deliveries import DeliveryBatch

FIELDS = b"*2\r\n$1\r\nf\r\n$1\r\nv\r\n"


def number(ms: int) -> int:
    return ms << 64


def stream_of(entries: int, tuning: Tuning = DEFAULT) -> Stream:
    stream = Stream(tuning)
    for ms in range(1, entries + 1):
        stream.append(number(ms), FIELDS)
    return stream


def read(group: Group, stream: Stream, count: int, now: int = 1) -> None:
    consumer = group.consumers.get(b"c") or group.create_consumer(b"c", 0)
    pieces, _, last = stream.entries_after(group.last_id, count)
    group.deliver(consumer, pieces, count, group.last_id, last, now)
    group.last_id = last


def pack(stream: Stream, worth_while: float = 0.75) -> None:
    """Pack all chunks but the newest."""
    cold = ChunkCache()
    cold.worth_while = worth_while
    cold.depth = 1
    cold.adopt(stream)
    while cold.pack_next(stream, MAX_ID):
        pass


def private_ids(group: Group) -> int:
    """How many IDs the pages keep for themselves."""
    return sum(len(page.ms) for page in group.pel._pages if page.private)


@pytest.mark.parametrize("count", [1, 7, 100])
def test_what_is_read_in_order_shares_the_ids_of_the_stream(count):
    stream, group = stream_of(10 * MAX_ENTRIES), Group()
    for _ in range(10 * MAX_ENTRIES // count):
        read(group, stream, count)
    assert not private_ids(group)
    assert [id(page.ms) for page in group.pel._pages] == [id(chunk.ms) for chunk in stream.chunks]


def test_a_reader_that_keeps_up_with_the_stream_shares_its_ids_too():
    stream, group = Stream(), Group()
    for ms in range(1, 5 * MAX_ENTRIES + 1):
        stream.append(number(ms), FIELDS)
        read(group, stream, 1, ms)
    assert not private_ids(group)
    assert [id(page.ms) for page in group.pel._pages] == [id(chunk.ms) for chunk in stream.chunks]


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
    stream, group = stream_of(3 * MAX_ENTRIES), Group(number(MAX_ENTRIES - 10))
    for count in (10, 20, 30):
        read(group, stream, count)
    assert [len(page.batches) for page in group.pel._pages] == [30, 30]
    assert pending_ids(group) == [encode(number(ms)) for ms in range(MAX_ENTRIES - 9, MAX_ENTRIES + 51)]
    assert all(group.pel.at(number(ms)) for ms in range(MAX_ENTRIES - 9, MAX_ENTRIES + 51))


def test_pending_ids_stay_whatever_becomes_of_the_stream():
    stream, group = stream_of(5 * MAX_ENTRIES), Group()
    read(group, stream, 4 * MAX_ENTRIES)
    expected = [encode(number(ms)) for ms in range(1, 4 * MAX_ENTRIES + 1)]
    pack(stream)
    assert pending_ids(group) == expected
    stream.delete(number(200))
    trim_to_length(stream, 100)
    assert pending_ids(group) == expected
    read(group, stream, MAX_ENTRIES // 2)
    assert len(pending_ids(group)) == len(group.pel) == 4 * MAX_ENTRIES + MAX_ENTRIES // 2


@pytest.fixture
def packed():
    """A stream of which all but the newest chunk is packed, after two groups have read it, and the groups."""
    stream = stream_of(5 * MAX_ENTRIES)
    groups = [stream.groups.setdefault(name, Group()) for name in (b"g", b"h")]
    read(groups[0], stream, 5 * MAX_ENTRIES)
    for _ in range(5 * MAX_ENTRIES // 64):
        read(groups[1], stream, 64)
    pack(stream)
    return stream, groups


def test_groups_share_narrow_columns_of_what_was_packed(packed):
    stream, groups = packed
    first, second = ([page.seq for page in group.pel._pages] for group in groups)
    assert [seq.typecode for seq in first] == [*"BBBB", "Q"]
    assert [id(seq) for seq in first] == [id(seq) for seq in second]
    assert first[-1] is stream.chunks[-1].seq
    assert pending_ids(groups[0]) == [encode(number(ms)) for ms in range(1, 5 * MAX_ENTRIES + 1)]


def test_a_page_keeps_the_columns_with_an_entry_that_was_gone_when_the_others_were_packed():
    stream = stream_of(5 * MAX_ENTRIES)
    group = stream.groups[b"g"] = Group()
    read(group, stream, 5 * MAX_ENTRIES)
    stream.delete(number(7))
    pack(stream)
    assert [page.seq.typecode for page in group.pel._pages] == [*"QBBB", "Q"]
    assert pending_ids(group) == [encode(number(ms)) for ms in range(1, 5 * MAX_ENTRIES + 1)]


def test_a_chunk_that_is_not_worth_packing_shares_its_narrow_columns():
    stream = stream_of(3 * MAX_ENTRIES)
    group = stream.groups[b"g"] = Group()
    read(group, stream, 3 * MAX_ENTRIES)
    pack(stream, worth_while=0)
    columns = [(chunk.ms, chunk.seq) for chunk in stream.chunks]
    assert [seq.typecode for _, seq in columns] == [*"BB", "Q"]
    assert all(
        page.ms is ms and page.seq is seq for page, (ms, seq) in zip(group.pel._pages, columns, strict=True)
    )


def test_any_id_finds_its_place_among_narrow_columns(packed):
    _, (group, other) = packed
    between = [number(ms) + seq for ms, seq in ((3, 300), (200, 1), (200, MAX_U64), (MAX_ENTRIES, 1 << 40))]
    for each in between:
        group.assign(group.consumers[b"c"], [each], 1, 1)
    expected = sorted([*between, *(number(ms) for ms in range(1, 5 * MAX_ENTRIES + 1))])
    assert pending_ids(group) == list(map(encode, expected))
    assert len(other.pel) == 5 * MAX_ENTRIES
    assert all(group.pel.at(each) for each in expected)


def test_a_group_that_begins_in_the_middle_of_a_packed_chunk_adds_to_ids_of_its_own(packed):
    stream, _ = packed
    late = stream.groups[b"late"] = Group(number(100))
    for _ in range(3):
        read(late, stream, 5)
    assert private_ids(late) == 15
    assert pending_ids(late) == [encode(number(ms)) for ms in range(101, 116)]


def test_a_page_goes_on_with_what_comes_behind_the_packed_entries(packed):
    stream, (group, _) = packed
    twin = stream.groups[b"late"] = Group()
    read(twin, stream, 10)
    stream.append(number(10_000) + 7_000, FIELDS)
    twin.last_id = number(9_000)
    read(twin, stream, 1)
    assert pending_ids(twin) == [*(encode(number(ms)) for ms in range(1, 11)), b"10000-7000"]
    read(group, stream, 1)
    assert pending_ids(group)[-1] == b"10000-7000"


@pytest.mark.parametrize("trim", [True, False])
def test_a_stream_that_is_cut_all_the_time_does_not_leave_a_page_for_each_entry(trim):
    stream, group = Stream(), Group()
    for ms in range(1, 2001):
        stream.append(number(ms), FIELDS)
        read(group, stream, 1, ms)
        if trim:
            trim_to_length(stream, 30)
        else:
            stream.delete(number(ms))
    assert len(group.pel) == 2000
    assert len(group.pel._pages) < 2000 / 25
    assert sum(len(page.ms) for page in group.pel._pages) < 2000 * 1.5


def test_few_that_are_left_of_many_take_little_room():
    stream, group = stream_of(200 * MAX_ENTRIES), Group()
    read(group, stream, 200 * MAX_ENTRIES)
    group.acknowledge([number(ms) for ms in range(1, 200 * MAX_ENTRIES + 1) if ms % 64])
    assert len(group.pel) == 400
    *pages, _last = group.pel._pages
    assert sum(len(page.batches) for page in pages) < 4 * 400
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
        [b"99999999999999999999-0"],
        [b"2-99999999999999999999"],
        [b"2"],
        [b"-"],
        [b""],
    ],
)
def test_words_that_are_no_texts_of_pending_ids_acknowledge_nothing(words):
    stream, group = stream_of(10), Group()
    read(group, stream, 10)
    assert group.acknowledge_all(words) is None
    assert len(group.pel) == 10


def test_claims_of_scattered_entries_remember_where_those_are():
    stream, group = stream_of(100 * MAX_ENTRIES), Group()
    read(group, stream, 100 * MAX_ENTRIES)
    scattered = [number(ms) for ms in range(1, 100 * MAX_ENTRIES, 3000)]
    other = group.create_consumer(b"d", 0)
    group.reassign(other, places_of(group, scattered), 9, 2)
    (batch,) = other.batches
    assert batch.ids is not None
    assert [page.number(at) for page, at in group.pel.of_batch(batch)] == scattered
    near = [number(ms) for ms in range(50, 90, 3)]
    group.reassign(other, places_of(group, near), 9, 2)
    assert other.batches[-1].ids is None
    assert [page.number(at) for page, at in group.pel.of_batch(other.batches[-1])] == near


def of_batch(group: Group, batch: DeliveryBatch) -> list[int]:
    return [page.number(at) for page, at in group.pel.of_batch(batch)]


def test_a_page_that_is_split_does_not_leave_an_empty_half():
    group = Group()
    consumer = group.create_consumer(b"c", 0)
    early = [n * 1000 for n in range(1, 129)]
    for each in [*early, 200_000]:
        group.add_pending(each, consumer, 1, 1)
    for each in range(127_001, 127_129):
        group.add_pending(each, consumer, 1, 1)
    group.acknowledge(early[:127])
    group.add_pending(127_500, consumer, 1, 1)
    assert all(page.live * 4 >= len(page.batches) for page in group.pel._pages)
    assert len(group.pel) == 1 + 128 + 1 + 1 == len(pending_ids(group))


@pytest.mark.parametrize("count", [5, 2 * MAX_ENTRIES])
def test_neighbours_are_looked_up_as_runs(count):
    stream, group = stream_of(4 * MAX_ENTRIES), Group()
    read(group, stream, 4 * MAX_ENTRIES)
    first = MAX_ENTRIES - 2
    places = group.pel._run_of(
        *group.pel.place(number(first)), [encode(number(ms)) for ms in range(first, first + count)]
    )
    assert all(type(positions) is range for _, positions in places)
    assert sum(len(positions) for _, positions in places) == count
    assert group.pel.locate_run(stream.entries_after(number(first) - 1, count)[0]) == places


@given(st.sets(st.integers(1, 60)), st.integers(0, 65), st.integers(0, 30), st.integers(-3, 3) | st.none())
def test_the_first_pending_entries_are_those_of_a_walk(gone, start, count, more):
    stream = stream_of(60, Tuning(chunk_entries=16, page=16))
    group = Group(tuning=stream.tuning)
    read(group, stream, 60)
    group.acknowledge([number(ms) for ms in gone])
    bounds = number(start), MAX_ID if more is None else number(max(start + count + more, 0))
    run = group.pel.first_run(*bounds, count)
    if run is not None:
        assert run == first_of(group.pel.pending_runs(*bounds), count)


def test_neighbours_of_which_one_is_not_pending_do_not_match():
    stream, group = stream_of(10), Group()
    read(group, stream, 10)
    pieces, _, _ = stream.entries_after(0, 5)
    assert group.pel.locate_run(pieces) is not None
    group.acknowledge([number(3)])
    assert group.pel.locate_run(pieces) is None
    assert [batch is None for batch in group.pel.batches_at(pieces[0])] == [False, False, True, False, False]


def test_a_copy_does_not_share_what_may_change():
    group = Group()
    consumer = group.create_consumer(b"c", 0)
    for ms in (1, 3, 5):
        group.add_pending(number(ms), consumer, 1, 1)
    twin = group.copy()
    twin.add_pending(number(2), twin.consumers[b"c"], 1, 1)
    group.add_pending(number(4), consumer, 1, 1)
    assert pending_ids(group) == [b"1-0", b"3-0", b"4-0", b"5-0"]
    assert pending_ids(twin) == [b"1-0", b"2-0", b"3-0", b"5-0"]


def filled(facts) -> Group:
    """A group as a loader makes it; a number is the ID of an entry of ``c``, a pair one of ``d`` at a time."""
    group = Group()
    for name in (b"c", b"d"):
        group.create_consumer(name, 0)
    pending = [
        (each[0], (group.consumers[b"d"], each[1], 1))
        if isinstance(each, tuple)
        else (each, (group.consumers[b"c"], 7, 1))
        for each in facts
    ]
    for _ in group.fill(in_columns(pending)):
        pass
    return group


def test_loaded_entries_that_stand_far_from_each_other_are_listed():
    mine = set(range(1, 50 * MAX_ENTRIES, 2000))
    group = filled([n if n in mine else (n, n) for n in range(1, 50 * MAX_ENTRIES)])
    (batch,) = group.consumers[b"c"].batches
    assert batch.ids is not None
    assert of_batch(group, batch) == sorted(mine)
    assert {each.ids for each in group.consumers[b"d"].batches} == {None}


def test_a_delivery_in_the_millisecond_of_loaded_entries_is_not_lost_among_them():
    mine = list(range(1, 50 * MAX_ENTRIES, 2000))
    group = filled([n if n in mine else (n, 7) for n in range(1, 50 * MAX_ENTRIES)])
    new = [10_000_000, 10_000_001]
    consumer = group.consumers[b"c"]
    group.deliver(consumer, pieces_of(new), 2, 9_000_000, new[-1], 7)
    assert sorted(n for batch in consumer.batches for n in of_batch(group, batch)) == [*mine, *new]
    assert all(len(of_batch(group, batch)) == batch.live for batch in consumer.batches)


def test_single_claims_of_one_millisecond_share_a_batch_wherever_they_are():
    stream, group = stream_of(5 * MAX_ENTRIES), Group()
    read(group, stream, 5 * MAX_ENTRIES)
    other = group.create_consumer(b"d", 0)
    for ms in (5, 500, 6):
        group.assign(other, [number(ms)], 9, 2)
    (batch,) = other.batches
    assert of_batch(group, batch) == [number(5), number(500), number(6)]
    group.assign(group.consumers[b"c"], [number(500)], 9, 2)
    group.assign(other, [number(500)], 9, 2)
    assert sorted(n for batch in other.batches for n in of_batch(group, batch)) == [
        number(5),
        number(6),
        number(500),
    ]


def test_a_delivery_of_which_little_is_left_remembers_where_that_is():
    stream, group = stream_of(64 * MAX_ENTRIES), Group()
    read(group, stream, 64 * MAX_ENTRIES)
    (batch,) = group.consumers[b"c"].batches
    other = group.create_consumer(b"d", 0)
    stuck = set(range(1, 64 * MAX_ENTRIES + 1, 300))
    for ms in range(1, 64 * MAX_ENTRIES + 1):
        if ms not in stuck:
            group.reassign(other, places_of(group, [number(ms)]), ms, 2)
    assert batch.ids is not None
    assert of_batch(group, batch) == [number(ms) for ms in sorted(stuck)]
    assert batch.size < 5 * batch.live


@pytest.mark.parametrize("scattered", [False, True])
def test_a_consumer_with_more_than_goes_at_once_is_deleted_whole(scattered):
    group = Group()
    consumer = group.create_consumer(b"c", 0)
    ids = list(range(1, 2001))
    group.deliver(consumer, pieces_of(ids), len(ids), 0, ids[-1], 1)
    if scattered:
        group.assign(consumer, ids[::-1], 2, 2)
    assert group.delete_consumer(consumer) == 2000
    assert len(group.pel) == consumer.pending == 0
    assert any_idle(group, 100) is False


def test_an_entry_that_comes_back_to_its_batch_is_listed_once():
    stream, group = stream_of(5 * MAX_ENTRIES), Group()
    read(group, stream, 5 * MAX_ENTRIES)
    other = group.create_consumer(b"d", 0)
    group.assign(other, [number(5)], 9, 2)
    group.assign(other, [number(500)], 9, 2)
    group.acknowledge([number(500)])
    group.assign(other, [number(500)], 9, 2)
    assert [n for batch in other.batches for n in of_batch(group, batch)] == [number(5), number(500)]


def test_what_a_consumer_gets_after_somebody_has_asked_for_its_entries_is_among_them():
    stream, group = stream_of(4000), Group()
    for name, count in ((b"d", 3000), (b"c", 10)):
        group.create_consumer(name, 0)
        pieces, _, last = stream.entries_after(group.last_id, count)
        group.deliver(group.consumers[name], pieces, count, group.last_id, last, 1)
        group.last_id = last
    few = group.consumers[b"c"]
    assert len(pending_ids(group, consumer=few)) == 10
    assert few.order is not None
    read(group, stream, 2)
    group.reassign(few, places_of(group, [number(7)]), 2, 2)
    group.assign(few, [number(5)], 2, 2)
    assert few.order is not None
    expected = [5, 7, *range(3001, 3013)]
    assert pending_ids(group, consumer=few) == [encode(number(ms)) for ms in expected]


@pytest.mark.parametrize("start", [0, 20, 64, 100, 127])
@pytest.mark.parametrize("count", [1, 10])
def test_wherever_a_group_begins_it_comes_to_share_ids_soon(start, count):
    stream, group = stream_of(30 * MAX_ENTRIES), Group(number(start))
    for _ in range((30 * MAX_ENTRIES - start) // count):
        read(group, stream, count)
    assert private_ids(group) <= 2 * MAX_ENTRIES


def test_what_comes_between_the_entries_of_a_batch_is_passed_once():
    total = 100 * MAX_ENTRIES + 20
    stream, group = stream_of(total), Group()
    read(group, stream, total, 5000)
    everything = [number(ms) for ms in range(1, total + 1)]
    group.acknowledge(everything[20:-20])
    other = group.create_consumer(b"d", 0)
    for at in range(0, 20, 2):
        some = [everything[at], everything[at + 1], everything[at - 20], everything[at - 19]]
        group.reassign(other, places_of(group, some), at, 2)
    assert not any(batch.ids for batch in other.batches)  # all is close now
    group.last_id = everything[19]
    read(group, stream, total - 40, 5000)
    assert looks(group, lambda: find_idle(group, 100)) > 10 * 90 * MAX_ENTRIES
    assert looks(group, lambda: find_idle(group, 100)) < 1000
    assert texts_of(find_idle(group, 100)) == list(map(encode, everything[:20] + everything[-20:]))


def test_two_entries_that_are_not_near_are_listed():
    stream, group = stream_of(2 * MAX_ENTRIES), Group()
    read(group, stream, 2 * MAX_ENTRIES)
    other = group.create_consumer(b"d", 0)
    for pair in ([2, 102], [3, MAX_ENTRIES + 3], [10, 13]):
        group.reassign(other, places_of(group, list(map(number, pair))), 9, 2)
        assert of_batch(group, other.batches[-1]) == list(map(number, pair))
    assert [batch.ids is None for batch in other.batches] == [False, False, True]


def test_few_at_a_time_from_a_long_list_look_at_few():
    group = Group()
    consumer = group.create_consumer(b"c", 0)
    ids = list(range(1, 20_001))
    group.deliver(consumer, pieces_of(ids), len(ids), 0, ids[-1], 1)
    waiting = [(at * 7) % 20_001 for at in ids]
    group.give_back(waiting, [1] * len(ids))
    (batch,) = group.unowned.batches
    asked = 0
    look = group.pel.at
    for at in range(0, 2000, 2):
        turn = [page.number(at) for page, at in islice(given_back(group), 2)]
        assert turn == waiting[at : at + 2]
        group.acknowledge(turn)
        asked += len(batch.ids) // 2 - batch.live
    assert look(waiting[2000]) is batch
    assert asked < 1000 * 20  # what lingers at the front of the list


def test_readers_of_one_millisecond_do_not_have_to_look_at_what_all_others_got():
    stream, group = stream_of(100 * MAX_ENTRIES), Group()
    consumers = [group.create_consumer(b"%d" % at, 0) for at in range(300)]
    for at in range(100 * MAX_ENTRIES):
        pieces, _, last = stream.entries_after(group.last_id, 1)
        group.deliver(consumers[at % 300], pieces, 1, group.last_id, last, 1)
        group.last_id = last
    assert looks(group, lambda: [list(group.pel.of_batch(batch)) for batch in consumers[0].batches]) < 30_000
    assert looks(group, lambda: [list(group.pel.of_batch(batch)) for batch in consumers[0].batches]) < 1_000
    turn = list(islice(oldest(group, 1), 10))
    assert [page.number(at) for page, at in turn] == [number(ms) for ms in range(1, 11)]
