"""What C code of Lua gets wrong, and how much a script may take: each case in a server process of its own."""

import pytest
from support.lua_host import Host, error_of
from support.servers import start_server
from support.until import until

from rillet.commands.scripting.lua.interpreter import FailedScriptError

MB = 1 << 20


@pytest.fixture(scope="module")
def server():
    with start_server("rillet", "--lua-memory-limit", "16mb") as process:
        yield process
        assert "Traceback" not in process.log
        assert "PANIC" not in process.log


@pytest.fixture
def wire(server):
    with server.wire() as wire:
        yield wire
        assert wire.call("EVAL", "return 'alive'", 0).plain() == b"alive"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("return string.find(string.rep('a', 500000), string.rep('a?', 200000))", "-ERR user_script:1: pattern too complex"),
        ("return (('a'):rep(50000)):match(('('):rep(50000))", "-ERR user_script:1: pattern too complex"),
        ("return (('a'):rep(50000)):gsub(('a-'):rep(50000), '')", "-ERR user_script:1: pattern too complex"),
        ("for w in (('a'):rep(50000)):gmatch(('a*'):rep(50000)) do end", "-ERR user_script:1: pattern too complex"),
        ("local f f = function(n) return coroutine.wrap(f)(n) end return f(1)", "C stack overflow"),
        ("return #cmsgpack.pack(unpack({}, 1, 7000))", ":7000"),
        ("return #string.rep('', 2^31 - 1)", ":0"),
    ],
)  # fmt: skip
def test_what_crashes_or_stops_redis_is_an_error_or_a_reply(wire, code, text):
    """Or has another error there; scripts/newer/lua.script has what is the same: "sizes, ranges and depths"."""
    assert text in str(wire.call("EVAL", code, 0))


@pytest.mark.parametrize(
    "code",
    [
        "error(setmetatable({}, {__index = function() error('x') end}))",
        "error(setmetatable({}, {__tostring = function() return {} end}))",
        "error(redis)",
    ],
)
def test_odd_errors_get_a_reply_that_names_no_line_of_ours(wire, code):
    """Redis 7.0 crashes, or names a line of its own; scripts/newer/lua.script has other odd values."""
    assert str(wire.call("EVAL", code, 0)).startswith("-ERR unknown error")


# Memory

GREEDY = [
    "local t = {} for i = 1, 1e9 do t[i] = tostring(i) .. ('x'):rep(1000) end",
    "return string.rep('x', 2^30)",
    "local s = 'x' while true do s = s .. s end",
    "local t = {} while true do t = {t} end",
    "local t = {} for i = 1, 1e9 do t[i] = i end",
    "local t = {} for i = 1, 1e9 do t[i] = coroutine.create(function() end) end",
    "local t = {} for i = 1, 1e9 do t[i] = redis.call('get', 'big') .. i end",
    "local t = {} for i = 1, 1e9 do t[i] = redis.call('lrange', 'list', 0, -1) end",
    "local t = {} for i = 1, 1e9 do t[i] = redis.pcall('eval', 'x') t[i].x = ('y'):rep(500) .. i end",
    "local t = {} for i = 1, 1e9 do t[i] = cjson.decode('[[],[],[],{}]') end",
    "local t = {} for i = 1, 1e9 do t[i] = ARGV[1] .. i end",
    "local t = {} for i = 1, 600000 do t[i] = i end return t",
    "local x = ('x'):rep(9000000) return {x, x}",
    "return loadstring(('x = 1 '):rep(10000000))",
    "return table.concat({('x'):rep(5000000), ('y'):rep(5000000), ('z'):rep(5000000)})",
]


@pytest.mark.parametrize("code", GREEDY)
@pytest.mark.parametrize("wrap", ["{}", "pcall(function() {} end) return redis.call('get', 'k')"])
def test_a_script_gets_no_more_memory_than_the_limit(wire, code, wrap):
    wire.call("SET", "big", "x" * 100_000)
    wire.call("SET", "k", "v")
    wire.call("DEL", "list")
    wire.call("RPUSH", "list", *["y" * 10] * 5000)
    reply = str(wire.call("EVAL", wrap.format(code), 0, "a" * 1000))
    assert "not enough memory" in reply or "null" in reply or reply == '$"v"'
    assert "internal" not in reply
    assert wire.call("EVAL", "return redis.call('get', KEYS[1])", 1, "k").plain() == b"v"
    info = wire.call("INFO", "memory").plain()
    used = int(info.split(b"used_memory_vm_eval:")[1].split(b"\r\n")[0])
    assert used < 17 * MB


def test_words_and_sources_that_do_not_fit_are_refused(wire):
    word = "a" * (5 * MB)
    assert "not enough memory" in str(wire.call("EVAL", "return 1", 0, word, word, word, word))
    assert "not enough memory" in str(wire.call("EVAL", "return 1 --" + "x" * (20 * MB), 0))
    assert wire.call("EVAL", "return #ARGV[1]", 0, word).plain() == 5 * MB


def test_replies_that_do_not_fit_are_refused_before_they_are_made(wire):
    wire.call("SET", "huge", "x" * (20 * MB))
    assert "not enough memory" in str(wire.call("EVAL", "return redis.call('get', 'huge')", 0))
    assert "not enough memory" in str(wire.call("EVAL", "return redis.pcall('get', 'huge').err", 0))
    wire.call("DEL", "huge")


def test_the_last_bytes_are_not_taken_from_the_server(wire):
    """The host is called with tables at the very moment when Lua has no more."""
    fill = (
        "local t, n = {}, 1 local size = 65536 while size > 16 do "
        "if pcall(function() t[n] = ('x'):rep(size) .. n end) then n = n + 1 else size = size / 2 end end "
    )
    for call in ("redis.call({}, {}, {})", "redis.call('get', 'k')", "redis.pcall(unpack(t, 1, 5000))",
                 "redis.log(1, 'x')", "math.random()", "string.rep('x', 100)", "cjson.encode(t)"):  # fmt: skip
        reply = str(wire.call("EVAL", f"{fill} return {call}", 0))
        assert (
            "not enough memory" in reply or "must be strings" in reply or "null" in reply or reply[0] in "$:"
        )


def test_functions_that_keep_too_much_are_loaded_again(server):
    with server.wire() as wire:
        library = (
            "#!lua name=hoard\nlocal t = {} redis.register_function('hoard', function() "
            "for i = 1, 1e9 do t[#t + 1] = ('x'):rep(1000) .. #t end end) "
            "redis.register_function('kept', function() return #t end)"
        )
        assert wire.call("FUNCTION", "LOAD", "REPLACE", library).plain() == b"hoard"
        assert "not enough memory" in str(wire.call("FCALL", "hoard", 0))
        assert wire.call("FCALL", "kept", 0).plain() == 0
        assert wire.call("FCALL", "kept", 0).plain() == 0
        wire.call("FUNCTION", "DELETE", "hoard")


def test_a_library_that_takes_too_much_while_it_loads_is_refused(wire):
    code = "#!lua name=greedy\nlocal t, n = {}, 0 while true do n = n + 1 t = {t, ('x'):rep(100000) .. n} end"
    # In a pause of the machine it times out before.
    until(lambda: "not enough memory" in str(wire.call("FUNCTION", "LOAD", code)))
    assert wire.call("FUNCTION", "LIST").plain() == []


MUCH = b"local t = {" + b"function() end," * 8000 + b"}"  # about 2 MB, compiled


def half_full() -> tuple[Host, list[object]]:
    """A state of 16 MB that keeps between half and three quarters of them in scripts."""
    host = Host(most_memory=16 * MB)
    kept = []
    while host.lua.memory < 10 * MB:
        kept.append(host.lua.compile(MUCH + b"--%d" % len(kept), b"@kept"))
    host.lua._collect()
    assert 10 * MB < host.lua.memory < 12 * MB
    return host, kept


def test_a_script_does_not_pay_for_what_others_keep():
    """Each one brought a collection, which looks at all that is kept: 0.4 s of 300 MB."""
    host, kept = half_full()
    one = host.lua.compile(b"return 1", b"@one")
    garbage = host.lua.compile(b"local s = ('x'):rep(300000) return 1", b"@garbage")
    before = host.lua.memory
    host.lua.run(garbage, 2, 0, [])
    for _ in range(10):
        host.lua.run(one, 2, 0, [])
        assert host.lua.memory > before + 300_000, "everything was collected"
    assert not host.lua.exhausted
    assert kept


def test_nor_does_a_new_script():
    host, kept = half_full()
    before = host.lua.memory
    host.run("local s = ('x'):rep(300000) return 1")
    for i in range(10):
        host.run(f"return {i}")
        assert host.lua.memory > before + 300_000, "everything was collected"
    assert kept


def test_but_its_garbage_is_collected_before_there_is_no_room():
    host, kept = half_full()
    for i in range(100):
        assert host.run(f"local s = ('x'):rep(1000000) .. {i} return #s") == b":%d\r\n" % (
            1_000_000 + len(str(i))
        )
        assert host.lua.memory < 14.5 * MB
    assert kept


def test_a_state_full_of_scripts_is_given_up_when_the_next_does_not_fit():
    """Else every new script pays for a collection, and is refused."""
    host = Host(most_memory=16 * MB)
    kept = []
    while host.lua.memory < 13 * MB:
        kept.append(host.lua.compile(MUCH + b"--%d" % len(kept), b"@kept"))
    with pytest.raises(SyntaxError, match="not enough memory"):
        host.lua.compile(b"return 1 --" + b"x" * 8 * MB, b"@next")
    assert host.lua.exhausted


def test_garbage_does_not_stay_when_a_script_stops_the_collector():
    host = Host()
    for setting in ("'stop'", "'setpause', 100000", "'setstepmul', 1"):
        host.run(f"collectgarbage({setting})")
        for i in range(40):  # a MB each
            host.run(f"local t = {{}} for i = 1, 1000 do t[i] = ('x'):rep(1000) .. i .. '{i}' end return 1")
        assert host.lua.memory < 20 * MB
    assert host.run("return {collectgarbage('setpause', 200), collectgarbage('setstepmul', 200)}") == (
        b"*2\r\n:200\r\n:200\r\n"
    )


def test_the_limit_is_a_directive(wire):
    assert wire.call("CONFIG", "GET", "lua-memory-limit").plain() == [b"lua-memory-limit", b"16777216"]
    assert "argument must be 0 or at least 4194304" in str(
        wire.call("CONFIG", "SET", "lua-memory-limit", "1mb")
    )
    sha = wire.call("SCRIPT", "LOAD", "return #string.rep('x', 3000000)").plain()
    assert wire.call("EVALSHA", sha, 0).plain() == 3_000_000
    assert str(wire.call("CONFIG", "SET", "lua-memory-limit", "4mb")) == "+OK"
    assert "not enough memory" in str(wire.call("EVALSHA", sha, 0))
    assert str(wire.call("CONFIG", "SET", "lua-memory-limit", "0")) == "+OK"
    assert wire.call("EVALSHA", sha, 0).plain() == 3_000_000
    assert str(wire.call("CONFIG", "SET", "lua-memory-limit", "16mb")) == "+OK"


def test_a_level_that_is_none_is_named_as_the_version_names_it(wire):
    for version, text in (("7.0", "Invalid debug level."), ("7.2", "Invalid log level.")):
        wire.call("CONFIG", "SET", "compat-version", version)
        assert text in str(wire.call("EVAL", "return redis.log(9, 'x')", 0))
    wire.call("CONFIG", "SET", "compat-version", "8.10")


def test_a_limit_too_low_for_lua_itself_refuses_the_start():
    with pytest.raises(RuntimeError, match="lua-memory-limit") as caught:
        start_server("rillet", "--lua-memory-limit", "1mb")
    assert "argument must be 0 or at least 4194304" in str(caught.value)


# The parser: CVE-2025-49844, CVE-2025-46819, CVE-2015-4335


@pytest.mark.parametrize("name", ["text", "'@' .. ('n'):rep(200) .. i", "'=a\\0b' .. i", "nil"])
def test_the_name_of_a_chunk_lives_as_long_as_it_is_parsed(host, name):
    code = f"""
        collectgarbage('setpause', 1) collectgarbage('setstepmul', 100000)
        for i = 1, 300 do
          local text = 'local a' .. i .. " = '" .. ('y'):rep(2000) .. i .. "\\0'" .. (i % 3 == 0 and ' x x' or '')
          local f, e = loadstring(text, {name}) collectgarbage()
          f, e = load(function() collectgarbage() local t = text text = nil return t end, {name.replace("text", "nil")})
        end return 1"""
    assert host.run(code) == b":1\r\n"


@pytest.fixture
def host():
    return Host()


def test_a_source_is_no_longer_than_what_the_counters_of_the_lexer_hold(host):
    code = "local n = 0 return {load(function() n = n + 1 return n == 1 and '[' or ('='):rep(2^20) end)}"
    assert host.run(code) == b"*0\r\n"
    assert host.run(code.replace("{load", "select(2, load").replace("end)}", "end))")) == (
        b"-ERR chunk is too long\r\n"
    )
    assert b"chunk is too long" in error_of(host, "assert(loadstring(('x'):rep(2^26 + 1)))")
    with pytest.raises(SyntaxError):
        host.lua.compile(b"-" * (2**26 + 1), b"@user_script")


@pytest.mark.parametrize(
    "name", "newproxy getfenv setfenv debug package require io python print dofile loadfile".split()
)
def test_no_global_of_lua_or_lupa_is_left(host, name):
    for scope in (host, Host(register=lambda *_: None)):
        with pytest.raises(FailedScriptError, match="nonexistent global"):
            scope.run(f"return {name}")


def test_a_script_that_was_compiled_before_the_state_was_lost_runs_again(wire):
    sha = wire.call("SCRIPT", "LOAD", "return 42").plain()
    wire.call("CONFIG", "SET", "lua-memory-limit", "32mb")
    wire.call("CONFIG", "SET", "lua-memory-limit", "16mb")
    assert wire.call("EVALSHA", sha, 0).plain() == 42
