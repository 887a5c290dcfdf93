"""Nodes of streams that are kept as they stand in a file, beside the same nodes unpacked when they are loaded."""

from itertools import product

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.invariants import check_invariants

from rillet.protocol.replies import bulk_array as resp
from rillet.server.debugging.digest import value_digest
from rillet.storage.codecs import listpack
from rillet.storage.codecs.crc64 import crc64
from rillet.storage.codecs.encoding import compress_string, encode_string
from rillet.storage.codecs.stream_nodes import KeptNode, _Shape
from rillet.storage.groups.stream_value import make_whole
from rillet.storage.keyspace.keyspace import Keyspace
from rillet.storage.rdb import ByteSource, RdbError, dump_value, load_rdb, rdb_chunks
from rillet.storage.streams.chunk import Chunk, DamagedError, packed_form
from rillet.storage.streams.chunk_codec import Deflated
from rillet.storage.streams.ids import MAX_ID, MAX_U64
from rillet.storage.streams.iteration import iter_entries
from rillet.storage.streams.macro_nodes import Node
from rillet.storage.streams.stream import Stream
from rillet.storage.streams.trimming import trim

NODE = 40  # entries, enough for a node to be kept


def stream_of(entries, names=(b"f",), node=NODE):
    """A stream of (ID, values) each, so many in a node."""
    stream = Stream()
    for stream_id, values in entries:
        words = [word for pair in zip(names, values, strict=True) for word in pair]
        stream.append(stream_id, resp(words), 1 << 20, node)
    return stream


def plain_stream(nodes=4):
    return stream_of([((1000 + at) << 64, (b"value %d" % at,)) for at in range(nodes * NODE)])


def file_of(stream, **options):
    keyspace = Keyspace(1)
    keyspace.databases[0].add(b"s", stream)
    return b"".join(rdb_chunks(keyspace, **options))


def load(data, **options):
    keyspace = Keyspace(1)
    for _ in load_rdb(ByteSource.of(data), keyspace, **options):
        pass
    return keyspace


def stream_in(keyspace) -> Stream:
    stream = keyspace.databases[0].entries[b"s"]
    assert type(stream) is Stream
    return stream


def kept(stream):
    return [form for form in map(packed_form, stream.chunks) if isinstance(form, KeptNode)]


def nodes_of(stream):
    return [
        (node.first_id, node.last_id, node.live, node.deleted, node.size, node.fields, node.names_payload)
        for node in stream.macro_nodes.all()
    ]


def payload_of(stream):
    return sum(chunk.payload_bytes for chunk in stream.chunks)


def signed(data):
    return data[:-8] + crc64(data[:-8]).to_bytes(8, "little")


WORDS = st.one_of(
    st.integers(-(1 << 64), 1 << 64).map(lambda number: b"%d" % number),
    st.integers(-200, 200).map(lambda number: b"%d" % number),
    st.binary(max_size=70),
    st.sampled_from([b"x" * 63, b"x" * 64, b"y" * 124, b"y" * 125, b"y" * 126, b"z" * 5000, b""]),
)
STEPS = st.sampled_from([(0, 1), (1, 0), (0, 200), (90, 0), (3, 5000), (9000, 0), (1 << 21, 0), (1 << 40, 7)])


@st.composite
def streams(draw):
    """Streams of several nodes, which have IDs and words of all sizes, and sometimes other fields, or holes."""
    ms, seq = draw(
        st.sampled_from([(0, 1), (5, MAX_U64 - 60_000), (1_700_000_000_000, 0), (MAX_U64 >> 1, 3)])
    )
    names = draw(st.lists(st.sampled_from([b"f", b"name", b"7", b"n" * 90]), min_size=1, max_size=3))
    steps = draw(st.lists(STEPS, min_size=1, max_size=3))
    rows = draw(st.lists(st.lists(WORDS, min_size=3, max_size=3), min_size=1, max_size=5))
    other = draw(st.sampled_from([0, 0, 0, 50]))
    stream = Stream()
    for at in range(draw(st.sampled_from([NODE, 4 * NODE, 5 * NODE + 1]))):
        words = [word for pair in zip(names, rows[at % len(rows)], strict=False) for word in pair]
        if other and at % other == 7:
            words = [b"other", b"fields"]
        stream.append(ms << 64 | seq, resp(words), 1 << 20, NODE)
        more_ms, more_seq = steps[at % len(steps)]
        ms, seq = ms + more_ms, (0 if more_ms and at % 3 else seq) + more_seq
    for at in draw(st.lists(st.integers(0, stream.length - 1), max_size=2)):
        numbers = [number for number, _, _ in iter_entries(stream)]
        if at < len(numbers):
            stream.delete(numbers[at])
    return stream


@given(streams(), st.booleans(), st.booleans())
@settings(deadline=None)
def test_a_stream_with_kept_nodes_is_the_stream_with_unpacked_ones(stream, compress, compress_again):
    data = file_of(stream, compress=compress)
    ours, theirs = load(data), load(data, sanitize=True)
    lazy, eager = stream_in(ours), stream_in(theirs)
    assert not kept(eager)
    assert nodes_of(lazy) == nodes_of(eager)
    assert lazy.macro_nodes.tree_size == eager.macro_nodes.tree_size
    again = file_of(lazy, compress=compress_again)
    assert dump_value(lazy) == dump_value(eager)
    if not stream.max_deleted_id:
        assert again == file_of(eager, compress=compress_again)
    assert payload_of(lazy) == payload_of(eager)
    assert list(iter_entries(lazy)) == list(iter_entries(eager)) == list(iter_entries(stream))
    assert value_digest(ours.databases[0], b"s") == value_digest(theirs.databases[0], b"s")
    check_invariants(lazy)
    assert list(iter_entries(stream_in(load(again)))) == list(iter_entries(stream))


@pytest.mark.parametrize("compress", [True, False])
def test_all_nodes_but_the_first_and_the_last_are_kept_and_written_as_they_came(compress):
    data = file_of(plain_stream(), compress=compress)
    stream = stream_in(load(data))
    assert [len(node) for node in kept(stream)] == [NODE, NODE]
    assert [len(chunk) for chunk in stream.chunks] == [NODE] * 4
    assert file_of(stream, compress=compress) == data
    assert len(kept(stream)) == 2  # even now


def test_a_node_that_lost_an_entry_is_written_without_it():
    stream = stream_in(load(file_of(plain_stream())))
    assert stream.delete(1000 + NODE + 3 << 64)
    assert len(kept(stream)) == 1
    again = stream_in(load(file_of(stream)))
    assert list(iter_entries(again)) == list(iter_entries(stream))
    assert nodes_of(again)[0] == nodes_of(stream)[0]


def test_a_kept_node_is_unpacked_by_the_first_access_and_takes_less_memory_until_then():
    data = file_of(plain_stream())
    stream, eager = stream_in(load(data)), stream_in(load(data, sanitize=True))
    assert stream.memory(0) < eager.memory(0)
    assert stream.entry(1000 + NODE + 3 << 64) == eager.entry(1000 + NODE + 3 << 64) is not None
    assert [type(chunk).__name__ for chunk in stream.chunks] == ["Chunk", "Chunk", "KeptNode", "Chunk"]


def test_small_nodes_share_chunks():
    stream = stream_of([(at << 64, (b"v",)) for at in range(1, 200)], node=8)
    loaded = stream_in(load(file_of(stream)))
    assert not kept(loaded)
    assert len(loaded.chunks) == 2


# What a checksum does not prove

HEAD = [NODE, 0, 1, b"f", 0]


def damaged_file(items, *, compress):
    """A file in whose second node these elements stand."""
    data = file_of(plain_stream(3), compress=compress)
    encode = compress_string if compress else encode_string
    node = kept(stream_in(load(data)))[0]
    before = encode(node._listpack())
    assert data.count(before) == 1
    return signed(data.replace(before, encode(listpack.pack(items))))


def items_of():
    """The elements of a sound node."""
    items = [listpack.integer(each) if isinstance(each, int) else listpack.text(each) for each in HEAD]
    for at in range(NODE):
        items += [*map(listpack.integer, (2, at, 0)), listpack.text(b"v"), listpack.integer(4)]
    return items


def swapped(items):
    """Two entries change their places, in the middle where neither head nor end shows it."""
    row = 5
    start = len(HEAD) + 10 * row
    return [
        *items[:start],
        *items[start + row : start + 2 * row],
        *items[start : start + row],
        *items[start + 2 * row :],
    ]


DAMAGES = {
    "entries that do not ascend": swapped,
    "a wrong count in an entry": lambda items: [*items[: len(HEAD) + 54], listpack.integer(5), *items[len(HEAD) + 55 :]],
    "an element that does not exist": lambda items: [*items[: len(HEAD) + 53], b"\xff\x01", *items[len(HEAD) + 54 :]],
    "a value longer than the node": lambda items: [
        *items[: len(HEAD) + 53], b"\xf0\xff\xff\xff\x7f", *items[len(HEAD) + 54 :]
    ],
    "an entry marked as deleted": lambda items: [
        *items[: len(HEAD) + 50], listpack.integer(3), *items[len(HEAD) + 51 :]
    ],
}  # fmt: skip


@pytest.mark.parametrize("compress", [True, False])
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damage_in_a_kept_node_is_found_when_it_is_read_and_costs_this_node_alone(damage, compress):
    data = damaged_file(damage(items_of()), compress=compress)
    with pytest.raises(RdbError, match=r"Stream listpack integrity check failed\. \(key 's'\)"):
        load(data, sanitize=True)
    stream = stream_in(load(data))
    assert stream.length == 3 * NODE
    assert stream.entry(1001 << 64) is not None
    for _ in range(2):
        with pytest.raises(DamagedError, match="Stream listpack integrity check failed"):
            stream.entry(1000 + NODE + 1 << 64)
        with pytest.raises(DamagedError):
            list(iter_entries(stream))
    make_whole(stream)
    check_invariants(stream)
    assert stream.length == 2 * NODE
    assert dump_value(stream)


@pytest.mark.parametrize("compress", [True, False])
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_file_without_checksum_is_checked_whole(damage, compress):
    data = damaged_file(damage(items_of()), compress=compress)
    with pytest.raises(RdbError, match=r"Stream listpack integrity check failed\. \(key 's'\)"):
        load(data[:-8] + bytes(8))


def test_a_sound_file_without_checksum_keeps_its_nodes():
    stream = stream_in(load(file_of(plain_stream(), checksum=False)))
    assert len(kept(stream)) == 2


@given(st.binary(max_size=40), st.integers(0, 300))
@settings(deadline=None)
def test_a_node_with_any_bytes_in_it_is_refused_or_kept(noise, place):
    sound = listpack.pack(items_of())
    place = min(place, len(sound))
    node = bytearray(sound[:place] + noise + sound[place + len(noise) :])
    data = file_of(plain_stream(3), compress=False)
    before = encode_string(kept(stream_in(load(data)))[0]._listpack())
    data = signed(data.replace(before, encode_string(bytes(node))))
    try:
        expected = list(iter_entries(stream_in(load(data, sanitize=True))))
    except RdbError:
        expected = None
    try:
        found = list(iter_entries(stream_in(load(data))))
    except (RdbError, DamagedError):
        found = None
    assert found == expected


def test_a_kept_node_that_became_the_last_and_got_more_entries_is_written_with_them():
    stream = stream_in(load(file_of(plain_stream())))
    for at in range(3 * NODE, 4 * NODE):
        assert stream.delete(1000 + at << 64)
    for at in range(3):
        stream.append(9000 + at << 64, resp([b"f", b"new"]), 1 << 20, 100)
    assert len(kept(stream)) == 2
    assert nodes_of(stream)[-1][2] == NODE + 3
    again = stream_in(load(file_of(stream), sanitize=True))
    assert list(iter_entries(again)) == list(iter_entries(stream))
    assert [node[0] for node in nodes_of(again)] == [node[0] for node in nodes_of(stream)]


@given(st.binary(max_size=300), st.integers(NODE, 100), st.integers(0, 1 << 127))
@example(b"\xfd\x00\x01", NODE, 5)
@example(b"\xff" * 200, NODE, 5)
def test_a_node_of_which_only_the_head_is_right_is_kept_or_not(noise, live, master):
    """Whatever stands behind the head: it fails when it is read, if at all, and not when it is judged."""
    row = [2, 0, 0]
    head = b"".join(
        listpack.integer(each) if isinstance(each, int) else listpack.text(each)
        for each in [live, *HEAD[1:], *row]
    )
    body = head + noise + listpack.integer(4) + b"\xff"
    size = (len(body) + 6).to_bytes(4, "little")
    data = size + (5 + 5 * live).to_bytes(2, "little") + body
    shape = _Shape([b"f"], Node(1, [b"f"], None))
    found = shape.keep(master, data, None, data)
    if found is not None:
        try:
            found.columns()
        except DamagedError as error:
            assert str(error)  # noqa: PT017 - one of two good outcomes


@pytest.mark.parametrize("size", [100, 700, 4_000, 16_300, 16_370, 16_383, 20_000, 32_767, 40_000, 60_000])
def test_long_values_that_look_like_lengths_are_taken_for_none(size):
    for byte, words, node in product([b"\x01", b"\x7f", b"\x80", b"\xff"], [1, 3], [1, 2, 50]):
        names = [b"a", b"b", b"c"][:words]
        entries = [
            ((1000 * at) << 64 | 1, (byte * (size // node), b"Y", b"e" * 700)[:words]) for at in range(1, 160)
        ]
        stream = stream_of(entries[: 5 * node], names, node)
        again = stream_in(load(file_of(stream, compress=True)))
        assert list(iter_entries(again)) == list(iter_entries(stream))
        assert nodes_of(again) == nodes_of(stream)


def test_a_kept_node_that_was_read_is_kept_in_a_form_that_is_read_quickly_from_then_on():
    stream = stream_in(load(file_of(plain_stream())))
    assert len(kept(stream)) == 2
    whole = stream.range(0, MAX_ID)
    assert kept(stream) == []
    assert [type(chunk) for chunk in stream.chunks] == [Chunk, Deflated, Deflated, Chunk]
    assert stream.range(0, MAX_ID) == whole


def test_a_kept_node_that_is_no_longer_kept_unpacked_is_packed_in_a_form_that_is_read_quickly():
    stream = stream_in(load(file_of(plain_stream())))
    stream.cold = None  # what it came with keeps nothing packed
    chunk = stream.open(1)
    assert type(chunk.packed) is KeptNode
    packed = chunk.pack(0.9)
    assert type(packed) is Deflated
    assert packed.data() == chunk.data


@pytest.mark.parametrize("after", [(), (3,), (3, 4)])
def test_a_first_node_that_a_trim_has_left_empty_is_not_written(after):
    stream = stream_of([(1, (b"a",)), (2, (b"b",))], node=2)
    stream.delete(2)
    trim(stream, 2, by_length=False)
    for stream_id in after:
        stream.append(stream_id, resp([b"f", b"c"]), 1 << 20, 2)
    again = stream_in(load(file_of(stream)))
    check_invariants(stream)
    check_invariants(again)
    assert list(iter_entries(again)) == list(iter_entries(stream))
    assert (again.last_id, again.entries_added) == (stream.last_id, stream.entries_added)
