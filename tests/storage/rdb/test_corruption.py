"""Damaged data: a clear error, or a value that can be used; never anything else, and never slowly."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.servers import start_server
from support.streams.random_streams import make_stream
from support.thorough import examples

from rillet.storage.codecs.crc64 import crc64
from rillet.storage.keyspace.keyspace import Keyspace
from rillet.storage.rdb import (
    ByteSource,
    PayloadRefusedError,
    RdbError,
    dump_value,
    load_rdb,
    rdb_chunks,
    restore_value,
)
from rillet.storage.streams.stream import Stream
from rillet.storage.streams.trimming import trim


@pytest.fixture(scope="module")
def dumps():
    """Payloads of real servers, packed and not."""
    found = []
    for kind in ("redis7", "valkey"):
        with start_server(kind) as server, server.wire() as wire:
            for seed in range(8):
                wire.call("CONFIG", "SET", "rdbcompression", "yes" if seed % 2 else "no")
                make_stream(wire, random.Random(seed), "s")
                found.append(wire.call("DUMP", "s").plain())
    return found


def use(value):
    """What commands do with a value."""
    if not isinstance(value, Stream):
        return
    assert restore_value(dump_value(value)).length == value.length
    assert value.macro_nodes.count <= value.length
    for group in value.groups.values():
        group.lag(value)
        assert len(list(group)) == len(group.pel) == sum(each.pending for each in group.consumers.values())
    trim(value, value.length // 2, approximate=True)


@st.composite
def damage(draw):
    """A function that does something bad to bytes."""
    changes = draw(
        st.lists(
            st.tuples(
                st.sampled_from(["flip", "set", "cut", "drop", "insert"]),
                st.floats(0, 1, exclude_max=True),
                st.booleans(),
                st.sampled_from([0, 1, 0x3F, 0x40, 0x80, 0x81, 0xC0, 0xC3, 0xF0, 0xF4, 0xFF])
                | st.integers(0, 255),
            ),
            min_size=1,
            max_size=4,
        )
    )

    def apply(data):
        damaged = bytearray(data)
        for what, place, near_the_start, byte in changes:
            if not damaged:
                break
            at = int(place * (min(len(damaged), 100) if near_the_start else len(damaged)))
            if what == "flip":
                damaged[at] ^= 1 << byte % 8
            elif what == "set":
                damaged[at] = byte
            elif what == "cut":
                del damaged[at:]
            elif what == "drop":
                del damaged[at : at + byte % 9 + 1]
            else:
                damaged[at:at] = bytes((byte,)) * (byte % 9)
        return bytes(damaged)

    return apply


@settings(max_examples=examples(200))
@given(data=st.data(), harm=damage())
def test_a_damaged_value_is_refused_or_can_be_used(dumps, data, harm):
    payload = data.draw(st.sampled_from(dumps))
    body = harm(payload[:-10]) + payload[-10:-8]
    try:
        value = restore_value(body + crc64(body).to_bytes(8, "little"))
    except RdbError:
        return
    use(value)


@settings(max_examples=examples(50))
@given(data=st.data(), harm=damage())
def test_the_checksum_finds_all_damage(dumps, data, harm):
    payload = data.draw(st.sampled_from(dumps))
    damaged = harm(payload)
    if damaged == payload:
        return
    with pytest.raises(PayloadRefusedError):
        restore_value(damaged)


@pytest.fixture(scope="module")
def file(dumps):
    keyspace = Keyspace()
    for number, payload in enumerate(dumps[:4]):
        keyspace.databases[number % 2].add(b"s%d" % number, restore_value(payload))
    keyspace.databases[0].add(b"k", b"v" * 100)
    keyspace.databases[0].set_expiry(b"k", 10**15)
    return b"".join(rdb_chunks(keyspace))


def test_a_file_cut_anywhere_is_refused(file):
    chance = random.Random(1)
    places = {*range(0, 300, 3), *range(len(file) - 50, len(file)), *chance.sample(range(len(file)), 30)}
    for place in places:
        with pytest.raises(RdbError):
            list(load_rdb(ByteSource.of(file[:place]), Keyspace()))


@settings(max_examples=examples(60))
@given(harm=damage())
def test_a_damaged_file_is_refused_or_its_values_can_be_used(file, harm):
    keyspace = Keyspace()
    try:
        list(load_rdb(ByteSource.of(harm(file)[:-8] + bytes(8)), keyspace))
    except RdbError:
        return
    for database in keyspace.databases:
        for value in database.entries.values():
            use(value)
