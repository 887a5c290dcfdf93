"""The Lua that was compared with Redis' own: docs/security/lua.md names each difference of these two."""

import re
from pathlib import Path

import lupa
from lupa import lua51

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


def test_scripts_reach_the_same_names_as_in_redis(running):
    """linit.c, loslib.c, ldblib.c: which libraries are open, and which of their functions are left."""
    library = f"#!lua name=l\nredis.register_function('everything', function() {EVERYTHING} end)"
    found = {}
    for kind in ("rillet", "redis810"):
        with running(kind).wire() as wire:
            wire.call("FUNCTION", "FLUSH")
            assert wire.call("FUNCTION", "LOAD", library).plain() == b"l"
            found[kind] = [
                wire.call("EVAL", EVERYTHING, 0).plain(),
                wire.call("FCALL", "everything", 0).plain(),
            ]
            assert b"_G.os.clock function " in found[kind][0]
    assert found["rillet"] == found["redis810"]


def test_every_test_that_the_page_names_is_there():
    root = Path(__file__).parents[4]
    named = set(re.findall(r"`(test_\w+)`", (root / "docs/security/lua.md").read_text()))
    assert len(named) > 10
    sources = "\n".join(path.read_text() for path in (root / "tests").rglob("test_*.py"))
    assert {name for name in named if f"def {name}(" not in sources} == set()
