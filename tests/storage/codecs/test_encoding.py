import lzf
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rillet.storage.codecs import plain_lzf
from rillet.storage.codecs.encoding import (
    compress_string,
    encode_length,
    encode_string,
    read_length,
    read_string,
    skip_string,
    unpack_lzf,
)
from rillet.storage.rdb import ByteSource, RdbError


@pytest.mark.parametrize(
    ("number", "encoded"),
    [
        (0, b"\x00"),
        (63, b"\x3f"),
        (64, b"\x40\x40"),
        (16383, b"\x7f\xff"),
        (16384, b"\x80\x00\x00\x40\x00"),
        ((1 << 32) - 1, b"\x80\xff\xff\xff\xff"),
        (1 << 32, b"\x81\x00\x00\x00\x01\x00\x00\x00\x00"),
        ((1 << 64) - 1, b"\x81" + b"\xff" * 8),
    ],
)
def test_a_length_takes_as_many_bytes_as_in_redis(number, encoded):
    assert encode_length(number) == encoded
    assert read_length(ByteSource.of(encoded)) == number


@pytest.mark.parametrize("first", [0x82, 0xBF, 0xC0, 0xC3, 0xFF])
def test_what_is_no_length_is_refused(first):
    with pytest.raises(RdbError, match="Unknown length encoding"):
        read_length(ByteSource.of(bytes((first,)) + bytes(10)))


@pytest.mark.parametrize(
    ("text", "encoded"),
    [
        (b"", b"\x00"), (b"ab", b"\x02ab"), (b"7", b"\xc0\x07"), (b"-128", b"\xc0\x80"), (b"128", b"\xc1\x80\x00"),
        (b"-32769", b"\xc2\xff\x7f\xff\xff"), (b"2147483647", b"\xc2\xff\xff\xff\x7f"),
        (b"2147483648", b"\x0a2147483648"), (b"007", b"\x03007"), (b"-0", b"\x02-0"), (b"7\n", b"\x027\n"),
    ],
)  # fmt: skip
def test_what_looks_like_a_small_integer_becomes_one(text, encoded):
    assert encode_string(text) == encoded
    assert read_string(ByteSource.of(encoded)) == text


@given(st.one_of(st.binary(max_size=100), st.integers().map(lambda number: b"%d" % number)), st.binary())
@example(b"x" * 20000, b"")
def test_strings_come_back_and_can_be_skipped(text, rest):
    source = ByteSource.of(encode_string(text) + rest)
    assert read_string(source) == text
    assert source.read(1000) == rest
    source = ByteSource.of(encode_string(text) + rest)
    skip_string(source)
    assert source.read(1000) == rest


# As redis-server packed them for DUMP.
@pytest.mark.parametrize(
    ("packed", "text"),
    [
        (b"\x01aa\xe0)\x00\x01aa", b"a" * 54),
        (b"\x03abca\xe0\x15\x02\x01bc", b"abc" * 12),
        (b"\x01xx\xe0\xff\x00\xe0{\x00\x01xx", b"x" * 400),
        (
            b"\x18the quick brown fox and t\xe0\x06\x17\x03dog,\xe0\x08\x14\xe0\x12,\x01, ",
            b"the quick brown fox and the quick brown dog, " * 2,
        ),
    ],
)
def test_repetitions_are_unpacked(packed, text):
    assert unpack_lzf(packed, len(text)) == text


@pytest.mark.parametrize(
    "packed",
    [b"\x01a", b"\x00a\x20\x05", b"\x00a\xe0", b"\x00a\xe0\x01", b"\x00a\x20", b"\x00a"],
    ids=["short literal", "before the start", "no length", "no distance", "no offset", "wrong size"],
)
def test_broken_lzf_is_refused(packed):
    with pytest.raises(RdbError, match="Invalid LZF compressed string"):
        unpack_lzf(packed, 5)


# Few different bytes make references that are valid, overlap, and go a little too far.
CODED = st.one_of(
    st.binary(max_size=60),
    st.lists(st.sampled_from([0, 1, 2, 3, 31, 32, 64, 96, 0xE0, 0xFF]), max_size=60).map(bytes),
)


@given(CODED, st.integers(1, 300))
def test_plain_python_unpacks_what_the_library_does_and_refuses_all_else(data, size):
    try:
        expected = plain_lzf.decompress(data, size)
    except ValueError:
        expected = None
    if expected is None or len(expected) != size:
        with pytest.raises(RdbError, match="Invalid LZF compressed string"):
            unpack_lzf(data, size)
    else:
        assert unpack_lzf(data, size) == expected


@given(
    st.lists(st.sampled_from([b"sensor", b"kitchen", b"\x02\x01\x00\x01", b"x" * 300, b"7"])).map(b"".join)
)
@example(b"a" * 20)
@example(b"a" * 21)
@example(b"ab" * 10000)
def test_a_compressed_string_is_never_longer_and_comes_back(text):
    encoded = compress_string(text)
    assert len(encoded) <= len(encode_string(text))
    assert read_string(ByteSource.of(encoded)) == text
    packed = lzf.compress(text, len(text)) if text else None
    assert packed is None or plain_lzf.decompress(packed, len(text)) == text


def test_a_size_that_cannot_be_is_refused_before_anything_is_unpacked():
    with pytest.raises(RdbError, match="Invalid LZF compressed string"):
        unpack_lzf(b"\x00a\xe0\xff\x00", 1 << 40)


def test_a_length_beyond_the_end_reserves_no_memory():
    asked = []

    def read(count):
        asked.append(count)
        return b""

    with pytest.raises(RdbError, match="Short read"):
        ByteSource(read).take(1 << 50)
    assert max(asked) <= 1 << 20


def test_a_source_says_where_it_is():
    source = ByteSource.of(b"abcdef")
    assert (source.peek(2), source.position) == (b"ab", 0)
    assert (source.take(3), source.position) == (b"abc", 3)
    assert (source.read(99), source.position) == (b"def", 6)
    assert source.peek(1) == b""
