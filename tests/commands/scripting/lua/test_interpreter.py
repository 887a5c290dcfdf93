"""The Lua state by itself: what scripts can reach, how they end, what they can not leave behind."""

import gc
import re
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.lua_host import Host, failure_of

from rillet.protocol.errors import ReplyError


@pytest.fixture(scope="module")
def host():
    return Host()


def test_bytecode_is_no_script(host):
    assert host.run("return tostring(loadstring(string.dump(function() return 1 end)))") == b"$3\r\nnil\r\n"
    assert (
        host.run(
            "local code = string.dump(function() end) return tostring(load(function() "
            "local piece = code code = nil return piece end))"
        )
        == b"$3\r\nnil\r\n"
    )


def test_nor_can_a_client_send_it(host):
    bytecode = host.run("return string.dump(function() return 7 end)")
    code = bytecode[bytecode.index(b"\n") + 1 : -2]
    with pytest.raises(SyntaxError) as caught:
        host.lua.compile(code, b"@user_script")
    assert caught.value.args == (b"user_script:1: unexpected symbol near 'char(27)'",)


def test_an_error_names_its_position(host):
    failed = failure_of(host, "local x = 1\nredis.call('fail')")
    assert (failed.text, failed.source, failed.line, failed.counted) == (
        b"ERR failed",
        b"@user_script",
        2,
        True,
    )
    failed = failure_of(host, "\n\nerror('why')")
    assert (failed.text, failed.line, failed.counted) == (b"ERR user_script:3: why", 3, False)
    assert failed.reply(b"sha") == b"ERR user_script:3: why script: sha, on @user_script:3."


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("return cjson.decode('[')", 1),
        ("\nlocal x = '['\nif x then return cjson.decode(x) end", 3),
        ("local function f(x) local y = cjson.decode(x) return y end\nreturn f('[')", 1),
    ],
)
def test_an_error_of_a_library_names_its_position_after_a_tail_call_too(host, code, line):
    failed = failure_of(host, code)
    assert failed.text.startswith(b"ERR user_script:%d: Expected" % line)
    assert (failed.source, failed.line) == (b"@user_script", line)


def test_more_words_than_lua_has_room_for_on_its_stack(host):
    words = [b"%d" % n for n in range(20_000)]
    assert host.run("return {#KEYS, #ARGV, KEYS[1], ARGV[#ARGV]}", *words, keys=5) == (
        b"*4\r\n:5\r\n:19995\r\n$1\r\n0\r\n$5\r\n19999\r\n"
    )


def test_a_table_within_itself_is_refused_not_followed(host):
    assert host.run("local t = {} t[1] = t return t").endswith(b"-ERR reached lua stack limit\r\n")


def test_random_numbers_are_those_of_redis():
    host = Host()
    # As redis-server 7.0.15 and Valkey 9.1 reply right after their start.
    assert (
        host.run(
            "return {math.random(1000000), math.random(1000000), tostring(math.random()), math.random(5, 9)}"
        )
        == b"*4\r\n:396465\r\n:840486\r\n$16\r\n0.35333609737146\r\n:7\r\n"
    )
    assert host.run("math.randomseed(-7.9) return {math.random(1000000), math.random(1000000)}") == (
        b"*2\r\n:75212\r\n:817769\r\n"
    )


JSON = st.recursive(
    st.booleans() | st.integers(-(2**40), 2**40) | st.binary(max_size=8),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=4)
        | st.dictionaries(st.text("abc", min_size=1, max_size=3), inner, min_size=1, max_size=3)
    ),
    max_leaves=12,
)


def literal(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, bytes):
        return '"' + "".join(f"\\{byte:03d}" for byte in value) + '"'
    if isinstance(value, list):
        return "{" + ",".join(map(literal, value)) + "}"
    return "{" + ",".join(f"['{key}']={literal(item)}" for key, item in value.items()) + "}"


SAME = """
local function same(a, b)
  if type(a) ~= 'table' or type(b) ~= 'table' then return a == b end
  for k, v in pairs(a) do if not same(v, b[k]) then return false end end
  for k in pairs(b) do if a[k] == nil then return false end end
  return true
end
"""


@given(JSON)
def test_what_is_packed_or_encoded_comes_back(host, value):
    code = f"{SAME} local v = {literal(value)} return {{same(v, cmsgpack.unpack(cmsgpack.pack(v))), "
    assert host.run(code + "same({v}, cjson.decode(cjson.encode({v})))}") == b"*2\r\n:1\r\n:1\r\n"


@given(st.integers(-(2**31), 2**32 - 1), st.integers(-(2**31), 2**32 - 1), st.integers(0, 40))
def test_bits_are_those_of_32_bit_integers(host, a, b, by):
    def signed(n):
        n &= 0xFFFFFFFF
        return n - (1 << 32) if n >> 31 else n

    by %= 32
    expected = [
        signed(a & b), signed(a | b), signed(a ^ b), signed(~a), signed(a << by), signed((a & 0xFFFFFFFF) >> by),
        signed(signed(a) >> by),
    ]  # fmt: skip
    got = host.run(
        f"local a, b, n = {a}, {b}, {by} return {{bit.band(a, b), bit.bor(a, b), bit.bxor(a, b), bit.bnot(a), "
        "bit.lshift(a, n), bit.rshift(a, n), bit.arshift(a, n)}"
    )
    assert [int(number) for number in re.findall(rb":(-?\d+)", got)] == expected


def test_errors_leave_nothing_behind():
    host = Host()
    code = "for i = 1, 20000 do pcall(redis.call, 'fail') end collectgarbage() collectgarbage() return 1"
    host.run(code)
    before = host.lua.memory
    host.run(code)
    assert host.lua.memory - before < 20_000


def test_without_lupa_it_says_so(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "lupa", None)
    with pytest.raises(ReplyError) as caught:
        Host()
    assert b"lupa is not installed" in caught.value.text


def test_a_closed_state_is_freed_without_the_garbage_collector():
    host = Host()
    freed = weakref.ref(host.lua)
    host.run("return redis.call('x')")
    gc.disable()
    try:
        host.lua.close()
        del host.lua
        assert freed() is None
    finally:
        gc.enable()
