"""Vararg functions with more fixed parameters than Lua 5.1 has spare stack for: CVE-2014-5461."""

import re
import shutil
from pathlib import Path

import pytest
from support.lua_host import Host
from support.servers import start_server
from support.until import until

import rillet.commands.scripting.lua as room

REFUSED = "function with more than 3 parameters before '...'"


def function_of(parameters: int, body: str = "local a = ... return 1") -> str:
    names = ", ".join(f"p{i}" for i in range(1, parameters + 1))
    return f"function({names}, ...) {body} end"


# Around a function, in every place where source text is compiled: `%s` is the function, on line 2.
PLACES = {
    "the script": "local f =\n%s return 1",
    "a function in it": "local function outer()\nreturn %s end return 1",
    "a function in a function in it": "return (function() return function()\nreturn %s end end)",
    "behind constants of every kind": "local a, b, c, d = nil, true, 1.5, 'text' local t = {x = false, [2] = 'y'}\nlocal f = %s return a",
    "behind functions without varargs": "local function a(b, c, d, e, f) return f end\nlocal f = %s return a",
    "an upvalue's user": "local up = 1 local function outer() return up end\nlocal f = %s return outer",
    "the second part of an expression": "return {1, 'a' .. 'b',\n%s}",
    "a coroutine": "return coroutine.wrap(function()\nreturn %s end)()",
}


@pytest.fixture(scope="module")
def host():
    return Host()


@pytest.mark.parametrize(
    "parameters",
    [
        "a,b,c,d,...",
        "a , b\t,c\r,d ,\v\f...",
        "a,b,c,d,--\n...",
        "a,--[[,]]b--[==[x\n]]]==],c,d--\r,--[[...]]...--)\n",
    ],
)
def test_however_the_parameters_are_written(host, parameters):
    for code in (
        f"local function f({parameters}) return ... end",
        f"local t = {{}} function t:f({parameters.replace('a', '', 1).replace(',', '', 1)}) return ... end",
    ):
        with pytest.raises(SyntaxError, match=re.escape(REFUSED)):
            host.lua.compile(code.encode(), b"@user_script")


@pytest.mark.parametrize("parameters", [4, 5, 6, 8, 50, 194])
@pytest.mark.parametrize("place", PLACES)
def test_a_function_with_more_than_three_parameters_before_its_varargs_is_refused(host, place, parameters):
    source = PLACES[place] % function_of(parameters)
    with pytest.raises(SyntaxError) as caught:
        host.lua.compile(source.encode(), b"@user_script")
    assert caught.value.args[0].decode() == f"user_script:2: {REFUSED}"
    for compiler in (
        "loadstring(ARGV[1], '@mine')",
        "load(function() local s = ARGV[1] ARGV[1] = nil return s end, '@mine')",
    ):
        reply = host.run(f"local f, e = {compiler} return {{f and 1 or 0, e}}", source.encode()).decode()
        assert reply.startswith("*2\r\n:0\r\n")
        assert f"mine:2: {REFUSED}" in reply


def test_a_text_that_comes_in_pieces_is_refused_too(host):
    text = f"return {function_of(4)}".encode()
    reply = host.run(
        "local s, i = ARGV[1], 0 local f, e = load(function() i = i + 1 return s:sub(i, i) end, '=x') return e",
        text,
    )
    assert f"x:1: {REFUSED}" in reply.decode()


def test_self_is_a_parameter(host):
    with pytest.raises(SyntaxError):
        host.lua.compile(b"local t = {} function t:f(a, b, c, ...) return ... end", b"@user_script")
    assert host.run("local t = {} function t:f(a, b, ...) return ... end return t:f(1, 2, 3)") == b":3\r\n"


@pytest.mark.parametrize(
    ("code", "reply"),
    [
        ("local function f(...) return select('#', ...) end return f(1, 2)", b":2\r\n"),
        ("local function f(a, ...) return {a, ...} end return f(1, 2)", b"*2\r\n:1\r\n:2\r\n"),
        ("local function f(a, b, c, ...) return {c, ...} end return f(1, 2, 3, 4)", b"*2\r\n:3\r\n:4\r\n"),
        # A function that only names `...` has a table `arg`, and Lua reserves its stack anew.
        (f"local f = {function_of(60, 'return arg.n')} return f()", b":0\r\n"),
        ("local function f(a, b, c, d, e, f) return f end return {'...', f(1, 2, 3, 4, 5, 6)}", b"*2\r\n$3\r\n...\r\n:6\r\n"),
        ("return select('#', ...)", b":0\r\n"),
    ],
)  # fmt: skip
def test_other_functions_run_as_before(host, code, reply):
    assert host.run(code) == reply


def test_a_text_too_large_to_be_checked_is_out_of_memory():
    host = Host(most_memory=16 << 20)
    source = b"local f = function(...) return ... end return {" + b"{},1.5," * 400_000 + b"}"
    try:
        host.lua.compile(source, b"@user_script")
    except SyntaxError as error:
        assert error.args[0] == b"not enough memory"  # noqa: PT017 - it may fit
    assert host.run("return 1") == b":1\r\n"


def test_our_own_functions_are_safe(host):
    """They are called by scripts, with any number of arguments."""
    folder = Path(room.__file__).parent
    files = list(folder.glob("*.lua"))
    assert len(files) >= 7
    for file in files:
        assert callable(host.lua.compile(file.read_bytes(), b"@ours")), file


ATTACK = (
    "local f = {function} local function rec(n) f() if n > 0 then return 1 + rec(n - 1) end return 0 end "
    "for i = 1, 200 do coroutine.wrap(rec)(i) end"
)


def test_no_request_brings_one_into_the_server():
    with start_server("rillet") as server, server.wire() as wire:
        for parameters in (194, 5):
            attack = ATTACK.format(function=function_of(parameters))
            assert REFUSED in str(wire.call("EVAL", f"{attack} return 1", 0))
            assert REFUSED in str(wire.call("SCRIPT", "LOAD", f"{attack} return 1"))
            assert REFUSED in str(wire.call("EVAL_RO", f"{attack} return 1", 0))
            assert REFUSED in str(wire.call("EVAL", "return assert(loadstring(ARGV[1]))()", 0, attack))
            library = f"#!lua name=lib\nredis.register_function('f', function() {attack} end)"
            assert f"ERR Error compiling function: user_function:2: {REFUSED}" in str(
                wire.call("FUNCTION", "LOAD", library)
            )
        assert wire.call("EVAL", "return 'alive'", 0).plain() == b"alive"


def test_a_library_of_another_server_is_not_compiled_either(tmp_path):
    """Redis compiles it; it comes here by FUNCTION RESTORE, a file, or from a master."""
    with start_server("redis810") as redis, redis.wire() as there:
        library = f"#!lua name=lib\nlocal f = {function_of(60)}\nredis.register_function('f', f)"
        assert there.call("FUNCTION", "LOAD", library).plain() == b"lib"
        dump = there.call("FUNCTION", "DUMP").plain()
        assert isinstance(dump, bytes)
        there.call("SAVE")
        (tmp_path / "dump.rdb").write_bytes((redis.dir / "dump.rdb").read_bytes())
        with start_server("rillet") as server, server.wire() as wire:
            assert REFUSED in str(wire.call("FUNCTION", "RESTORE", dump))
            assert wire.call("FUNCTION", "LIST").plain() == []
            wire.call("REPLICAOF", "127.0.0.1", redis.port)
            until(lambda: b"master_link_status:up" in wire.call("INFO", "replication").plain())
            assert "Function not found" in str(wire.call("FCALL_RO", "f", 0))
            assert REFUSED in server.log
    with start_server("rillet", folder=tmp_path) as server, server.wire() as wire:
        assert "Function not found" in str(wire.call("FCALL", "f", 0))
        assert REFUSED in server.log


@pytest.mark.parametrize("rewritten", [False, True])
def test_nor_is_one_that_an_append_only_file_brings(tmp_path, rewritten):
    """It is left out, with the reason in the log; the data is loaded."""
    library = f"#!lua name=lib\nlocal f = {function_of(60)}\nredis.register_function('f', f)"
    with (
        start_server("redis810", "--appendonly", "yes", "--aof-use-rdb-preamble", "no") as redis,
        redis.wire() as there,
    ):
        assert there.call("FUNCTION", "LOAD", library).plain() == b"lib"
        there.call("SET", "k", "v")
        if rewritten:
            there.call("BGREWRITEAOF")
            until(lambda: b"aof_rewrite_in_progress:0" in there.call("INFO", "persistence").plain())
        shutil.copytree(redis.dir / "appendonlydir", tmp_path / "appendonlydir")
    with start_server("rillet", "--appendonly", "yes", folder=tmp_path) as server, server.wire() as wire:
        assert "Function not found" in str(wire.call("FCALL", "f", 0))
        assert wire.call("GET", "k").plain() == b"v"
        assert (
            f"answered an error while being replayed: ERR Error compiling function: user_function:2: {REFUSED}"
            in server.log
        )
