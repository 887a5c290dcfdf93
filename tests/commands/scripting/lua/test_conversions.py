"""Values between Lua and RESP; scripts/lua_replies.script and newer/spellings.script have them beside Redis."""

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rillet.commands.scripting.lua.conversions import format_number, to_lua


def plain_table(value, *, recursive=False):
    del recursive
    return value


@given(st.integers(0, 2**64 - 1))
def test_a_number_reads_back_as_the_same(bits):
    value = struct.unpack("<d", bits.to_bytes(8, "little"))[0]
    if math.isfinite(value) and len(repr(value).replace(".", "").lstrip("-0").split("e")[0]) < 17:
        assert float(format_number(value)) == value


@pytest.mark.parametrize(
    ("reply", "value"),
    [(b"$-1\r\n", False), (b"*-1\r\n", False), (b"_\r\n", None), (b"#t\r\n", True), (b"#f\r\n", False)],
)
def test_replies_without_a_value_of_their_own_become_values_of_lua(reply, value):
    assert to_lua(reply, plain_table) == value
