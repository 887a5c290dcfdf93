"""The Lua that was compared with Redis' own: docs/security/lua.md names each difference of these two."""

import re
from pathlib import Path

import lupa
import pytest
from lupa import lua51
from support.servers import start_servers

COMPARED_LUPA = "2.8"
COMPARED_LUA = b"Lua 5.1.5"


def test_it_is_the_one_whose_differences_are_known():
    advice = (
        "docs/security/lua.md was written for another Lua: compare the sources of lupa's third-party/lua51 with those of "
        "the version named here, mend what differs, then name the new version"
    )
    assert lupa.__version__ == COMPARED_LUPA, advice
    assert lua51.LUA_VERSION == (5, 1), advice
    # What lapi.c puts into every program that holds it.
    assert b"$Lua: " + COMPARED_LUA + b" " in Path(lua51.__file__).read_bytes(), advice


def test_it_is_built_with_the_limits_that_the_checks_count_on():
    lua = lua51.LuaRuntime(encoding=None)
    # Little-endian or not, then the sizes of int, size_t, an instruction and a number; numbers are not integers.
    header = lua.execute(b"return string.dump(function() end)")[:12]
    assert header[:6] == b"\x1bLua\x51\x00"
    assert header[7:12] == bytes((4, 8, 4, 8, 0))
    # LUAI_MAXCCALLS
    depth = b"local n = 0 local function f() n = n + 1 string.gsub('x', 'x', f) end pcall(f) return n"
    assert 190 <= lua.execute(depth) <= 200
    # LUAI_MAXCSTACK
    assert lua.execute(b"return (pcall(unpack, {}, 1, 7990))") is True
    assert lua.execute(b"return (pcall(unpack, {}, 1, 8001))") is False
    # LUA_COMPAT_VARARG
    assert lua.execute(b"return (function(...) return arg.n end)(1, 2)") == 2


@pytest.fixture(scope="module")
def both():
    with start_servers("rillet", "redis810") as servers:
        yield servers


# Every name that a script reaches, its kind and value, and whether it can be written to.
EVERYTHING = """
local found, seen = {}, {}
local function written(t)
  local ok, e = pcall(function() t.probe = 1 end)
  return ok and 'is written to' or tostring(e):gsub('^.-: ', '')
end
local function walk(t, path)
  if seen[t] then return end
  seen[t] = true
  local meta = getmetatable(t)
  found[#found + 1] = path .. ': ' .. written(t) .. ', metatable: ' .. (meta and written(meta) or 'none')
  for name, value in pairs(t) do
    local kind = type(value)
    local shown = (kind == 'number' or kind == 'string') and tostring(value) or ''
    found[#found + 1] = path .. '.' .. tostring(name) .. ' ' .. kind .. ' ' .. shown
    if kind == 'table' then walk(value, path .. '.' .. tostring(name)) end
  end
end
walk(_G, '_G') walk(getmetatable(''), 'of strings')
table.sort(found)
return found
"""


def test_scripts_reach_the_same_names_as_in_redis(both):
    """linit.c, loslib.c, ldblib.c: which libraries are open, and which of their functions are left."""
    library = f"#!lua name=l\nredis.register_function('everything', function() {EVERYTHING} end)"
    found = {}
    for kind, server in both.items():
        with server.wire() as wire:
            assert wire.call("FUNCTION", "LOAD", library).plain() == b"l"
            found[kind] = [
                wire.call("EVAL", EVERYTHING, 0).plain(),
                wire.call("FCALL", "everything", 0).plain(),
            ]
            assert b"_G.os.clock function " in found[kind][0]
    assert found["rillet"] == found["redis810"]


# Where the sources of the two differ, by file.
CODES = [
    "local t={1,2,3} return {tostring(t[-2^31]), tostring(t[-2^31+1]), tostring(t[2^31]), tostring(t[2^31-1]), tostring(t[0])}",
    "local t={1,2,3} t[-2^31]=7 t[2^31-1]=8 return {t[-2^31], rawget(t,-2147483648), rawget(t,2147483647), #t}",
    "return {unpack({[-2^31]=5}, -2147483648, -2147483648)}",
    "local t={} for i=-3,3 do t[-2^31+i]=i end local n=0 for k in pairs(t) do n=n+1 end return n",
    "return {select(2, loadstring(''))}",
    'return select(2, loadstring("\'"))',
    "return select(2, loadstring('\\0'))",
    "return select(2, loadstring('['))",
    "return select(2, loadstring('[=='))",
    "return select(2, loadstring('[==['))",
    "return select(2, loadstring('--[==['))",
    "return select(2, loadstring('\\1'))",
    "return select(2, loadstring('$'))",
    "return select(2, loadstring('1..2'))",
    "return select(2, loadstring('0x'))",
    "return select(2, loadstring('\"\\\\999\"'))",
    "return select(2, loadstring('~'))",
    "return select(2, loadstring(')'))",
    "return select(2, loadstring('x'))",
    "return select(2, loadstring('x = ]==]'))",
    "return select(2, loadstring('return [===[a]==]'))",
    "return select(2, load(function() return nil end))",
    "return select(2, load(function() error('x') end))",
    "return select(2, load(function() return {} end))",
    "return loadstring('return [' .. ('='):rep(1000) .. '[a]' .. ('='):rep(1000) .. ']')()",
    "return #string.dump(function() end) > 0",
    "return #string.dump(loadstring('return 1', '')) > 0",
    "return {pcall(string.dump, print)}",
    "return {pcall(string.dump, string.dump)}",
    "return string.dump(loadstring('return 1','=x')):sub(1,4)",
    "return {pcall(loadstring, string.dump(function() end))}",
    "return {loadstring(string.dump(function() end))}",
    "return {loadstring('\\27')}",
    "return {loadstring('\\27Lua', 'x')}",
    "return type(os.clock())",
    "return {pcall(os.clock, 1, 2)}",
    "return {pcall(function() return os.time end)}",
    "return {pcall(function() return os.getenv end)}",
    "return {pcall(function() os.clock = nil end)}",
    "return os.clock() >= 0",
    "return {pcall(function() return debug end)}",
    "return {pcall(function() return package end)}",
    "return {pcall(function() return io end)}",
    "return {pcall(function() return require end)}",
    "return _VERSION",
    "return tostring(_G == _G._G)",
    "string.x = 1",
    "_G.x = 1",
    "x = 1",
    "rawset(string, 'x', 1)",
    "rawset(_G, 'x', 1)",
    "setmetatable(string, {})",
    "setmetatable(_G, nil)",
    "table.insert(string, 1)",
    "table.remove(string)",
    "table.sort(string)",
    "return {pcall(table.concat, string)}",
    "table.foreach(string, function(k) string[k] = nil end)",
    "getmetatable('').__index = nil",
    "getmetatable(_G).__index = nil",
    "redis.call = 1",
    "KEYS.x = 1 return KEYS.x",
    "cjson.null = 1",
    "for k in pairs(math) do math[k] = 1 end",
    "string['x'] = 1",
    "_G[1] = 2",
    "return tostring(rawequal(_G, _G._G))",
    "local m = getmetatable('') return {type(m), type(m and m.__index)}",
    "return tostring(getmetatable(string))",
    "return tostring(rawget(string, 'len') ~= nil)",
    "table.setn({}, 1)",
    "return table.getn(string)",
    "return table.maxn(string)",
    "return #string",
    "return next(table) ~= nil",
    "return {unpack({1,2,3}, 2)}",
    "return {unpack({1,2,3}, 0, 1)}",
    "return #{unpack({}, 1, 7000)}",
    "return {pcall(unpack, {}, 1, 8000)}",
    "return {pcall(unpack, {}, -2147483648, 2147483647)}",
    "return {unpack({1,2}, 2147483647)}",
    "return {unpack({1,2}, 1.9, 2.9)}",
    "local a,b=('x'):rep(100)..'a',('x'):rep(100)..'b' return {tostring(a<b), tostring(a=='x'), #(a..b)}",
]


@pytest.mark.parametrize("code", CODES)
def test_where_the_sources_differ_the_answers_do_not(both, code):
    answers = []
    for kind in ("rillet", "redis810"):
        with both[kind].wire() as wire:
            answers.append(str(wire.call("EVAL", code, 0)))
    assert answers[0] == answers[1]


def test_every_test_that_the_page_names_is_there():
    root = Path(__file__).parents[4]
    named = set(re.findall(r"`(test_\w+)`", (root / "docs/security/lua.md").read_text()))
    assert len(named) > 10
    sources = "\n".join(path.read_text() for path in (root / "tests").rglob("test_*.py"))
    assert {name for name in named if f"def {name}(" not in sources} == set()
