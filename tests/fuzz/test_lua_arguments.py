"""Functions of Lua's libraries with extreme arguments: an answer or an error, never the end of the server."""

import sys
from collections.abc import Iterator, Sequence
from random import Random

import pytest
from fuzz.engine import Fuzzer
from fuzz.victim import Victim

fuzzer = Fuzzer("lua_arguments", by_line=True)

# A script that asks for more than this gets an error of the system; the machine is shared.
_ADDRESS_SPACE = 3 << 30

# Without load: it calls a function that never returns nil without end, as in Redis, until SCRIPT KILL ends it.
FUNCTIONS = (
    "string.byte string.char string.dump string.find string.format string.gmatch string.gsub string.len string.lower "
    "string.match string.rep string.reverse string.sub string.upper table.concat table.insert table.remove table.sort "
    "table.maxn table.getn table.foreach table.foreachi math.abs math.ceil math.floor math.fmod math.frexp math.ldexp "
    "math.log math.max math.min math.modf math.pow math.random math.randomseed math.sqrt cjson.encode cjson.decode "
    "cjson.encode_keep_buffer cjson.encode_max_depth cjson.decode_max_depth cjson.encode_sparse_array "
    "cjson.encode_number_precision cjson.encode_invalid_numbers cjson.decode_invalid_numbers cjson.new "
    "cjson.decode_array_with_array_mt cmsgpack.pack cmsgpack.unpack cmsgpack.unpack_one cmsgpack.unpack_limit "
    "struct.pack struct.unpack struct.size bit.tobit bit.tohex bit.bnot bit.band bit.bor bit.bxor bit.lshift "
    "bit.rshift bit.arshift bit.rol bit.ror bit.bswap redis.call redis.pcall redis.log redis.sha1hex "
    "redis.error_reply redis.status_reply redis.setresp redis.set_repl redis.replicate_commands redis.breakpoint "
    "redis.debug redis.acl_check_cmd redis.register_function os.clock assert collectgarbage error getmetatable ipairs "
    "loadstring next pairs pcall rawequal rawget rawset select setmetatable tonumber tostring type unpack xpcall "
    "newproxy gcinfo coroutine.create coroutine.resume coroutine.running coroutine.status coroutine.wrap "
    "coroutine.yield"
).split()
# Loops of C, in Redis as well, that are as long as a number says.
_LOOPS = {"string.rep", "table.insert", "table.remove", "table.concat", "table.foreachi", "cmsgpack.pack"}

_SMALL = "0 1 2 -1 3 10 0.5 -0.5 100000".split()
_NUMBERS = (
    _SMALL
    + (
        "255 256 65536 2147483647 2147483648 -2147483648 -2147483649 4294967295 4294967296 "
        "2^53 2^53+1 2^62 2^63 -2^63 2^64 1e300 -1e300 1e-320 1/0 -1/0 0/0"
    ).split()
)
_STRINGS = [
    *r"""
    '' 'x' 'abc' '\0' '%' '%1' '%b' '%f' '[' '[^' '(()' '.-' '(.*)(.*)%1' '%s%d%q%5.3f' '%99d' '%100d' '%.99f' '%c'
    '%p' '>I4' 'zz' 'i99' 'c0' 's' 'c99999999999' 'bBhHlLfd' '!8xi4' 'I2147483648' '[1,2,{"a":null}]' '{"a":[1e999]}'
    '[[[' '\\ud800' '\220\0\1' '\221\255\255\255\255' '\223\255\255\255\255' '\199\255' '\27Lua'
    ('a'):rep(100000) ('['):rep(5000) ('(a'):rep(40) ('{"a":'):rep(2000) ('a?'):rep(50)
    '1e1000' '0x' 'set' 'get' 'k' 'xadd' '*' 'eval' '('
    """.split(),
    *("'#!lua name=x'", "'return 1'", "'return ...'"),
]
_OTHERS = [
    *"nil true false {} {1,2,3} {a=1} {[1]=1,[2147483647]=2} {{{{{}}}}} {err='x'} {ok=1} S D M E F print".split(),
    *"redis.call string redis coroutine.create(F) getmetatable('') R R R".split(),
    *("function() end", "function(...) return ... end", "function() error({}) end", "function() error() end"),
]
# S holds itself, D is deep, M has every metamethod, E fails at everything, F gives much, R is the last result.
_HEAD = b"""
local S = {} S[1] = S S.s = S
local D = {} do local d = D for _ = 1, 500 do d[1] = {} d = d[1] end end
local M = setmetatable({}, {__index=function() return 1 end, __newindex=function() end, __call=function(...) return ... end,
  __tostring=function() return {} end, __len=function() return -1 end, __concat=function() return 1 end, __eq=function() return true end,
  __lt=function() return 1 end, __le=function() return 1 end, __unm=function() return 1 end, __metatable='no', __mode='kv'})
local E = setmetatable({}, {__index=function() error('x') end, __newindex=function() error(nil) end, __call=function() error({}) end,
  __tostring=function() error('x') end, __concat=function() error(setmetatable({}, {__tostring=function() error('y') end})) end})
local function F() return 1, 'x', {}, nil, true, 0/0 end
local R
local function use(f, ...)
  local t = {pcall(f, ...)}
  R = t[2]
  if type(R) == 'string' and #R > 1000000 then R = 'long' end
end
""".replace(b"\n", b" ").strip()


@pytest.fixture(scope="module")
def victim() -> Iterator[Victim]:
    with Victim("--busy-reply-threshold", 200, "--lua-memory-limit", "64mb") as victim:
        yield victim


def check(victim: Victim, script: bytes) -> None:
    """Run a script as EVAL and what it does as a function; whatever comes, the next script finds the server as it was."""
    with victim.ready() as wire:
        limit_memory(victim)
        wire.call("FLUSHALL")
        wire.call("SCRIPT", "FLUSH")
        wire.call("FUNCTION", "FLUSH")
        library = b"#!lua name=fuzz\nredis.register_function('fuzz', function(KEYS, ARGV) %b\nend)" % script
        runs = (
            (b"EVAL", script, b"1", b"k", b"v"),
            (b"FUNCTION", b"LOAD", library),
            (b"FCALL", b"fuzz", b"0"),
        )
        for reply in victim.session(runs):
            assert b"internal error" not in reply.encode(), reply
        victim.assert_well()
        assert wire.call("EVAL", "return {type(redis.call), #ARGV, 1 + 1}", 0).plain() == [b"function", 0, 2]


def limit_memory(victim: Victim) -> None:
    if sys.platform == "linux":
        import resource

        resource.prlimit(victim.server.pid, resource.RLIMIT_AS, (_ADDRESS_SPACE, _ADDRESS_SPACE))


def generate(chance: Random, corpus: Sequence[bytes]) -> bytes:
    """Write some calls, each on its line, the results of which are arguments of the next."""
    lines = [_HEAD]
    for _ in range(chance.randint(1, 12)):
        function = chance.choice(FUNCTIONS)
        numbers = _SMALL if function in _LOOPS else _NUMBERS
        words = [
            chance.choice(chance.choice((numbers, numbers, _STRINGS, _OTHERS)))
            for _ in range(chance.choice((0, 1, 2, 2, 3, 3, 4)))
        ]
        lines.append(f"use({', '.join([function, *words])})".encode())
    # As the value of the script, too: it becomes a reply.
    lines.append(chance.choice((b"return R", b"return R", b"return {R, {R}}", b"error(R)", b"return 1")))
    return b"\n".join(lines)


@fuzzer.seeds
def test_a_known_script_does_no_harm(victim, seed):
    fuzzer.check_once(lambda script: check(victim, script), seed)


def test_generated_calls_do_no_harm(victim):
    fuzzer.run(lambda script: check(victim, script), generate)
