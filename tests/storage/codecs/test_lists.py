"""Lists in RDB: all forms are read, ours is read by real servers, and damage is reported."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.servers import start_servers
from support.thorough import examples

from rillet.storage.codecs import listpack
from rillet.storage.codecs.crc64 import crc64
from rillet.storage.codecs.encoding import encode_length, encode_string
from rillet.storage.codecs.lists import encode_list, read_list
from rillet.storage.collections.list import List
from rillet.storage.rdb import ByteSource, RdbError, dump_value, restore_value

PEERS = ("redis7", "valkey")
# A ziplist of 1, "two" and 3000, spelled out from the format.
ZIPLIST = b"\x16\x00\x00\x00\x11\x00\x00\x00\x03\x00\x00\xf2\x02\x03two\x05\xc0\xb8\x0b\xff"
IN_ZIPLIST = [b"1", b"two", b"3000"]
EMPTY_ZIPLIST = b"\x0b\x00\x00\x00\x0a\x00\x00\x00\x00\x00\xff"


def read(data: bytes, value_type: int) -> list[bytes]:
    source = ByteSource.of(data)
    found = None
    for value in read_list(source, value_type, False):
        found = value
    assert found is not None
    assert not source.peek(1)
    return list(found.digest_parts())


def packed(*words: bytes) -> bytes:
    return encode_string(listpack.pack(list(map(listpack.text, words))))


def test_a_linked_list_is_read():
    words = [b"a", b"12", b"", b"x" * 100] * 600
    assert read(encode_length(len(words)) + b"".join(map(encode_string, words)), 1) == words


def test_a_ziplist_is_read():
    assert read(encode_string(ZIPLIST), 10) == IN_ZIPLIST


def test_a_quicklist_of_ziplists_is_read():
    nodes = [ZIPLIST, EMPTY_ZIPLIST, ZIPLIST]
    assert read(encode_length(3) + b"".join(map(encode_string, nodes)), 14) == IN_ZIPLIST * 2


def test_a_quicklist_is_read():
    data = b"\x03\x02" + packed(b"a", b"-7", b"") + b"\x01" + encode_string(b"plain") + b"\x02" + packed(b"z")
    assert read(data, 18) == [b"a", b"-7", b"", b"plain", b"z"]


@pytest.mark.parametrize(
    ("data", "value_type"),
    [
        (b"\x00", 1),
        (b"\x00", 14),
        (b"\x00", 18),
        (encode_string(EMPTY_ZIPLIST), 10),
        (b"\x01" + encode_string(EMPTY_ZIPLIST), 14),
        (b"\x01\x02" + packed(), 18),
        (b"\x01\x03" + packed(b"a"), 18),
        (b"\x02\x02" + packed(b"a"), 18),
        (b"\x01\x02" + packed(b"a")[:-1], 18),
        (b"\x05" + encode_string(b"a"), 1),
        (b"\x81" + b"\xff" * 8 + encode_string(b"a"), 1),
    ],
)
def test_what_is_empty_or_damaged_is_refused(data, value_type):
    with pytest.raises(RdbError):
        read(data, value_type)


@given(st.lists(st.one_of(st.binary(max_size=200), st.integers().map(lambda n: b"%d" % n)), min_size=1))
def test_what_is_written_is_read_again(words):
    assert read(b"".join(encode_list(List(words), 18)), 18) == words


def test_a_large_list_is_written_in_nodes_and_large_elements_stand_alone():
    words = [b"x" * 100] * 500 + [b"y" * 8192] + [b"z"]
    data = b"".join(encode_list(List(words), 18))
    assert data[0] == 8 + 1  # 79 elements a node make 7, then the large one, then the last
    assert read(data, 18) == words


DUMP = dump_value(List([b"a", b"12345", b"x" * 70, b"y" * 9000, b"", b"-1"]))


@settings(max_examples=examples(300))
@given(at=st.integers(0, len(DUMP) - 11), value=st.integers(0, 255), cut=st.booleans())
def test_any_damage_is_read_or_reported(at, value, cut):
    data = bytearray(DUMP[1:-10])
    if cut:
        del data[at:]
    elif at < len(data):
        data[at] = value
    try:
        words = read(bytes(data), DUMP[0])
    except (RdbError, AssertionError):
        return
    assert all(isinstance(word, bytes) for word in words)


@pytest.fixture(scope="module")
def servers():
    with start_servers(*PEERS) as started:
        yield started


def make_words(seed: int) -> list[bytes]:
    chance = random.Random(seed)
    kinds = (
        lambda: b"%d" % chance.randrange(-(1 << 63), 1 << 63),
        lambda: b"%d" % chance.randrange(-5000, 5000),
        lambda: chance.randbytes(chance.randrange(0, 100)),
        lambda: b"word" * chance.randrange(20),
        lambda: chance.randbytes(chance.choice([60, 64, 4095, 4096, 9000, 17000])),
    )
    weights = (3, 5, 6, 6, chance.choice([0, 0, 1]))
    return [make() for make in chance.choices(kinds, weights, k=chance.choice([1, 5, 50, 500]))]


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("compression", ["yes", "no"])
@pytest.mark.parametrize("node_size", [-2, -1, 3, 128])
def test_payloads_go_both_ways(servers, peer, compression, node_size):
    with servers[peer].wire() as wire:
        wire.call("CONFIG", "SET", "rdbcompression", compression, "list-max-listpack-size", node_size)
        for seed in range(6):
            words = make_words(seed)
            wire.call("DEL", "l")
            wire.call("RPUSH", "l", *words)
            restored = restore_value(wire.call("DUMP", "l").plain())
            assert type(restored) is List
            assert list(restored.digest_parts()) == words
            payload = dump_value(restored, version=10)
            assert wire.call("RESTORE", "l", 0, payload, "REPLACE").plain() == b"OK", seed
            assert wire.call("LRANGE", "l", 0, -1).plain() == words, seed


@pytest.mark.parametrize("value_type", [1, 10, 14])
def test_old_forms_are_read_as_redis_7_reads_them(servers, value_type):
    """Redis 7.0 still reads older formats; it receives what we read of the same payload."""
    body = {
        1: b"\x03" + b"".join(map(encode_string, IN_ZIPLIST)),
        10: encode_string(ZIPLIST),
        14: b"\x01" + encode_string(ZIPLIST),
    }[value_type]
    payload = bytes((value_type,)) + body + (9).to_bytes(2, "little")
    payload += crc64(payload).to_bytes(8, "little")
    restored = restore_value(payload)
    assert type(restored) is List
    with servers["redis7"].wire() as wire:
        assert wire.call("RESTORE", "l", 0, payload, "REPLACE").plain() == b"OK"
        assert wire.call("LRANGE", "l", 0, -1).plain() == list(restored.digest_parts()) == IN_ZIPLIST
