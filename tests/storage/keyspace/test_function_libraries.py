"""Function libraries as data: their names, their payloads, their place in RDB files and rewritten AOFs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rillet.storage.aof.rewrite import rewrite_commands
from rillet.storage.keyspace.function_libraries import Libraries, LibraryError, library_head
from rillet.storage.keyspace.keyspace import Keyspace
from rillet.storage.rdb import (
    ByteSource,
    PayloadRefusedError,
    RdbError,
    dump_libraries,
    dump_value,
    load_rdb,
    rdb_chunks,
    restore_libraries,
)

CODE = b"#!lua name=lib\nreturn 1"


def test_the_first_line_names_a_library_and_lines_keep_their_numbers():
    assert library_head(b"#!lua name=a_1\nx\ny") == (b"a_1", b"\nx\ny")
    assert library_head(b"#!LUA NAME=a\n") == (b"a", b"\n")


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (b"x", b"ERR Missing library metadata"),
        (b"#!lua name=a", b"ERR Invalid library metadata"),
        (b"#!js name=a\n", b"ERR Engine 'js' not found"),
        (b"#!lua\n", b"ERR Library name was not given"),
        (b"#!lua x=y\n", b"ERR Invalid metadata value given: x=y"),
        (b"#!lua name=a name=b\n", b"ERR Invalid metadata value, name argument was given multiple times"),
    ],
)
def test_other_first_lines_are_refused(code, text):
    with pytest.raises(LibraryError) as caught:
        library_head(code)
    assert caught.value.args == (text,)


def test_each_change_gives_another_version():
    libraries, other = Libraries(), Libraries()
    seen = {libraries.version}
    libraries.put(b"lib", CODE)
    seen.add(libraries.version)
    other.put(b"x", b"y")
    libraries.take_over(other)
    seen.add(libraries.version)
    libraries.remove(b"x")
    seen.add(libraries.version)
    assert len(seen) == 4
    libraries.remove(b"x")
    libraries.clear()
    assert libraries.version == max(seen)


@given(st.lists(st.binary(max_size=100)), st.sampled_from([10, 11, 12]))
def test_a_payload_gives_back_what_was_dumped(codes, version):
    payload = dump_libraries(codes, version)
    assert restore_libraries(payload) == codes
    with pytest.raises(PayloadRefusedError):
        restore_libraries(payload[:-1] + bytes((payload[-1] ^ 1,)))


def test_a_value_is_no_library():
    with pytest.raises(RdbError):
        restore_libraries(dump_value(b"text"))


@pytest.mark.parametrize("version", [10, 11, 14])
def test_a_file_holds_the_libraries(version):
    keyspace, loaded = Keyspace(), Keyspace()
    keyspace.libraries.put(b"lib", CODE)
    keyspace.databases[0].add(b"k", b"v")
    data = b"".join(rdb_chunks(keyspace, version=version))
    list(load_rdb(ByteSource.of(data), loaded))
    assert loaded.libraries.codes == {b"lib": CODE}
    with pytest.raises(RdbError, match="the function library 'lib' twice"):
        list(load_rdb(ByteSource.of(data), loaded))
    loaded.databases[0].clear()
    list(load_rdb(ByteSource.of(data), loaded, allow_duplicates=True))
    assert b"lib" not in b"".join(rdb_chunks(keyspace, version=9))


def test_a_rewritten_aof_begins_with_the_libraries():
    keyspace = Keyspace()
    keyspace.libraries.put(b"lib", CODE)
    assert b"".join(rewrite_commands(keyspace)) == (
        b"*3\r\n$8\r\nFUNCTION\r\n$4\r\nLOAD\r\n$%d\r\n%b\r\n" % (len(CODE), CODE)
    )
