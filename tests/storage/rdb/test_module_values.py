"""What stands in a file beside keys that Rillet has: values of modules, sizes, times, odd parts."""

import pytest

from rillet.storage.keyspace.keyspace import Keyspace
from rillet.storage.rdb import ByteSource, RdbError, RdbInfo, load_rdb


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
