"""Files of real servers with every type, and what of a file we do not have: values of modules."""

import pytest
from support.servers import start_server

from rillet.storage.keyspace.keyspace import Keyspace
from rillet.storage.rdb import ByteSource, RdbError, RdbInfo, load_rdb, restore_value
from rillet.storage.value_types import type_name

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


def test_every_type_of_theirs_is_loaded(file):
    data, names, _ = file
    keyspace, info = Keyspace(), RdbInfo()
    list(load_rdb(ByteSource.of(data), keyspace, info=info))
    entries = keyspace.databases[0].entries
    assert {name.decode() for name in entries} == names | {"first", "last"}
    assert keyspace.databases[0].expires.keys() == {b"first"}
    assert (info.keys, info.skipped) == (len(names) + 2, 0)
    sizes = {name: sum(len(each) - 2 for each in KINDS[name]) for name in KINDS}
    pairs = {"smallhash", "hash", "smallzset", "zset"}
    for name, words in sizes.items():
        assert len(entries[name.encode()]) == (words // 2 if name in pairs else words)


def test_every_payload_of_theirs_is_restored(file):
    data, names, payloads = file
    keyspace = Keyspace()
    list(load_rdb(ByteSource.of(data), keyspace))
    of_file = sorted(list(value_parts(keyspace.databases[0].entries[name.encode()])) for name in names)
    assert sorted(list(value_parts(restore_value(payload))) for payload in payloads) == of_file


def value_parts(value):
    yield type_name(value)
    yield from value.digest_parts()


def file_of(*parts, head=b"REDIS0012"):
    return ByteSource.of(head + b"".join(parts) + b"\xff" + bytes(8))


STRING = b"\x00\x01k\x01v"
MODULE_VALUE = (
    b"\x07\x01x\x81" + bytes(8) + b"\x02\x05\x01\x07\x05\x01x\x03" + bytes(4) + b"\x04" + bytes(8) + b"\x00"
)


def test_the_value_of_a_module_is_left_out_with_a_warning_if_wanted():
    keyspace, log, info = Keyspace(), [], RdbInfo()
    list(load_rdb(file_of(MODULE_VALUE, STRING), keyspace, skip_unknown=True, log=log.append, info=info))
    assert keyspace.databases[0].entries == {b"k": b"v"}
    assert log == ["Left out: key 'x' holds a module value, RDB type 7"]
    assert (info.keys, info.skipped) == (1, 1)


def test_the_value_of_a_module_is_named_where_the_file_is_refused():
    with pytest.raises(RdbError, match=r"key .x. holds a module value, RDB type 7, .*rdb-skip-unknown-types"):
        list(load_rdb(file_of(MODULE_VALUE, STRING), Keyspace()))


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
        b"\xf4\x01\x02\x03",
        b"\xf7\x81" + bytes(8) + b"\x02\x01\x05\x01x\x00",
        b"\xf3\x01abcd\x02\x05\x00",
        b"\xfa\x01a\x01b",
        b"\xfb\x05\x05",
    ],
    ids=["idle", "frequency", "slot info", "module data", "key metadata", "aux", "sizes"],
)
def test_parts_that_are_no_keys_are_passed_over(part):
    keyspace = Keyspace()
    list(load_rdb(file_of(part, STRING, head=b"REDIS0013"), keyspace))
    assert keyspace.databases[0].entries == {b"k": b"v"}


def test_in_a_file_of_valkey_some_bytes_mean_other_things():
    keyspace = Keyspace()
    slot_import = b"\xf3\x03job\x01\x05\x07"
    hash_with_expiring_fields = b"\x16\x01x\x01\x01a\x01b" + b"\xff" * 8
    source = file_of(slot_import, hash_with_expiring_fields, STRING, head=b"VALKEY080")
    list(load_rdb(source, keyspace))
    entries = keyspace.databases[0].entries
    assert entries[b"k"] == b"v"
    assert dict(entries[b"x"].fields) == {b"a": b"b"}


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
