"""Values between Lua and RESP: numbers written out, replies as tables."""

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rillet.commands.scripting.lua.conversions import NotAWordError, format_number, to_lua, to_words


def plain_table(value, *, recursive=False):
    del recursive
    return value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3.14, b"3.14"), (0.1, b"0.1"), (1e15, b"1000000000000000"), (2.0**62, b"4611686018427387904"),
        (2.0**63, b"9223372036854776000"), (-(2.0**63), b"-9223372036854776000"), (1e20, b"1e+20"),
        (12e6, b"12000000"), (1e22, b"1e+22"), (1e100, b"1e+100"), (0.00001234, b"1.234e-5"),
        (0.0001234, b"1.234e-4"), (1e-7, b"1e-7"), (5e-324, b"5e-324"), (-1.5, b"-1.5"), (math.inf, b"inf"),
        (-math.inf, b"-inf"), (math.nan, b"nan"), (-math.nan, b"-nan"),
    ],
)  # fmt: skip
def test_numbers_are_written_as_redis_writes_them_since_7_2(value, text):
    assert format_number(value) == text


@given(st.integers(0, 2**64 - 1))
def test_a_number_reads_back_as_the_same(bits):
    value = struct.unpack("<d", bits.to_bytes(8, "little"))[0]
    if math.isfinite(value) and len(repr(value).replace(".", "").lstrip("-0").split("e")[0]) < 17:
        assert float(format_number(value)) == value


def test_words_are_strings_and_numbers():
    assert to_words((b"a\0b", 5, -1, 1.5)) == [b"a\0b", b"5", b"-1", b"1.5"]


@pytest.mark.parametrize("value", [None, True, [], object()])
def test_nothing_else_is_a_word(value):
    with pytest.raises(NotAWordError):
        to_words((b"x", value))


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        (b"$3\r\na\r\n\r\n", b"a\r\n"),
        (b"$-1\r\n", False),
        (b"$0\r\n\r\n", b""),
        (b":-7\r\n", -7),
        (b"+OK\r\n", {b"ok": b"OK"}),
        (b"*-1\r\n", False),
        (b"*0\r\n", []),
        (b"*3\r\n:1\r\n$-1\r\n*1\r\n+x\r\n", [1, False, [{b"ok": b"x"}]]),
        (b"*1\r\n-ERR no\r\n", [{b"err": b"ERR no"}]),
        (b"_\r\n", None),
        (b"#t\r\n", True),
        (b"#f\r\n", False),
        (b",1.5\r\n", {b"double": 1.5}),
        (b"(123\r\n", {b"big_number": b"123"}),
        (b"=7\r\ntxt:abc\r\n", {b"verbatim_string": {b"format": b"txt", b"string": b"abc"}}),
        (b"%1\r\n$1\r\na\r\n:1\r\n", {b"map": {b"a": 1}}),
        (b"~2\r\n$1\r\na\r\n:1\r\n", {b"set": {b"a": True, 1: True}}),
    ],
)
def test_replies_become_values_of_lua(reply, value):
    assert to_lua(reply, plain_table) == value
