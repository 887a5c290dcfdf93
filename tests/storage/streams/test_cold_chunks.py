"""Old chunks of streams are packed; only the memory shows it."""

import gc
import random
from unittest import mock
from weakref import ref

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from support.invariants import check_invariants
from support.streams.pending import taken
from support.thorough import examples

from rillet.storage.keyspace.keyspace import Keyspace
from rillet.storage.keyspace.lazyfree import LazyFree
from rillet.storage.rdb import ByteSource, dump_value, load_rdb, rdb_chunks
from rillet.storage.streams.chunk import MAX_ENTRIES, Chunk, ids_in, texts_in
from rillet.storage.streams.chunk_codec import NOT_WORTH_WHILE, Deflated
from rillet.storage.streams.cold_chunks import ChunkCache
from rillet.storage.streams.ids import MAX_ID
from rillet.storage.streams.iteration import ids_from, iter_entries
from rillet.storage.streams.stream import Stream
from rillet.storage.streams.trimming import trim

FIELDS = b"*2\r\n$1\r\nf\r\n$5\r\nvalue\r\n"
MANY = 20 * MAX_ENTRIES


def make_id(ms: int, seq: int = 0) -> int:
    return ms << 64 | seq


def cold_with(depth: int = 1, limit: int = 1 << 20) -> ChunkCache:
    cold = ChunkCache(limit)
    cold.depth = depth
    return cold


def fill(stream: Stream, number: int = MANY, fields: bytes = FIELDS) -> None:
    first = stream.last_id >> 64
    for at in range(1, number + 1):
        stream.append(make_id(first + at), fields)


def loaded(stream: Stream, **options: bool) -> Stream:
    """The stream as a file gives it back."""
    before, after = Keyspace(1), Keyspace(1)
    before.databases[0].add(b"s", stream.copy())
    for _ in load_rdb(ByteSource.of(b"".join(rdb_chunks(before))), after, **options):
        pass
    found = after.databases[0].entries[b"s"]
    assert type(found) is Stream
    return found.copy()


def sweep(cold: ChunkCache) -> None:
    """Let time pass until everything that can be packed is."""
    for now in (0, 100, 200):
        cold.begin_round(now + cold._next_round)
        while cold.step():
            pass


def packed_stream(number: int = MANY, **options: int) -> tuple[Stream, ChunkCache]:
    stream, cold = Stream(), cold_with(**options)
    cold.adopt(stream)
    fill(stream, number)
    sweep(cold)
    return stream, cold


def cold_chunks(stream: Stream) -> list[int]:
    return [index for index, chunk in enumerate(stream.chunks) if type(chunk) is not Chunk]


def warm_bytes(stream: Stream) -> int:
    return sum(chunk.memory for chunk in stream.chunks if type(chunk) is Chunk and chunk.packed)


class PackedAgainstPlain(RuleBasedStateMachine):
    """A stream whose chunks are packed at random moments answers as one that knows nothing of it."""

    @initialize(depth=st.sampled_from([1, 1, 3]), limit=st.sampled_from([0, 30_000]))
    def begin(self, depth, limit):
        self.cold = cold_with(depth, limit)
        self.packed, self.plain = Stream(), Stream()
        self.cold.adopt(self.packed)
        self.now = 0.0
        self.ms = 0
        self.append(number=700, step=1, size=10)
        self.append(number=9, step=0, size=9000)
        self.append(number=700, step=3, size=0)
        self.pack(steps=1000)

    def both(self, act):
        ours, theirs = act(self.packed), act(self.plain)
        assert ours == theirs
        return ours

    def pick(self, data) -> int:
        return data.draw(st.integers(0, self.ms + 2).map(make_id) | st.sampled_from([0, MAX_ID]))

    @rule(
        number=st.sampled_from([1, 100, 400]),
        step=st.sampled_from([0, 1, 300]),
        size=st.sampled_from([0, 50]),
    )
    def append(self, number, step, size):
        chance = random.Random(number)
        first = self.packed.last_id + 1
        for at in range(number):
            value = chance.randbytes(size // 2).hex().encode()
            fields = b"*2\r\n$1\r\nf\r\n$%d\r\n%b\r\n" % (len(value), value)
            stream_id = make_id(self.ms + step * at) if step else first + at
            if stream_id > self.packed.last_id:
                self.both(lambda stream, one=stream_id, what=fields: stream.append(one, what))
        self.ms = self.packed.last_id >> 64

    @rule(steps=st.sampled_from([1, 5, 1000]))
    def pack(self, steps):
        for _ in range(2):
            self.now += 10
            self.cold.begin_round(self.now)
        for _ in range(steps):
            if not self.cold.step():
                break

    @rule(data=st.data(), number=st.sampled_from([1, 200]))
    def delete(self, data, number):
        start = self.pick(data)
        ids = [one for one, _ in zip(ids_from(self.plain, start), range(number), strict=False)]
        for one in ids:
            self.both(lambda stream, one=one: stream.delete(one))

    @rule(data=st.data(), how=st.sampled_from(["length", "id"]), approximate=st.booleans())
    def trim(self, data, how, approximate):
        if how == "length":
            keep = max(0, self.plain.length - data.draw(st.integers(0, 300)))
            self.both(lambda stream: trim(stream, keep, approximate=approximate))
        else:
            threshold = self.plain.first_id + make_id(data.draw(st.integers(0, 300)))
            self.both(lambda stream: trim(stream, threshold, by_length=False, approximate=approximate))

    @rule(data=st.data(), count=st.sampled_from([None, 1, 10, 1000]))
    def read(self, data, count):
        start, end = self.pick(data), self.pick(data)
        self.both(lambda stream: stream.range(start, end, count))
        self.both(lambda stream: stream.range_reverse(start, end, count))
        self.both(lambda stream: taken(stream, start, count))
        self.both(lambda stream: (stream.contains(start), stream.entry(start)))

    @rule()
    def read_all(self):
        self.both(lambda stream: list(iter_entries(stream)))
        self.both(lambda stream: list(ids_from(stream, 0)))
        self.both(dump_value)

    @rule()
    def go_on_with_a_copy(self):
        self.packed, self.plain = self.packed.copy(), self.plain.copy()
        assert self.packed.cold is None
        self.cold.adopt(self.packed)

    @rule(sanitize=st.booleans())
    def load(self, sanitize):
        """From a file: nodes are kept as they stand there, or are unpacked at once."""
        self.packed = loaded(self.packed, sanitize=sanitize)
        self.plain = loaded(self.plain, sanitize=True)
        self.cold.adopt(self.packed)

    @rule(depth=st.sampled_from([0, 1, 3]))
    def configure(self, depth):
        self.cold.depth = depth
        self.cold.watch(self.packed)

    @invariant()
    def the_representation_is_sound(self):
        if hasattr(self, "packed"):
            check_invariants(self.packed)
            check_invariants(self.cold)

    @invariant()
    def agree(self):
        self.both(
            lambda stream: (
                *(stream.length, stream.first_id, stream.last_id, stream.max_deleted_id),
                *(stream.entries_added, stream.payload_bytes > 0),
            )
        )

    def teardown(self):
        if hasattr(self, "packed"):
            self.both(lambda stream: list(iter_entries(stream)))
            self.both(
                lambda stream: (
                    [node.first_id for node in stream.macro_nodes.all()],
                    stream.macro_nodes.tree_size,
                )
            )


TestPackedAgainstPlain = PackedAgainstPlain.TestCase
TestPackedAgainstPlain.settings = settings(max_examples=examples(25), stateful_step_count=15, deadline=None)


# What is packed, and when


def test_all_but_the_newest_chunks_are_packed():
    stream, _ = packed_stream(depth=3)
    assert cold_chunks(stream) == list(range(17))


def test_packed_entries_take_a_small_part_of_the_memory():
    stream, plain = packed_stream()[0], Stream()
    fill(plain)
    assert stream.memory(0) < plain.memory(0) / 5
    assert stream.payload_bytes == plain.payload_bytes
    assert len(cold_chunks(stream)) == 19  # even now


def test_a_chunk_is_left_alone_until_some_seconds_after_it_was_written():
    stream, cold = Stream(), cold_with()
    cold.adopt(stream)
    fill(stream, 4 * MAX_ENTRIES)
    assert not cold.begin_round(10)
    fill(stream, 4 * MAX_ENTRIES)
    assert not cold.begin_round(24)
    assert cold.begin_round(26)
    while cold.step():
        pass
    assert cold_chunks(stream) == [0, 1, 2]
    assert cold.begin_round(42)
    while cold.step():
        pass
    assert cold_chunks(stream) == list(range(7))


def test_what_got_nothing_new_is_not_looked_at_again():
    _, cold = packed_stream()
    assert not any(cold.begin_round(now) for now in range(1000, 2000))
    assert not cold.step()


def test_a_stream_that_is_gone_is_not_kept_by_who_would_pack_it():
    stream, cold = Stream(), cold_with()
    cold.adopt(stream)
    fill(stream)
    cold.begin_round(0)
    del stream
    gc.collect()
    assert not cold.begin_round(100)


def test_what_would_not_become_smaller_stays_and_is_tried_once(monkeypatch):
    stream, cold = Stream(), cold_with()
    cold.adopt(stream)
    chance = random.Random(1)
    for at in range(1, MANY):
        stream.append(make_id(at), b"*2\r\n$1\r\nf\r\n$300\r\n%b\r\n" % chance.randbytes(300))
    sweep(cold)
    assert not cold_chunks(stream)
    assert stream.chunks[0].packed is NOT_WORTH_WHILE
    monkeypatch.setattr("rillet.storage.streams.chunk.pack", None)
    assert stream.chunks[0].pack(0.75) is None


def test_a_huge_chunk_is_not_packed():
    stream, cold = Stream(), cold_with()
    cold.adopt(stream)
    for at in range(1, 5):
        stream.append(make_id(at), b"*2\r\n$1\r\nf\r\n$1000000\r\n%b\r\n" % bytes(1_000_000))
    fill(stream)
    sweep(cold)
    assert not {0, 1, 2, 3} & {*cold_chunks(stream)}
    assert cold_chunks(stream)


def test_a_stream_whose_last_id_went_back_is_packed_all_the_same():
    stream, cold = packed_stream()
    trim(stream, 0)
    stream.last_id = 0
    fill(stream)
    cold.watch(stream)
    sweep(cold)
    assert len(cold_chunks(stream)) == 19


def test_packing_calls_back_when_there_is_memory_to_give_back():
    calls = []
    stream, cold = Stream(), cold_with()
    cold.on_freed = lambda: calls.append(len(cold_chunks(stream)))
    cold.adopt(stream)
    fill(stream, 150 * MAX_ENTRIES, b"*2\r\n$1\r\nf\r\n$800\r\n%b\r\n" % bytes(800))
    sweep(cold)
    assert len(calls) == 2  # once in the midst of it, once at the end
    assert calls[0] < calls[1] == len(cold_chunks(stream))


# Reading


def test_a_read_chunk_stays_for_a_while_and_is_not_packed_again(monkeypatch):
    stream, cold = packed_stream()
    cold.limit = 25_000  # three of them
    monkeypatch.setattr("rillet.storage.streams.chunk.pack", None)
    before = stream.chunks[0]
    for at in range(5):
        assert stream.contains(make_id(at * MAX_ENTRIES + 5))
    assert cold_chunks(stream) == [0, 1, *range(5, 19)]
    assert stream.chunks[0] is before
    assert warm_bytes(stream) <= cold.limit


def test_what_is_delivered_in_masses_is_unpacked_once():
    stream, _ = packed_stream(limit=20_000)
    cold = len(cold_chunks(stream))
    with mock.patch.object(Deflated, "columns", autospec=True, side_effect=Deflated.columns) as unpacked:
        pieces, raw, _ = stream.entries_after(0)
        assert len(list(ids_in(pieces))) == len(texts_in(pieces, raw)) == MANY
    assert unpacked.call_count == cold > 0


def test_a_chunk_that_is_packed_while_it_is_held_is_read_all_the_same():
    stream, _ = packed_stream(limit=0)
    held = stream.open(0)
    stream.open(1)
    assert cold_chunks(stream) == [0, *range(2, 19)]
    assert held.entry(5) == stream.entry(held.id_at(5)) is not None
    assert stream.open(0) is not held


def test_a_chunk_that_was_cut_before_it_is_packed_is_packed_as_it_is_then():
    stream, cold = packed_stream(limit=0)
    assert stream.delete(make_id(5))
    stream.open(1)
    stream.open(2)
    sweep(cold)
    assert cold_chunks(stream) == [0, 1, *range(3, 19)]
    assert len(stream.chunks[0]) == MAX_ENTRIES - 1
    check_invariants(stream)


def test_columns_are_freed_with_their_stream_though_they_were_kept_for_readers():
    stream, cold = packed_stream()
    column = ref(stream.open(0))
    assert len(cold._unpacked) == 1
    del stream
    gc.collect()
    assert column() is None


def test_going_through_everything_keeps_no_more_unpacked_than_the_limit():
    stream, _ = packed_stream(limit=20_000)
    assert stream.range(0, MAX_ID)[0] == MANY
    assert stream.range_reverse(0, MAX_ID)[0] == MANY
    assert len(taken(stream, 0)[0]) == MANY
    assert len(list(ids_from(stream, 0))) == MANY
    assert 0 < warm_bytes(stream) <= 20_000


@pytest.mark.parametrize(
    "read",
    [
        lambda stream: list(iter_entries(stream)),
        dump_value,
        lambda stream: stream.copy(),
        lambda stream: stream.memory(0),
        lambda stream: stream.payload_bytes,
        lambda stream: trim(stream, 1, by_length=False),
        lambda stream: stream.rank(stream.last_id),
        lambda stream: stream.range(0, MAX_ID),
        lambda stream: stream.range(0, stream.firsts[-1] - 1),
    ],
)
def test_who_goes_through_a_whole_stream_leaves_it_packed(read):
    stream, cold = packed_stream()
    before = cold_chunks(stream)
    read(stream)
    assert cold_chunks(stream) == before
    assert not cold._unpacked


def test_trimming_unpacks_only_the_chunk_it_cuts():
    stream, _ = packed_stream()
    trim(stream, 5 * MAX_ENTRIES + 1)
    assert cold_chunks(stream) == [1, 2, 3, 4]
    assert stream.first_id == make_id(MANY - 5 * MAX_ENTRIES)


def test_a_copy_is_read_without_the_cache_of_the_original():
    # A thread may read it.
    stream, cold = packed_stream()
    twin = stream.copy()
    assert twin.contains(make_id(5))
    assert not cold._unpacked


def test_a_chunk_that_lost_entries_is_packed_again_when_others_need_its_place():
    stream, cold = packed_stream(limit=0)
    for at in range(4):
        assert stream.delete(make_id(at * MAX_ENTRIES + 5))
    assert cold.begin_round(0)
    while cold.step():
        pass
    assert cold_chunks(stream) == [0, 1, 2, *range(4, 19)]
    assert not any(stream.contains(make_id(at * MAX_ENTRIES + 5)) for at in range(4))


def test_a_chunk_that_lost_all_entries_is_not_packed_again():
    stream, cold = packed_stream(limit=0)
    for at in range(1, MAX_ENTRIES + 5):
        assert stream.delete(make_id(at))
    stream.contains(make_id(1000))
    while cold.step():
        pass
    assert next(iter_entries(stream))[0] == make_id(MAX_ENTRIES + 5)


# The setting


def test_switched_off_what_is_packed_stays_until_it_is_read():
    keyspace = Keyspace(1)
    keyspace.set_compress_depth(1)
    stream = Stream()
    keyspace.databases[0].add(b"s", stream)
    fill(stream)
    sweep(keyspace.cold)
    keyspace.set_compress_depth(0)
    fill(stream)
    sweep(keyspace.cold)
    assert cold_chunks(stream) == list(range(19))
    stream.contains(make_id(5))
    assert stream.chunks[0].packed is None
    assert not keyspace.cold._unpacked


def test_a_loaded_stream_and_a_copied_one_are_packed_too():
    stream, _ = packed_stream()
    keyspace = Keyspace(1)
    keyspace.databases[0].add(b"s", stream)
    twin = Keyspace(1)
    twin.set_compress_depth(1)
    for _ in load_rdb(ByteSource.of(b"".join(rdb_chunks(keyspace))), twin, sanitize=True):
        pass
    loaded = twin.databases[0].entries[b"s"]
    plain = Stream()
    fill(plain)
    twin.databases[0].add(b"t", plain.copy())
    sweep(twin.cold)
    assert cold_chunks(loaded) == cold_chunks(twin.databases[0].entries[b"t"]) == list(range(19))


def test_a_packed_stream_is_freed_without_being_read_and_leaves_the_room_to_others(monkeypatch):
    stream, cold = packed_stream(300 * MAX_ENTRIES)
    assert stream.contains(make_id(5))
    unpacked = list(cold._unpacked)
    lazyfree = LazyFree()
    lazyfree.on_queued = lambda: None
    lazyfree.free_later(stream)
    del stream
    monkeypatch.setattr(Deflated, "columns", None)
    while lazyfree.step():
        pass
    assert lazyfree.freed == 1
    assert list(cold._unpacked) == unpacked


# Pieces


def test_what_is_read_whole_again_and_again_is_unpacked_and_what_is_read_once_is_not():
    stream, cold = packed_stream()
    stream.range(0, MAX_ID)
    assert len(cold_chunks(stream)) == 19
    stream.range(0, MAX_ID, 3 * MAX_ENTRIES)
    assert cold_chunks(stream) == list(range(3, 19))
    stream.range(0, MAX_ID, 3 * MAX_ENTRIES)  # unpacked as they are
    assert cold_chunks(stream) == list(range(3, 19))
    assert len(cold._read_once) == 16


def test_few_of_those_read_once_are_remembered():
    stream, cold = packed_stream(300 * MAX_ENTRIES)
    for _ in range(2):
        stream.range(0, MAX_ID)
    assert len(cold_chunks(stream)) == 299
    assert len(cold._read_once) == 256
