"""Lists in RDB: all forms are read, and damage is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rillet.storage.codecs import listpack
from rillet.storage.codecs.encoding import encode_length, encode_string
from rillet.storage.codecs.lists import encode_list, read_list
from rillet.storage.collections.list import List
from rillet.storage.rdb import ByteSource, RdbError

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
