import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from support.invariants import check_invariants
from support.streams.pending import taken
from support.thorough import examples

from rillet.storage.listpack_sizes import element_size
from rillet.storage.streams.bulk_append import append_many
from rillet.storage.streams.chunk import LARGE, MAX_BYTES, MAX_ENTRIES
from rillet.storage.streams.ids import MAX_ID, MAX_U64, encode
from rillet.storage.streams.iteration import iter_entries
from rillet.storage.streams.macro_nodes import MacroNodes, Node
from rillet.storage.streams.stream import Stream
from rillet.storage.streams.trimming import trim

FIELDS = b"*2\r\n$1\r\nf\r\n$1\r\nv\r\n"


def make_id(ms: int, seq: int = 0) -> int:
    return ms << 64 | seq


def entry(stream_id: int, fields: bytes = FIELDS) -> bytes:
    text = encode(stream_id)
    return b"*2\r\n$%d\r\n%b\r\n%b" % (len(text), text, fields)


def stream_of(*ids: int, max_entries: int = 100) -> Stream:
    stream = Stream()
    for stream_id in ids:
        stream.append(stream_id, FIELDS, 4096, max_entries)
    return stream


def ids_of(stream: Stream) -> list[int]:
    return [stream_id for stream_id, _text, _fields in iter_entries(stream)]


class StreamAgainstAList(RuleBasedStateMachine):
    """A stream must do what a plain sorted list of entries does, however its chunks are cut."""

    @initialize(ms=st.sampled_from([1, 999_999, 999_999_999, 1_700_000_000_000, MAX_U64 - 10**6]))
    def begin(self, ms):
        self.stream = Stream()
        self.model: dict[int, bytes] = {}
        self.ms, self.seq = ms, 0
        self.added = 0
        self.max_deleted = 0
        # Rules are few in a short run: begin with chunks of every kind, the nodes known in part.
        self.append(number=200, later=0, seq=0, size=1)
        self.append(number=5, later=1, seq=98, size=MAX_BYTES // 3)
        self.append(number=150, later=1, seq=0, size=30)
        self.trim_approximately(keep=300, limit=0)

    def pick(self, data) -> int:
        ids = list(self.model)
        known = st.sampled_from(ids) if ids else st.nothing()
        near = st.integers(-3, 3).map(lambda step: max(0, make_id(self.ms, self.seq) + step))
        return data.draw(known | near | st.sampled_from([0, MAX_ID]))

    @rule(
        number=st.sampled_from([1, 2, 40, MAX_ENTRIES, 300]),
        later=st.sampled_from([0, 0, 1, 1000]),
        seq=st.sampled_from([0, 5, 98, 250, 10**6]),
        size=st.sampled_from([0, 1, 30, 30, MAX_BYTES // 3]),
    )
    def append(self, number, later, seq, size):
        self.seq = seq if later else self.seq + 1 + seq
        self.ms += later
        for index in range(number if size < 1000 else min(number, 5)):
            stream_id = make_id(self.ms, self.seq + index)
            fields = b"*2\r\n$1\r\nf\r\n$%d\r\n%b\r\n" % (size, b"x" * size)
            text = encode(stream_id)
            assert self.stream.append(stream_id, fields) == b"$%d\r\n%b\r\n" % (len(text), text)
            self.model[stream_id] = entry(stream_id, fields)
            self.added += 1
        self.seq += number

    @rule(
        later=st.lists(st.sampled_from([0, 0, 0, 1, 1000]), min_size=1, max_size=300),
        seq=st.sampled_from([0, 8, 98, 250, 10**6]),
        sizes=st.lists(st.sampled_from([0, 1, 30, 400, LARGE]), min_size=1, max_size=5),
    )
    def append_many(self, later, seq, sizes):
        ids, fields = [], []
        for index, more in enumerate(later):
            self.ms, self.seq = (self.ms + more, seq) if more else (self.ms, self.seq + 1)
            size = sizes[index // 70 % len(sizes)]
            ids.append((self.ms, self.seq))
            fields.append(b"*2\r\n$1\r\nf\r\n$%d\r\n%b\r\n" % (size, b"x" * size))
            self.model[make_id(self.ms, self.seq)] = entry(make_id(self.ms, self.seq), fields[-1])
        append_many(self.stream, ids, fields)
        self.added += len(ids)

    @rule(data=st.data(), number=st.sampled_from([1, 1, 3, 150]))
    def delete(self, data, number):
        start = self.pick(data)
        for stream_id in [start, *[one for one in self.model if one > start][: number - 1]]:
            assert self.stream.delete(stream_id) == (stream_id in self.model)
            if self.model.pop(stream_id, None) is not None:
                self.max_deleted = max(self.max_deleted, stream_id)

    @rule(every=st.integers(1, 5), start=st.integers(0, 300), number=st.integers(1, 400))
    def remove_several(self, every, start, number):
        ids = list(self.model)[start : start + number][::every]
        if ids:
            self.stream.remove_all(ids)
            for stream_id in ids:
                del self.model[stream_id]

    @rule()
    def set_the_last_id_back(self):
        """As versions before 7.2 let XSETID do, below IDs that were deleted."""
        if self.model:
            last = next(reversed(self.model))
            self.ms, self.seq = last >> 64, last & MAX_U64
            self.stream.set_last_id(last)

    @rule(keep=st.integers(0, 700))
    def trim_to_length(self, keep):
        gone = list(self.model)[: max(0, len(self.model) - keep)]
        assert trim(self.stream, keep) == len(gone)
        for stream_id in gone:
            del self.model[stream_id]

    @rule(data=st.data())
    def trim_before(self, data):
        threshold = self.pick(data)
        gone = [stream_id for stream_id in self.model if stream_id < threshold]
        assert trim(self.stream, threshold, by_length=False) == len(gone)
        for stream_id in gone:
            del self.model[stream_id]

    @rule(keep=st.integers(0, 700), limit=st.sampled_from([0, 150]))
    def trim_approximately(self, keep, limit):
        before = len(self.model)
        removed = trim(self.stream, keep, approximate=True, limit=limit)
        assert removed <= max(0, before - keep)
        assert not limit or removed <= limit
        for stream_id in list(self.model)[:removed]:
            del self.model[stream_id]

    @rule(data=st.data(), count=st.sampled_from([None, 0, 1, 10, 200]))
    def read(self, data, count):
        start, end = self.pick(data), self.pick(data)
        found = [one for stream_id, one in self.model.items() if start <= stream_id <= end]
        expected = found if count is None else found[:count]
        assert self.stream.range(start, end, count) == (len(expected), b"".join(expected))
        expected = found[::-1] if count is None else found[::-1][:count]
        assert self.stream.range_reverse(start, end, count) == (len(expected), b"".join(expected))

    @rule(data=st.data(), count=st.sampled_from([None, 0, 1, 10, 200]), rounds=st.integers(1, 4))
    def take(self, data, count, rounds):
        position = self.pick(data)
        for _ in range(rounds):
            expected = [stream_id for stream_id in self.model if stream_id > position][:count]
            texts, raw, last = taken(self.stream, position, count)
            assert texts == list(map(encode, expected))
            assert raw == b"".join([self.model[stream_id] for stream_id in expected])
            assert last == (expected[-1] if expected else position)
            position = last

    @rule(data=st.data())
    def look_up(self, data):
        stream_id = self.pick(data)
        assert self.stream.contains(stream_id) == (stream_id in self.model)
        assert self.stream.entry(stream_id) == self.model.get(stream_id)

    @rule()
    def go_on_with_a_copy(self):
        original, self.stream = self.stream, self.stream.copy()
        original.append(make_id(MAX_U64, MAX_U64), FIELDS)
        trim(original, 3)

    @rule()
    def look_at_the_nodes(self):
        assert (self.stream.macro_nodes.count > 0) >= (self.stream.length > 0)

    @invariant()
    def counters_agree(self):
        if hasattr(self, "stream"):
            stream = self.stream
            check_invariants(stream)
            assert stream.length == len(self.model)
            assert stream.first_id == next(iter(self.model), 0)
            assert stream.last_entry_id == next(reversed(self.model), 0)
            assert stream.entries_added == self.added
            assert stream.max_deleted_id == self.max_deleted

    def teardown(self):
        if hasattr(self, "stream"):
            rebuilt = [entry(stream_id, fields) for stream_id, _text, fields in iter_entries(self.stream)]
            assert rebuilt == list(self.model.values())


TestStreamAgainstAList = StreamAgainstAList.TestCase
TestStreamAgainstAList.settings = settings(
    max_examples=examples(100), stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)


def test_a_closed_chunk_hands_out_its_bytes_without_copying_them():
    stream = stream_of(*range(1, 2 * MAX_ENTRIES + 2))
    chunk = stream.chunks[0]
    assert type(chunk.data) is bytes
    number, data = stream.range(0, chunk.id_at(-1))
    assert number == MAX_ENTRIES
    assert data is chunk.data


def test_cutting_leaves_the_columns_that_others_hold_untouched():
    stream = stream_of(*range(1, 50))
    chunk = stream.chunks[0]
    ms, seq, offsets, heads = chunk.ms, chunk.seq, chunk.offsets, chunk.heads
    before = [column[:] for column in (ms, seq, offsets, heads)]
    stream.delete(7)
    trim(stream, 5)
    assert [ms, seq, offsets, heads] == before
    assert ids_of(stream) == [45, 46, 47, 48, 49]


def test_an_emptied_stream_may_go_on_with_smaller_ids_after_its_last_id_was_lowered():
    stream = stream_of(*range(1, 200))
    assert stream.macro_nodes.count == 2
    trim(stream, 0)
    stream.last_id = 5
    stream.append(6, FIELDS)
    assert stream.macro_nodes.count == 1
    assert stream.macro_nodes.first_id == 6
    assert trim(stream, 0, approximate=True, limit=10) == 1
    assert stream.macro_nodes.count == 0


def test_a_reader_that_comes_back_is_not_misled_by_what_was_removed_since_then():
    stream = stream_of(*range(1, 400))
    stream.entries_after(0, 5)
    stream.delete(2)
    assert stream.entries_after(5, 1)[2] == 6
    trim(stream, 395)
    assert stream.entries_after(6, 1)[2] == 7
    stream.entries_after(0)
    stream.append(400, FIELDS)
    assert stream.entries_after(399)[2] == 400


# Nodes


def test_entries_are_parsed_only_when_somebody_asks_for_nodes():
    stream = stream_of(*range(1, 1001))
    assert stream.macro_nodes.known == []
    assert stream.macro_nodes.count == 10
    assert [node.live for node in stream.macro_nodes.known] == [100] * 10


@pytest.mark.parametrize(
    ("word", "size"),
    [
        *[(b"%d" % number, 2) for number in (0, 127)],
        *[(b"%d" % number, 3) for number in (-1, 128, 4095, -4096)],
        *[(b"%d" % number, 4) for number in (4096, -4097, 32767, -32768)],
        *[(b"%d" % number, 5) for number in (32768, -32769, 8388607, -8388608)],
        *[(b"%d" % number, 6) for number in (8388608, -8388609, 2147483647, -2147483648)],
        *[(b"%d" % number, 10) for number in (2147483648, -2147483649, 2**63 - 1, -(2**63))],
        (b"%d" % 2**63, 21),
        (b"-0", 4),
        (b"01", 4),
        (b"", 2),
        *[(b"x" * length, length + 2) for length in (1, 63)],
        *[(b"x" * length, length + 3) for length in (64, 125)],
        *[(b"x" * length, length + 4) for length in (126, 4095)],
        *[(b"x" * length, length + 7) for length in (4096, 16377)],
        *[(b"x" * length, length + 8) for length in (16378, 2097145)],
        *[(b"x" * length, length + 9) for length in (2097146, 3000000)],
    ],
)
def test_words_take_the_room_of_a_listpack(word, size):
    assert element_size(word) == size


@pytest.mark.parametrize(
    ("live", "deleted", "counters"), [(127, 127, 4), (128, 127, 5), (127, 128, 5), (128, 128, 6)]
)
def test_counters_of_a_node_take_room_too(live, deleted, counters):
    stream = Stream()
    stream.append(2, b"*2\r\n$1\r\nf\r\n$9\r\nnine byte\r\n")

    def has_room(max_bytes: int, max_entries: int) -> bool:
        nodes = MacroNodes(stream.chunks, stream.firsts, max_bytes, max_entries)
        node = Node(1, [b"f"], None)
        node.live, node.deleted = live, deleted
        nodes.adopt([node])
        nodes.account_all()
        return len(nodes.known) == 1

    room = Node(1, [b"f"], None).size + counters + 10
    assert has_room(room + 1, 1000)
    assert not has_room(room, 1000)
    assert not has_room(room + 1, live + deleted)


@pytest.mark.parametrize(
    ("later", "seq", "size"),
    [
        (127, 0, 6),
        (128, 0, 7),
        (4096, 0, 8),
        (32768, 0, 9),
        (0, 127, 6),
        (0, 128, 7),
        (1, -1, 7),
        (1, -(1 << 40), 14),
        (-1 & MAX_U64, 0, 7),  # as far as 64 bits reach, it is one step back
    ],
)
def test_ids_take_the_room_of_their_distance(later, seq, size):
    node = Node(make_id(0, 1 << 41), [b"f"], None)
    assert node.id_size(later, (1 << 41) + seq) == size


def test_a_node_that_still_grows_is_settled_before_its_only_entry_is_deleted():
    stream = stream_of(*range(1, 383), max_entries=MAX_ENTRIES - 1)
    stream.macro_nodes.account_first()
    assert stream.macro_nodes.known[-1].live == 1
    stream.delete(MAX_ENTRIES)
    assert stream.macro_nodes.count == 4


def test_a_large_entry_has_a_chunk_for_itself():
    stream = Stream()
    fields = b"*2\r\n$1\r\nf\r\n$%d\r\n%b\r\n"
    small, large = fields % (1, b"x"), fields % (LARGE, b"x" * LARGE)
    for number, each in enumerate([large, small, small, large, large, small], 1):
        stream.append(number, each)
    assert [len(chunk) for chunk in stream.chunks] == [1, 2, 1, 1, 1]
    assert [type(chunk.data) for chunk in stream.chunks] == [bytes] * 4 + [bytearray]
    assert [text for _, text, _ in iter_entries(stream)] == [b"0-%d" % number for number in range(1, 7)]
