"""A random stream, written and read back: the same in everything that the type of the file can say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.streams.pending import given_back

from rillet.protocol.replies import bulk_array as resp
from rillet.storage.codecs import stream_nodes
from rillet.storage.codecs.crc64 import crc64
from rillet.storage.codecs.stream_commands import stream_commands
from rillet.storage.codecs.stream_extensions import FIELD
from rillet.storage.groups.group import Group
from rillet.storage.groups.pending import UNOWNED_MS
from rillet.storage.keyspace.keyspace import Keyspace
from rillet.storage.rdb import ByteSource, RdbError, dump_value, load_rdb, rdb_chunks, restore_value
from rillet.storage.streams.idempotency import Idempotency
from rillet.storage.streams.ids import MAX_ID
from rillet.storage.streams.iteration import iter_entries
from rillet.storage.streams.stream import Stream

WORDS = st.one_of(st.binary(max_size=70), st.integers(-(1 << 64), 1 << 64).map(lambda number: b"%d" % number))
IDS = st.one_of(st.integers(1, 1 << 20), st.integers(1, MAX_ID), st.integers(1 << 90, (1 << 90) + (1 << 66)))
TIMES = st.integers(-(1 << 40), 1 << 62)
NAMES = st.binary(max_size=5)


@st.composite
def streams(draw, deletions=True):
    stream = Stream()
    names = draw(st.lists(st.lists(NAMES, min_size=1, max_size=3), min_size=1, max_size=3))
    ids = draw(st.lists(IDS, unique=True, max_size=20).map(sorted))
    limits = draw(st.sampled_from([(4096, 100), (4096, 3), (60, 100)]))
    for stream_id in ids:
        chosen = draw(st.sampled_from(names))
        stream.append(stream_id, resp([word for name in chosen for word in (name, draw(WORDS))]), *limits)
    for stream_id in draw(st.lists(st.sampled_from(ids), unique=True)) if ids and deletions else ():
        stream.delete(stream_id)
    stream.last_id = draw(st.integers(stream.last_id, MAX_ID))
    stream.entries_added = draw(st.integers(stream.length, 1 << 63))
    stream.max_deleted_id = draw(st.one_of(st.just(stream.max_deleted_id), st.integers(0, stream.last_id)))
    for name in draw(st.lists(NAMES, unique=True, max_size=3)):
        stream.groups[name] = draw(groups(stream.entries_added))
    return stream


@st.composite
def groups(draw, entries_added=1 << 62):
    group = Group(draw(st.integers(0, MAX_ID)), draw(st.none() | st.integers(0, entries_added)))
    names = draw(st.lists(NAMES, unique=True, max_size=4))
    for name in names:
        group.create_consumer(
            name, draw(st.integers(0, 1 << 50)), draw(st.just(-1) | st.integers(0, 1 << 50))
        )
    for stream_id in draw(st.lists(IDS, unique=True, max_size=10)) if names else ():
        consumer = group.consumers[draw(st.sampled_from(names))]
        group.add_pending(stream_id, consumer, draw(TIMES), draw(st.integers(0, (1 << 63) - 1)))
    return group


def state(stream, *, counters=True, active_times=True):
    found = [
        list(iter_entries(stream)),
        stream.length,
        stream.last_id,
        stream.first_id,
        [node.first_id for node in stream.macro_nodes.all()],
    ]
    if counters:
        found += [stream.max_deleted_id, stream.entries_added]
    for name, group in sorted(stream.groups.items()):
        pending = [(each.number, each.consumer.name, each.ms, each.count) for each in group]
        consumers = sorted(
            (name, each.seen_ms, each.active_ms if active_times else None, each.pending)
            for name, each in group.consumers.items()
        )
        unowned = given_back(group)
        found += [name, group.last_id, group.entries_read if counters else None, pending, consumers, unowned]
    return found


@given(streams())
def test_type_21_keeps_everything(stream):
    assert state(restore_value(dump_value(stream))) == state(stream)


@pytest.mark.parametrize(("before", "master"), [(0, 0), (1, 1), (7 << 64, 7 << 64), (7 << 64, 1)])
def test_the_entries_of_a_node_follow_all_before(before, master, monkeypatch):
    monkeypatch.setattr(stream_nodes.listpack, "unpack", lambda _: [1, 0, 1, b"f", 0, 2, 0, 0, b"v", 4])
    stream = Stream()
    if before:
        stream.append(before, resp([b"f", b"v"]))
    with pytest.raises(RdbError):
        stream_nodes._add_unpacked(stream, [], master, b"")
    stream_nodes._add_unpacked(stream, [], before + 1, b"")
    assert stream.last_id == before + 1


@pytest.mark.parametrize("deleted", [0, 1])
def test_a_node_that_counts_deleted_entries_has_them(deleted, monkeypatch):
    items = [2, deleted, 1, b"f", 0, 2, 0, 0, b"v", 4, 2, 1, 0, b"v", 4]
    monkeypatch.setattr(stream_nodes.listpack, "unpack", lambda _: items)
    stream = Stream()
    if deleted:
        with pytest.raises(RdbError):
            stream_nodes._add_unpacked(stream, [], 5 << 64, b"")
    else:
        stream_nodes._add_unpacked(stream, [], 5 << 64, b"")
        assert [text for _, text, _ in iter_entries(stream)] == [b"5-0", b"6-0"]


@given(streams())
def test_type_19_forgets_only_when_consumers_were_active(stream):
    read = restore_value(dump_value(stream, version=10))
    assert state(read, active_times=False) == state(stream, active_times=False)
    assert all(
        each.active_ms == each.seen_ms for group in read.groups.values() for each in group.consumers.values()
    )


@given(streams())
def test_type_15_estimates_the_counters(stream):
    payload = dump_value(stream, version=9)
    assert payload[0] == 15
    read = restore_value(payload)
    assert state(read, counters=False, active_times=False) == state(
        stream, counters=False, active_times=False
    )
    assert (read.entries_added, read.max_deleted_id) == (stream.length, 0)


# What only Rillet's own files say


def loaded(keyspace, **options):
    twin = Keyspace()
    for _ in load_rdb(ByteSource.of(b"".join(rdb_chunks(keyspace, **options))), twin):
        pass
    return twin


def keyspace_of(stream):
    keyspace = Keyspace()
    keyspace.databases[3].add(b"before", b"v")
    keyspace.databases[3].add(b"s", stream)
    keyspace.databases[3].add(b"t", Stream())
    return keyspace


@given(streams())
def test_a_file_of_type_19_keeps_when_consumers_were_active(stream):
    twin = loaded(keyspace_of(stream), version=10)
    assert list(twin.databases[3].entries) == [b"before", b"s", b"t"]
    assert state(twin.databases[3].entries[b"s"]) == state(stream)


def test_ids_of_producers_are_kept_and_will_be_forgotten_in_time():
    stream = Stream()
    known = stream.idempotency = Idempotency(60, 10)
    known.record(b"p", b"1", 5 << 64)
    known.record(b"p", b"\xff", 6 << 64)
    known.record(b"q", b"1", 7 << 64)
    known.duplicates = 3
    twin = loaded(keyspace_of(stream))
    read = twin.databases[3].entries[b"s"].idempotency
    assert read in twin.idempotent
    assert [(p, list(iids.items())) for p, iids in read.producers.items()] == [
        (b"p", [(b"1", 5 << 64), (b"\xff", 6 << 64)]),
        (b"q", [(b"1", 7 << 64)]),
    ]
    assert (read.duration, read.maxsize, read.added, read.duplicates) == (60, 10, 3, 3)


def with_field(contents):
    """A file whose stream is followed by a field of ours with these contents."""
    stream = Stream()
    stream.groups[b"g"] = Group()
    data = b"".join(rdb_chunks(keyspace_of(stream), checksum=False))
    end = data.index(b"\x15\x01t")
    field = b"\xfa" + bytes((len(FIELD),)) + FIELD + bytes((len(contents),)) + contents
    return ByteSource.of(data[:end] + field + data[end:])


@pytest.mark.parametrize(
    "contents",
    [
        b"\x01\x01\x01x",
        b"\x01\x01\x01g\x01\x01c",
        b"\x01\x01\x01g\x00\x01" + bytes(16),
        b"\x01",
        b"\x01\x00\x01",
    ],
)
def test_a_broken_field_of_ours_is_refused(contents):
    with pytest.raises(RdbError):
        list(load_rdb(with_field(contents), Keyspace()))


def test_a_field_of_a_later_rillet_is_passed_over():
    keyspace = Keyspace()
    list(load_rdb(with_field(b"\x02whatever"), keyspace))
    assert len(keyspace.databases[3]) == 3


# Types that only newer servers write


def payload(value_type, body, version=14):
    data = bytes((value_type,)) + body + version.to_bytes(2, "little")
    return data + crc64(data).to_bytes(8, "little")


def empty_stream(groups=b"\x00"):
    """No nodes, no entries, last ID 5-0, no first and no deleted one, 3 added."""
    return b"\x00\x00" + b"\x05\x00" + b"\x00\x00" + b"\x00\x00" + b"\x03" + groups


def test_type_26_brings_the_ids_of_producers():
    producers = b"\x02" + b"\x01p\x02" + b"\x01a\x01\x00" + b"\x01b\x02\x03" + b"\x01q\x00"
    read = restore_value(payload(26, empty_stream() + b"\x40\x64\x0a" + producers + b"\x02\x01"))
    assert read.idempotency.producers == {b"p": {b"a": 1 << 64, b"b": 2 << 64 | 3}}
    assert list(read.idempotency.producers[b"p"]) == [b"a", b"b"]
    assert (read.idempotency.added, read.idempotency.duplicates) == (2, 1)


def test_a_producer_that_is_named_twice_is_refused():
    producers = b"\x02" + b"\x01p\x01\x01a\x01\x00" * 2
    with pytest.raises(RdbError, match="Duplicated idempotent producer"):
        restore_value(payload(26, empty_stream() + b"\x40\x64\x0a" + producers + b"\x02\x01"))


def test_a_stream_without_producers_has_the_settings_of_the_server():
    read = restore_value(dump_value(Stream(), version=14, idempotency_defaults=(7, 8)))
    assert (read.idempotency.duration, read.idempotency.maxsize, read.idempotency.producers) == (7, 8, {})


def raw(ms):
    return (ms << 64).to_bytes(16, "big")


def group_of_type_27(unowned):
    facts = b"".join(raw(ms) + bytes(8) + bytes((count,)) for ms, count in ((1, 4), (2, 5), (3, 6)))
    consumer = b"\x01c" + (9).to_bytes(8, "little") + (8).to_bytes(8, "little") + b"\x01" + raw(2)
    return b"\x01\x01g\x05\x00\x03\x03" + facts + b"\x01" + consumer + unowned


def test_type_27_keeps_the_order_of_nacked_entries():
    body = empty_stream(group_of_type_27(b"\x02" + raw(3) + raw(1))) + b"\x40\x64\x0a\x00\x00\x00"
    group = restore_value(payload(27, body)).groups[b"g"]
    assert given_back(group) == [b"3-0", b"1-0"]
    assert [(each.consumer.name, each.ms, each.count) for each in group] == [
        (b"", UNOWNED_MS, 4),
        (b"c", 0, 5),
        (b"", UNOWNED_MS, 6),
    ]


@pytest.mark.parametrize(
    "unowned",
    [b"\x01" + raw(1), b"\x02" + raw(2) + raw(1), b"\x02" + raw(1) + raw(1), b"\x02" + raw(1) + raw(7)],
)
def test_every_pending_entry_of_type_27_has_one_place(unowned):
    body = empty_stream(group_of_type_27(unowned)) + b"\x40\x64\x0a\x00\x00\x00"
    with pytest.raises(RdbError, match=r"no consumer|not found"):
        restore_value(payload(27, body))


def test_files_cap_what_a_group_has_read():
    stream = Stream()
    stream.entries_added = 2
    for name, read in ((b"a", None), (b"b", 1), (b"c", 5)):
        stream.groups[name] = Group(0, read)
    restored = restore_value(dump_value(stream))
    assert isinstance(restored, Stream)
    assert [restored.groups[name].entries_read for name in (b"a", b"b", b"c")] == [None, 1, 2]
    commands = b"".join(stream_commands(stream, b"s", (100, 100)))
    assert commands.count(b"$11\r\nENTRIESREAD\r\n$1\r\n2\r\n") == 1
    assert stream.groups[b"c"].entries_read == 5
