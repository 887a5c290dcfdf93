"""What a script can not do: see the host, change what other scripts meet, outlive its end."""

import pytest
from support.live import LiveServer, eventually
from support.lua_host import Host, error_of

from rillet.commands.scripting.lua.interpreter import Interpreter

# What every script can name, and what it can make.
WALK = r"""
local seen, found = {}, {}
local function look(value, path)
  local kind = type(value)
  if kind ~= 'table' and kind ~= 'userdata' and kind ~= 'function' and kind ~= 'thread' then return end
  if seen[value] then return end
  seen[value] = path
  found[#found + 1] = {value, path}
  local meta = getmetatable(value)
  if meta ~= nil then look(meta, path .. '<meta>') end
  if kind ~= 'table' then return end
  local f, state, key = pairs(value)
  look(f, path .. '<iterator>') look(state, path .. '<state>')
  f, state, key = ipairs(value)
  look(f, path .. '<ipairs>') look(state, path .. '<istate>')
  for k, v in pairs(value) do look(k, path .. '<key>') look(v, path .. '.' .. tostring(k)) end
  for k, v in next, value do look(k, path .. '<nkey>') look(v, path .. '.n' .. tostring(k)) end
  table.foreach(value, function(k, v) look(k, path) look(v, path .. '.f' .. tostring(k)) end)
end
look(_G, '_G')
look(getmetatable(''), 'string<meta>')
look(('').format, 'format')
cjson.decode_array_with_array_mt(true)
local array = cjson.decode('[]')
look(getmetatable(array), 'array<meta>')
cjson.decode_array_with_array_mt(false)
local _, e = pcall(error, {})
local _, e1 = pcall(redis.call)
look(e1, 'error') look(redis.pcall('fail'), 'pcall')
xpcall(redis.call, function(x) look(x, 'handled') end)
local co = coroutine.create(function() redis.call('fail') end)
look(select(2, coroutine.resume(co)), 'resumed') look(co, 'thread')
look(cjson.null, 'null') look(redis.status_reply('x'), 'status')
"""

WRITES = r"""
local function poison() return 'POISON' end
local function try(f, ...) pcall(f, ...) end
for _, pair in ipairs(found) do
  local value = pair[1]
  if type(value) == 'table' and value ~= KEYS and value ~= ARGV and value ~= e1 and value ~= found then
    for _, key in ipairs({'poison', 1, 2, 'call', '__index', '__newindex', '__metatable', '__gc', '__call'}) do
      try(function() value[key] = poison end)
      try(rawset, value, key, poison)
    end
    for _, name in ipairs({'insert', 'remove', 'sort', 'setn', 'foreachi', 'concat'}) do
      try(table[name], value, poison) try(table[name], value, 1, poison) try(table[name], value)
    end
    try(setmetatable, value, {__index = poison, __call = poison})
    try(setmetatable, value, nil)
    for k in pairs(value) do
      try(function() value[k] = nil end)
      try(function() value[k] = poison end)
      try(rawset, value, k, poison)
    end
  end
  try(function() value.poison = poison end)
  try(function() getmetatable(value).__index = poison end)
  local setfenv = rawget(_G, 'setfenv')
  if type(value) == 'function' and setfenv then try(setfenv, value, {}) end
end
"""

FINGERPRINT = r"""
local names = {}
local function list(value, path, depth)
  if type(value) ~= 'table' or depth > 3 then return end
  local meta = getmetatable(value)
  if meta then names[#names + 1] = path .. ' has a metatable' end
  for k, v in pairs(value) do
    if k ~= '_G' and k ~= 'KEYS' and k ~= 'ARGV' then
      local kind = type(v)
      names[#names + 1] = path .. '.' .. tostring(k) .. '=' .. kind .. (kind == 'function' and tostring(v) or '')
      list(v, path .. '.' .. tostring(k), depth + 1)
    end
  end
end
list(_G, '_G', 0) list(getmetatable(''), 'strings', 0) list(getmetatable(_G), 'globals', 0)
cjson.decode_array_with_array_mt(true)
list(getmetatable(cjson.decode('[]')), 'arrays', 0)
cjson.decode_array_with_array_mt(false)
names[#names + 1] = tostring(('x').poison) .. tostring(rawget(_G, 'poison')) .. tostring(getmetatable(cjson.null))
table.sort(names)
return table.concat(names, '\n')
"""


@pytest.fixture
def host():
    return Host()


def test_nothing_that_a_script_reaches_can_be_written_to(host):
    before = host.run(FINGERPRINT)
    reached = host.run(WALK + "return #found")
    assert int(reached[1:-2]) > 100
    host.run(WALK + WRITES)
    host.run(WALK + WRITES)
    assert host.run(FINGERPRINT) == before


def test_no_userdata_but_the_null_of_cjson_is_reached(host):
    code = "local n = 0 for _, p in ipairs(found) do if type(p[1]) == 'userdata' and p[1] ~= cjson.null then "
    assert host.run(WALK + code + "return p[2] end end return 'none'") == b"$4\r\nnone\r\n"


@pytest.mark.parametrize(
    "catch",
    [
        "local ok, e = xpcall(redis.call, function(x) return x end)",
        "local ok, e = pcall(redis.call)",
        "local e = redis.pcall('fail')",
        "local c2 = coroutine.create(function() redis.call() end) local ok, e = coroutine.resume(c2)",
        "local c2 = coroutine.wrap(function() redis.call() end) local ok, e = pcall(c2)",
        "local ok, e = pcall(string.gsub, 'x', 'x', redis.call)",
        "local ok, e = pcall(table.sort, {1, 2, 3}, function() redis.call('fail') end)",
        "local ok, e = pcall(function() return setmetatable({}, {__index = function() redis.call() end}).x end)",
        "local ok, e = load(redis.call)",
        "local ok, e = pcall(redis.boom)",
        "local ok, e = xpcall(redis.boom, function(x) return x end)",
    ],
)
@pytest.mark.parametrize(
    "ended_first",
    [
        "",
        "local co = coroutine.create(function() redis.call('end') while true do end end) coroutine.resume(co) ",
    ],
)
def test_no_error_is_an_object_of_the_host(host, catch, ended_first):
    code = f"{ended_first}{catch} if type(e) == 'userdata' then return 'BROKEN' end return 'fine'"
    if ended_first:
        assert error_of(host, code) == b"ERR ended"  # nothing runs on after the end
    elif "boom" in catch:
        with pytest.raises(RuntimeError):
            host.run(code)
    else:
        assert host.run(code) == b"$4\r\nfine\r\n"


def test_an_exception_of_the_server_ends_the_script_whatever_it_catches(host):
    with pytest.raises(RuntimeError, match="secret"):
        host.run("while true do pcall(redis.boom) xpcall(redis.boom, function() end) end")
    assert host.run("return 1") == b":1\r\n"


def test_an_exception_in_the_look_ends_the_script(host):
    def look():
        raise KeyboardInterrupt

    host.lua._interrupt = look
    with pytest.raises(KeyboardInterrupt):
        host.run("while true do pcall(function() while true do end end) end")


@pytest.mark.parametrize(
    "code",
    [
        "while true do end",
        "while true do pcall(LOOP) end",
        "local f f = function() pcall(f) while true do end end while true do f() end",
        "local co = coroutine.wrap(function() while true do pcall(LOOP) end end) co()",
        "while true do xpcall(LOOP, LOOP) end",
        "while true do table.sort({3, 1, 2}, function(a, b) return a < b end) end",
        "while true do pcall(error) coroutine.wrap(LOOP)() end",
        "local co = coroutine.create(LOOP) coroutine.resume(co) n = redis.call('after')",
        "pcall(coroutine.wrap(LOOP)) redis.call('after')",
        "coroutine.resume(coroutine.create(function() coroutine.resume(coroutine.create(LOOP)) A() end)) A()",
        "pcall(pcall, LOOP) redis.call('after')",
        "xpcall(LOOP, function() redis.call('after') end) redis.call('after')",
        "pcall(table.sort, {3, 2, 1}, LOOP) redis.call('after')",
        "pcall(string.gsub, 'x', 'x', LOOP) redis.call('after')",
        "pcall(function() return tostring(setmetatable({}, {__tostring = LOOP})) end) redis.call('after')",
        "pcall(function() return setmetatable({}, {__index = LOOP}).x end) redis.call('after')",
        "local m = {__lt = LOOP} pcall(table.sort, {setmetatable({}, m), setmetatable({}, m)}) redis.call('after')",
        "load(LOOP) redis.call('after')",
        "xpcall(error, LOOP) redis.call('after')",
        "local made = coroutine.create(LOOP) pcall(coroutine.wrap(function() coroutine.resume(made) A() end)) A()",
        "error(setmetatable({}, {__index = LOOP}))",
        "error(setmetatable({}, {__newindex = LOOP}))",
    ],
)
def test_nothing_of_a_script_runs_after_its_end(code):
    host = Host()
    called = []
    host.lua = Interpreter(
        {b"call": called.append}, {}, lambda: b"ERR ended" if host.end_with else None, lambda: 2
    )
    host.end_with = True
    assert (
        error_of(
            host, "local function A() redis.call('x') end local function LOOP() while true do end end " + code
        )
        == b"ERR ended"
    )
    assert called == []
    assert host.run("local n = 0 for i = 1, 300000 do n = n + 1 end return n") == b":300000\r\n"


@pytest.mark.parametrize("code", ["local _, r = pairs(redis) r.call = 1", "local _, g = pairs(_G) g.x = 1",
                                  "local _, m = pairs(getmetatable('')) m.__index = nil"])  # fmt: skip
def test_what_pairs_returns_is_as_read_only_as_what_it_was_given(host, code):
    assert b"Attempt to modify a readonly table" in error_of(host, code)
    assert host.run("local n = 0 for _ in pairs(redis) do n = n + 1 end return n > 5 and 1") == b":1\r\n"


def test_arrays_of_cjson_share_no_metatable_that_can_be_changed(host):
    host.run("cjson.decode_array_with_array_mt(true)")
    assert b"Attempt to modify a readonly table" in error_of(
        host, "getmetatable(cjson.decode('[]')).__index = function() return 'POISON' end"
    )
    assert host.run("return tostring(cjson.decode('[]').x)") == b"$3\r\nnil\r\n"
    # Redis lets a script give its own array another one.
    assert (
        host.run("return setmetatable(cjson.decode('[]'), {__index = {x = 'mine'}}).x") == b"$4\r\nmine\r\n"
    )
    assert (
        host.run("return cjson.encode(setmetatable({}, getmetatable(cjson.decode('[]'))))") == b"$2\r\n[]\r\n"
    )


@pytest.fixture(scope="module")
def server():
    with LiveServer(busy_reply_threshold=20) as server:
        yield server


def test_a_killed_script_gets_no_object_of_python(server):
    """Way A of the attack that ran commands of the operating system."""
    code = """
        local co = coroutine.create(function() while true do end end)
        coroutine.resume(co)
        local ok, e = xpcall(redis.call, function(x) return x end)
        redis.call('set', 'seen', type(e))
        local subs = e.__class__.__base__.__base__.__base__.__subclasses__()
        redis.call('set', 'broken', 1)
    """
    with server.wire() as runner, server.wire() as other:
        for wire in (runner, other):
            assert wire.call("PING").plain() == b"PONG"
        runner.send("EVAL", code, 0)
        eventually(lambda: str(other.call("SCRIPT", "KILL")) == "+OK")
        assert str(runner.read()).startswith("-ERR Script killed by user")
        assert other.call("EXISTS", "seen", "broken").plain() == 0


def test_a_library_that_is_too_slow_gets_no_object_of_python(server):
    """Way B: the limit of FUNCTION LOAD ends its code, too."""
    with server.wire() as wire:
        stash = "local _, m = pairs(getmetatable('').__index) m.xp, m.cc, m.cr = xpcall, coroutine.create, coroutine.resume"
        first = f"#!lua name=a\nredis.register_function('stash', function() {stash} end)"
        assert wire.call("FUNCTION", "LOAD", first).plain() == b"a"
        assert "readonly" in str(wire.call("FCALL", "stash", 0))
        second = """#!lua name=b
            local s = ("")
            local co = s.cc(function() while true do end end) s.cr(co)
            local ok, e = s.xp(redis.log, function(x) return x end)
            redis.register_function(tostring(e), function() end)
        """
        assert "Error registering functions" in str(wire.call("FUNCTION", "LOAD", second))
        assert "FUNCTION LOAD timeout" in str(
            wire.call("FUNCTION", "LOAD", "#!lua name=c\nwhile true do end")
        )


def test_what_one_user_does_to_redis_is_not_met_by_another(server):
    with server.wire() as admin, server.wire() as bob:
        admin.call("SET", "secret", "TOPSECRET")
        admin.call("ACL", "SETUSER", "bob", "on", ">p", "-@all", "+eval", "~bob*", "resetchannels")
        bob.call("AUTH", "bob", "p")
        steal = (
            "local _,r=pairs(redis) local o=r.call r.call=function(...) r.loot=o('get','secret') "
            "pcall(o,'set','admin_wrote','1') return o(...) end return 'ok'"
        )
        assert "readonly" in str(bob.call("EVAL", steal, 0))
        assert admin.call("EVAL", "return redis.call('ping')", 0).plain() == b"PONG"
        assert admin.call("EXISTS", "admin_wrote").plain() == 0
        assert bob.call("EVAL", "return redis.loot", 0).plain() is None
