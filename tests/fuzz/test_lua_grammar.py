"""Scripts from a grammar that writes to everything it can name and passes odd values; the next script meets no trace."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.servers import start_server

EXAMPLES = int(os.environ.get("RILLET_LUA_EXAMPLES", "150"))

VALUES = st.sampled_from(
    """nil true false 0 -1 1 2^31 -2^31 2^53 2^63 1e308 1/0 -1/0 0/0 '' 'x' '%' '[' 'a\\0b' ('x'):rep(1000) {} {1,2,3}
    {err='e'} {ok='o'} redis _G string table math bit cjson struct cmsgpack coroutine cjson.null KEYS ARGV poison
    getmetatable('') getmetatable(_G) print2 function()end odd co error pcall tostring redis.call""".split()
).map(lambda text: {"function()end": "function() end", "print2": "rawget(_G, 'print')"}.get(text, text))
LIBRARIES = {
    "string": "byte char dump find format gfind gmatch gsub len lower match rep reverse sub upper",
    "table": "concat foreach foreachi getn insert maxn remove setn sort",
    "math": "abs acos ceil floor fmod frexp ldexp log max min modf pow random randomseed sqrt",
    "bit": "arshift band bnot bor bswap bxor lshift rol ror rshift tobit tohex",
    "cjson": "encode decode encode_max_depth decode_max_depth encode_number_precision encode_sparse_array new "
    "decode_array_with_array_mt encode_invalid_numbers",
    "struct": "pack unpack size",
    "cmsgpack": "pack unpack unpack_one unpack_limit",
    "coroutine": "create wrap resume status running",
    "redis": "call pcall sha1hex log setresp set_repl acl_check_cmd status_reply error_reply breakpoint debug",
}
FUNCTIONS = st.sampled_from(
    [f"{library}.{name}" for library, names in LIBRARIES.items() for name in names.split()]
    + "assert error getmetatable ipairs load loadstring next pairs pcall rawequal rawget rawset select setmetatable "
    "tonumber tostring type unpack xpcall gcinfo __redis__err__handler".split()
)
CALLS = st.builds(lambda f, words: f"{f}({', '.join(words)})", FUNCTIONS, st.lists(VALUES, max_size=4))
EXPRESSIONS = st.one_of(VALUES, CALLS)
STATEMENTS = st.one_of(
    st.builds(lambda e: f"last = {{pcall(function() return {e} end)}}", EXPRESSIONS),
    st.builds(lambda e: f"a, b, c = select(2, pcall(function() return {e} end))", CALLS),
    st.builds(
        lambda t, k, v: f"pcall(function() local t = {t} t[{k}] = {v} end)", EXPRESSIONS, VALUES, VALUES
    ),
    st.builds(lambda t, k: f"pcall(rawset, {t}, {k}, poison)", EXPRESSIONS, VALUES),
    st.builds(lambda t, m: f"pcall(setmetatable, {t}, {m})", EXPRESSIONS, EXPRESSIONS),
    st.sampled_from(
        [
            "pcall(function() b.poison = poison end)",
            "pcall(function() getmetatable(a).__index = poison end)",
            "pcall(function() for k in pairs(b) do b[k] = poison end end)",
            "pcall(function() last[2].call = poison end)",
            "if type(a) == 'userdata' and a ~= cjson.null then BREACH = a.__class__ error('BREACH') end",
        ]
    ),
)
HEAD = (
    "local function poison() return 'POISON' end local odd = setmetatable({}, {__tostring = function() return 5 end, "
    "__index = poison, __newindex = poison, __call = poison, __lt = poison, __le = poison, __eq = poison, "
    "__concat = poison}) local co = coroutine.create(poison) local a, b, c local last = {} "
)
PRINT = """
local names = {}
local function list(t, path, depth)
  for k, v in pairs(t) do
    if k ~= '_G' and k ~= 'KEYS' and k ~= 'ARGV' then
      names[#names + 1] = path .. tostring(k) .. (type(v) == 'function' and tostring(v) or type(v))
      if type(v) == 'table' and depth < 3 then list(v, path .. tostring(k) .. '.', depth + 1) end
    end
  end
end
list(_G, '', 0) list(getmetatable(''), 'strings.', 0) list(getmetatable(_G), 'globals.', 0)
table.sort(names) return table.concat(names, ' ')
"""


@pytest.fixture(scope="module")
def server():
    with start_server("rillet", "--lua-memory-limit", "32mb") as process:
        yield process
        assert "Traceback" not in process.log


@pytest.fixture(scope="module")
def print_before(server):
    with server.wire() as wire:
        return wire.call("EVAL", PRINT, 0).plain()


@settings(max_examples=EXAMPLES)
@given(st.lists(STATEMENTS, min_size=1, max_size=12))
def test_no_script_breaks_out_or_leaves_a_trace(server, print_before, statements):
    with server.wire() as wire:
        reply = str(wire.call("EVAL", HEAD + "\n".join(statements) + "\nreturn 1", 1, "k", "v"))
        assert "BREACH" not in reply
        assert "internal error" not in reply
        assert "rillet:" not in reply
        assert wire.call("EVAL", PRINT, 0).plain() == print_before


@settings(max_examples=EXAMPLES)
@given(CALLS)
def test_every_function_survives_every_argument(server, call):
    with server.wire() as wire:
        reply = str(wire.call("EVAL", f"{HEAD} return {call}", 0))
        assert "internal error" not in reply
        assert "rillet:" not in reply
        assert wire.call("PING").plain() == b"PONG"
