import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rillet.storage.codecs import listpack
from rillet.storage.listpack_sizes import element_size, integer_size
from rillet.storage.rdb import RdbError

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
WORDS = st.one_of(st.binary(max_size=80), INT64.map(lambda number: b"%d" % number))


def word(element: bytes | int) -> bytes:
    return b"%d" % element if isinstance(element, int) else element


@given(st.lists(st.one_of(WORDS, INT64)))
@example([b"x" * 63, b"x" * 64, b"y" * 126, b"y" * 4095, b"z" * 4096, b"w" * 20000, b"", b"v" * 300_000])
@example([b"9223372036854775808", b"-9223372036854775809", b"01", b"-0", b"1\n"])
@example([b""] * 65535)
def test_elements_come_back(elements):
    packed = listpack.pack(
        [listpack.integer(each) if isinstance(each, int) else listpack.text(each) for each in elements]
    )
    assert int.from_bytes(packed[:4], "little") == len(packed)
    assert [word(each) for each in listpack.unpack(packed)] == [word(each) for each in elements]


@given(INT64)
@example(127)
@example(128)
@example(-4096)
@example(4096)
@example(1 << 23)
def test_an_integer_takes_the_bytes_that_the_nodes_count(number):
    assert len(listpack.integer(number)) == integer_size(number)


@given(WORDS)
@example(b"x" * 126)
@example(b"x" * 16380)
@example(b"x" * 16381)
def test_a_string_takes_the_bytes_that_the_nodes_count(text):
    assert len(listpack.text(text)) == element_size(text)


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        bytes(7),
        b"\x07\0\0\0\x00\x00",
        b"\x07\0\0\0\x01\x00\xff",
        b"\x09\0\0\0\x01\x00\x01\x01\xfe",
        b"\x09\0\0\0\x01\x00\xbf\x01\xff",
        b"\x09\0\0\0\x01\x00\xf4\x01\xff",
        b"\x09\0\0\0\x01\x00\xf5\x01\xff",
        b"\x0c\0\0\0\x01\x00\xf0\xff\xff\xff\xff\xff",
    ],
)
def test_a_broken_listpack_is_refused(broken):
    with pytest.raises(RdbError, match="integrity check failed"):
        listpack.unpack(broken)
