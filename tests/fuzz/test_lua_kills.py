"""Scripts that never end, from wherever they run: each is killed, and others are told BUSY until then."""

import select
from collections.abc import Iterator, Sequence
from random import Random

import pytest
from fuzz.engine import Fuzzer
from fuzz.victim import Victim
from support.until import until
from support.wire import Wire, encode_command

fuzzer = Fuzzer("lua_kills")

# What never ends.
_ENDLESS = (
    "while true do end",
    "while true do local t = {} end",
    "repeat until false",
    "for i = 1, math.huge do end",
    "local function f() return f() end f()",
    "while true do pcall(error, 'x') end",
    "while true do pcall(function() error({}) end) end",
    "local function f() return 1 + f() end while true do pcall(f) end",
    "local function f() string.gsub('x', 'x', f) end while true do pcall(f) end",
    "while true do coroutine.wrap(function() for i = 1, 30000 do end end)() end",
    "local f f = function() return coroutine.wrap(f)() end while true do pcall(f) end",
    "while true do coroutine.resume(coroutine.create(function() for i = 1, 50000 do end error('x') end)) end",
    "local c = coroutine.wrap(function() while true do coroutine.yield() end end) while true do c() end",
    "while true do load(function() for i = 1, 30000 do end return nil end) end",
    "while true do loadstring('x = = 1') end",
    "while true do xpcall(error, error) end",
    "while true do ('x'):rep(10000) end",
    "while true do cjson.decode(cjson.encode({1, {2}})) end",
    "while true do cmsgpack.unpack(cmsgpack.pack({1, {2}})) end",
    "while true do struct.pack('i', 1) bit.band(1, 2) end",
    "while true do redis.pcall('get', 'k') redis.pcall('no such') end",
    "while true do pcall(redis.call, 'get') end",
)

# What runs `%s` somewhere else, `@` calls of C or `^` calls of Lua deep; only the last two do it in vain.
_AROUND = (
    "pcall(function() %s end)",
    "while true do pcall(function() %s end) end",
    "while true do pcall(pcall, function() %s end) end",
    "xpcall(function() %s end, function(e) return e end)",
    "xpcall(function() error('x') end, function() %s end)",
    "while true do xpcall(function() error({}) end, function() %s end) end",
    "xpcall(function() %s end, function() while true do end end)",
    "xpcall(function() %s end, function(e) error(e) end)",
    "xpcall(function() error('x') end, function(e) pcall(function() %s end) error(e) end)",
    "local x = setmetatable({}, {__index = function() %s end}).x",
    "setmetatable({}, {__newindex = function() %s end}).x = 1",
    "setmetatable({}, {__call = function() %s end})()",
    "local m = {__concat = function() %s end} local x = setmetatable({}, m) .. 'x'",
    "local m = {__eq = function() %s end} local x = setmetatable({}, m) == setmetatable({}, m)",
    "local m = {__lt = function() %s end} local x = setmetatable({}, m) < setmetatable({}, m)",
    "local m = {__le = function() %s end} local x = setmetatable({}, m) <= setmetatable({}, m)",
    "local m = {__unm = function() %s end, __add = function() end} local x = -setmetatable({}, m)",
    "tostring(setmetatable({}, {__tostring = function() %s end}))",
    "error(setmetatable({}, {__newindex = function() %s end}))",
    "error(setmetatable({}, {__index = function() %s end}))",
    "pcall(error, setmetatable({}, {__index = function() %s end}))",
    "string.gsub('xx', 'x', function() %s end)",
    "string.gsub('xx', 'x', setmetatable({}, {__index = function() %s end}))",
    "table.sort({3, 2, 1, 5, 4}, function() %s end)",
    "table.foreach({1, 2}, function() %s end)",
    "table.foreachi({1, 2}, function() %s end)",
    "coroutine.wrap(function() %s end)()",
    "coroutine.resume(coroutine.create(function() %s end))",
    "while true do coroutine.resume(coroutine.create(function() coroutine.yield() %s end)) end",
    "load(function() %s end)",
    "load(coroutine.wrap(function() %s end))",
    "for _ in function() %s end do end",
    "cjson.encode(setmetatable({1}, {__index = function() %s end})) %s",
    "local function d(n) if n == 0 then %s return end string.gsub('x', 'x', function() d(n - 1) end) end d(@)",
    "local function d(n) if n == 0 then %s return end pcall(d, n - 1) end d(@)",
    "local d d = function(n) if n == 0 then %s return end coroutine.wrap(d)(n - 1) end d(@)",
    "local function d(n) if n == 0 then %s return 1 end return 1 + d(n - 1) end d(^)",
    "local t = {} pcall(function() while true do t[#t + 1] = ('x'):rep(10000) .. #t end end) %s",
    "local t = {} pcall(function() while true do t = {t} end end) pcall(function() %s end)",
    "if false then %s end",
    "coroutine.create(function() %s end)",
)


@pytest.fixture(scope="module")
def victim() -> Iterator[Victim]:
    with Victim("--busy-reply-threshold", 20, "--lua-memory-limit", "16mb") as victim:
        yield victim


def check(victim: Victim, script: bytes) -> None:
    """Run a script as EVAL and as a function, and kill it."""
    library = b"#!lua name=endless\nredis.register_function('endless', function() %b\nend)" % script
    with victim.ready() as wire:
        loaded = wire.call("FUNCTION", "LOAD", "REPLACE", library)
        if loaded.plain() != b"endless":
            raise ValueError(f"no script: {loaded}")
    kill(victim, (b"EVAL", script, b"0"), "SCRIPT")
    kill(victim, (b"FCALL", b"endless", b"0"), "FUNCTION")
    victim.assert_well()


def kill(victim: Victim, command: Sequence[bytes], kind: str) -> None:
    with victim.wire() as wire, victim.wire() as other:
        wire.send_raw(encode_command(*command))
        until(lambda: str(other.call("PING")).startswith("-BUSY") or has_reply(wire))
        killed = str(other.call(kind, "KILL"))
        # Not the killer's own word for it, but the reply of the script. It may end by itself: where memory is out, nothing
        # may be left for the pcall around it, which also reads the field `err` of an error outside of itself, as in Redis.
        reply = str(wire.read())
        by_itself = "not enough memory" in reply or "stack overflow" in reply
        assert killed == "+OK" or (killed.startswith("-NOTBUSY") and by_itself), reply
        assert f"Script killed by user with {kind} KILL" in reply or by_itself
        assert str(other.call("PING")) == "+PONG"


def has_reply(wire: Wire) -> bool:
    return bool(select.select([wire._socket], [], [], 0)[0])


def generate(chance: Random, corpus: Sequence[bytes]) -> bytes:
    """Nest what runs a block around one that never ends. What ends it all the same begins again."""
    del corpus
    code = chance.choice(_ENDLESS)
    for _ in range(chance.choice((0, 1, 1, 2, 2, 3, 4, 6))):
        code = chance.choice(_AROUND).replace("%s", code)
    while "@" in code:  # these end at 200
        depth = chance.choice((3, 20, 100, chance.randint(150, 199), chance.randint(185, 199)))
        code = code.replace("@", str(depth), 1)
    while "^" in code:  # and these at 20,000
        code = code.replace("^", str(chance.choice((10, 1000, 19_000, 19_990))), 1)
    return f"while true do pcall(function() {code} end) end".encode()


@fuzzer.seeds
def test_a_script_that_once_ran_on_is_killed(victim: Victim, seed: bytes) -> None:
    check(victim, seed)


def test_every_endless_script_is_killed(victim: Victim) -> None:
    fuzzer.run(lambda script: check(victim, script), generate)
