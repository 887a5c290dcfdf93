"""The Lua that was compared with Redis' own: docs/security/lua.md names each difference of these two."""

from __future__ import annotations

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
