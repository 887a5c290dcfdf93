"""Values of types that Rillet does not have: refused with their key and type, or left out one by one."""

from __future__ import annotations

import pytest
from support.servers import start_server

from rillet.storage.keyspace import Keyspace
from rillet.storage.rdb import ByteSource, PayloadRefusedError, RdbError, RdbInfo, load_rdb, restore_value

KINDS = {
    "list": [["RPUSH", "list", "a", 1, "x" * 100]],
    "longlist": [["RPUSH", "longlist", *range(300), "y" * 10000]],
    "intset": [["SADD", "intset", 1, 2, 70000]],
    "smallset": [["SADD", "smallset", "a", "b", 3]],
    "set": [["SADD", "set", *(f"member {number}" for number in range(600))]],
    "smallhash": [["HSET", "smallhash", "f", "v", "n", 12]],
    "hash": [["HSET", "hash", "f", "v" * 500, "g", 7]],
    "smallzset": [["ZADD", "smallzset", 1, "a", 2.5, "b"]],
    "zset": [["ZADD", "zset", "inf", "z" * 100, -1, "b"]],
}


@pytest.fixture(scope="module", params=["redis7", "valkey", "redis7-old-encodings"])
def file(request, tmp_path_factory):
    """A dump file with all the types, and a stream, a string and a function among them."""
    kind = request.param.split("-", maxsplit=1)[0]
    commands = {name: list(each) for name, each in KINDS.items()}
    if kind == "valkey":
        commands["expiring"] = [
            ["HSET", "expiring", "f", "v", "g", "w"],
            ["HEXPIRE", "expiring", 1000, "FIELDS", 1, "f"],
        ]
    with start_server(kind, "--list-max-listpack-size", "5") as server, server.wire() as wire:
        if request.param.endswith("old-encodings"):
            for name in ("hash-max-listpack-entries", "zset-max-listpack-entries", "set-max-intset-entries"):
                wire.call("CONFIG", "SET", name, 0)
            wire.call("CONFIG", "SET", "rdbcompression", "no")
        wire.call("SET", "first", "1", "EX", 1000)
        for command in (each for group in commands.values() for each in group):
            wire.call(*command)
        wire.call("XADD", "last", "1-1", "f", "v")
        assert (
            wire.call(
                "FUNCTION", "LOAD", "#!lua name=l\nredis.register_function('f', function() return 1 end)"
            ).plain()
            == b"l"
        )
        assert wire.call("SAVE").plain() == b"OK"
        data = (server.dir / "dump.rdb").read_bytes()
        payloads = [wire.call("DUMP", name).plain() for name in commands]
    return data, set(commands), payloads


def test_all_are_left_out_with_a_warning_each(file):
    data, names, _ = file
    keyspace, log, info = Keyspace(), [], RdbInfo()
    list(load_rdb(ByteSource.of(data), keyspace, skip_unknown=True, log=log.append, info=info))
    assert set(keyspace.databases[0].entries) == {b"first", b"last"}
    assert keyspace.databases[0].expires.keys() == {b"first"}
    left_out = [line for line in log if line.startswith("Left out: key ")]
    assert {line.split("'")[1] for line in left_out} == names
    assert len(left_out) == len(names) == info.skipped
    assert any("function library" in line for line in log)
    assert info.keys == 2


def test_the_first_of_them_is_named_where_the_file_is_refused(file):
    data, _, _ = file
    with pytest.raises(
        RdbError, match=r"key '.*' holds a (list|set|hash|sorted set) .*rdb-skip-unknown-types"
    ):
        list(load_rdb(ByteSource.of(data), Keyspace()))


def test_a_payload_of_theirs_is_refused_as_bad_data(file):
    _, _, payloads = file
    for payload in payloads:
        with pytest.raises(RdbError, match="which Rillet does not have") as caught:
            restore_value(payload)
        assert not isinstance(caught.value, PayloadRefusedError)


def file_of(*parts, head=b"REDIS0012"):
    return ByteSource.of(head + b"".join(parts) + b"\xff" + bytes(8))


STRING = b"\x00\x01k\x01v"
OLD_VALUES = {
    1: b"\x02\x01a\xc0\x05",
    2: b"\x01\x01a",
    3: b"\x03\x01a\xfe\x01b\xfd\x01c\x031.5",
    4: b"\x01\x01a\x01b",
    7: b"\x81" + bytes(8) + b"\x02\x05\x01\x07\x05\x01x\x03" + bytes(4) + b"\x04" + bytes(8) + b"\x00",
    9: b"\x03abc",
    10: b"\x03abc",
    12: b"\x03abc",
    13: b"\x03abc",
    14: b"\x02\x01a\x02bb",
    22: b"\x01\x05\x01a\x01b",
    23: b"\x03abc",
    24: bytes(8) + b"\x01\x05\x01a\x01b",
    25: bytes(8) + b"\x03abc",
}


@pytest.mark.parametrize("value_type", OLD_VALUES)
def test_values_of_other_times_are_skipped(value_type):
    keyspace = Keyspace()
    source = file_of(bytes((value_type,)) + b"\x01x" + OLD_VALUES[value_type], STRING)
    list(load_rdb(source, keyspace, skip_unknown=True))
    assert keyspace.databases[0].entries == {b"k": b"v"}


@pytest.mark.parametrize("value_type", [6, 8, 28, 200])
def test_a_value_of_unknown_length_cannot_be_skipped(value_type):
    source = file_of(bytes((value_type,)) + b"\x01x\x01a", STRING)
    with pytest.raises(RdbError, match=f"key 'x' holds a .*{value_type}.*can not be skipped"):
        list(load_rdb(source, Keyspace(), skip_unknown=True))


@pytest.mark.parametrize(
    "part",
    [
        b"\xf8\x05",
        b"\xf9\x05",
        b"\xf5\x03abc",
        b"\xf4\x01\x02\x03",
        b"\xf7\x81" + bytes(8) + b"\x02\x01\x05\x01x\x00",
        b"\xf3\x01abcd\x02\x05\x00",
        b"\xfa\x01a\x01b",
        b"\xfb\x05\x05",
    ],
    ids=["idle", "frequency", "function", "slot info", "module data", "key metadata", "aux", "sizes"],
)
def test_parts_that_are_no_keys_are_passed_over(part):
    keyspace = Keyspace()
    list(load_rdb(file_of(part, STRING, head=b"REDIS0013"), keyspace))
    assert keyspace.databases[0].entries == {b"k": b"v"}


def test_in_a_file_of_valkey_some_bytes_mean_other_things():
    keyspace = Keyspace()
    slot_import = b"\xf3\x03job\x01\x05\x07"
    hash_with_expiring_fields = b"\x16\x01x\x01\x01a\x01b" + bytes(8)
    source = file_of(slot_import, hash_with_expiring_fields, STRING, head=b"VALKEY080")
    list(load_rdb(source, keyspace, skip_unknown=True))
    assert keyspace.databases[0].entries == {b"k": b"v"}


def test_expiry_in_seconds_and_in_milliseconds_belongs_to_the_next_key():
    keyspace = Keyspace()
    seconds = b"\xfd" + (5).to_bytes(4, "little") + b"\x00\x01a\x01v"
    milliseconds = b"\xfc" + (7).to_bytes(8, "little") + b"\xf8\x01" + b"\x00\x01b\x01v"
    list(load_rdb(file_of(seconds, milliseconds, STRING), keyspace))
    assert keyspace.databases[0].expires == {b"a": 5000, b"b": 7}


def test_keys_past_their_time_are_dropped_if_wanted():
    part = b"\xfc" + (7).to_bytes(8, "little") + b"\x00\x01a\x01v"
    for drop, left in ((False, {b"a": b"v", b"k": b"v"}), (True, {b"k": b"v"})):
        keyspace, info = Keyspace(), RdbInfo()
        keyspace.now = 8
        list(load_rdb(file_of(part, STRING), keyspace, drop_expired=drop, info=info))
        assert keyspace.databases[0].entries == left
        assert (info.keys, info.expired) == (len(left), 1)


def test_a_key_that_is_there_twice_is_refused_unless_allowed():
    keyspace = Keyspace()
    keyspace.databases[0].add(b"k", b"old")
    with pytest.raises(RdbError, match="RDB has duplicated key 'k' in DB 0"):
        list(load_rdb(file_of(STRING), keyspace))
    list(load_rdb(file_of(STRING), keyspace, allow_duplicates=True))
    assert keyspace.databases[0].entries == {b"k": b"v"}


def test_a_database_that_we_do_not_have_is_refused():
    with pytest.raises(RdbError, match="more than 16 databases"):
        list(load_rdb(file_of(b"\xfe\x10", STRING), Keyspace()))
