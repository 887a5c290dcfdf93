-- What a script sees of Lua, and how it is run. Gets the server's functions, the chunks of the libraries beside Lua's
-- own and the encoder of replies; gives back the functions that the interpreter drives it with.
local host, chunks, encode_reply = ...

local error, type, tostring, select, unpack = error, type, tostring, select, unpack
local getinfo, sethook, getmetatable, setmetatable = debug.getinfo, debug.sethook, getmetatable, setmetatable
local pcall, xpcall, next, pairs, rawget, rawset = pcall, xpcall, next, pairs, rawget, rawset
local loadstring, load, setfenv, byte, format = loadstring, load, setfenv, string.byte, string.format
local create, wrap, resume = coroutine.create, coroutine.wrap, coroutine.resume
local as_function = python.as_function

local OURS = '=rillet'
local INSTRUCTIONS_PER_LOOK = 100000
local READONLY = 'Attempt to modify a readonly table'

-- Errors

local running -- the function of the script

-- The level of the first caller that is neither ours nor written in C; nil for a function that pcall itself called.
local function users_level()
  local level, direct = 3, true
  while true do
    local info = getinfo(level, 'Sf')
    if not info then return nil end
    if info.what == 'tail' then direct = false
    elseif info.what == 'C' then
      if direct and (info.func == pcall or info.func == xpcall) then return nil end
    elseif info.source ~= OURS then return level - 1
    end
    level = level + 1
  end
end

-- Where a script stood that is no longer on the stack: `return f()` leaves no trace of its own place. It was, most
-- likely, the last line of the script.
local function last_place()
  local info, last = getinfo(running, 'SL'), 0
  for line in pairs(info.activelines) do
    -- The end of a function is a line too.
    if line > last and (line ~= info.lastlinedefined or line == info.linedefined) then last = line end
  end
  return info, last
end

-- Is a script running whose own function has left the stack?
local function is_lost()
  local level = 3
  while true do
    local info = getinfo(level, 'f')
    if not info then return running ~= nil end
    if info.func == running then return false end
    level = level + 1
  end
end

-- Raises an error as a library written in C would: with the place in the script that called it.
local function fail(message)
  local level = users_level()
  if level or not is_lost() then error(message, level or 0) end
  local info, line = last_place()
  error(format('%s:%d: %s', info.short_src, line, message), 0)
end

local function bad_argument(number, name, reason)
  fail(format("bad argument #%d to '%s' (%s)", number, name, reason))
end

local function expect_table(value, name)
  if type(value) ~= 'table' then bad_argument(1, name, 'table expected, got ' .. (value == nil and 'nil' or type(value))) end
end

-- What the server raises arrives as an object of Python: scripts are shown a table.
local function as_table(e)
  if type(e) == 'userdata' then
    local message, ignore = host.describe(e)
    if message then return {err = message, ignore_error_stats_update = ignore or nil} end
  end
  return e
end

local function on_error(e)
  e = as_table(e)
  if type(e) ~= 'table' then e = {err = 'ERR ' .. tostring(e)} end
  local level = users_level()
  if level then
    local info = getinfo(level, 'Sl')
    e.source, e.line = info.source, info.currentline
  elseif is_lost() then
    local info, line = last_place()
    e.source, e.line = info.source, line
  end
  return e
end

-- Looking up now and then: the server may have to serve others, or want the script to end

local ending = false -- the script is to end

local function hook()
  local message = host.interrupt()
  if message then
    ending = true
    -- At every line from here on, so that no pcall keeps the script alive.
    sethook(hook, 'l')
    error({err = message}, 0)
  end
end

-- Tables that scripts can only read: what they hold of one is an empty table in front of it

local behind = {}

local function refuse() fail(READONLY) end

local function protect(original)
  local front = setmetatable({}, {__index = original, __newindex = refuse})
  behind[front] = original
  return front
end

-- The functions of Lua that would see through this, or around the hook, or that Redis has changed

local base = {}

function base.pairs(t)
  expect_table(t, 'pairs')
  return next, behind[t] or t, nil
end

function base.next(t, k)
  expect_table(t, 'next')
  return next(behind[t] or t, k)
end

function base.rawget(t, k)
  expect_table(t, 'rawget')
  return rawget(behind[t] or t, k)
end

function base.rawset(t, k, v)
  expect_table(t, 'rawset')
  if behind[t] then error(READONLY, 0) end
  return rawset(t, k, v)
end

function base.setmetatable(t, meta)
  expect_table(t, 'setmetatable')
  if behind[t] then error(READONLY, 0) end
  if meta ~= nil and type(meta) ~= 'table' then bad_argument(2, 'setmetatable', 'nil or table expected') end
  return setmetatable(t, meta)
end

local string_meta = getmetatable('')
local guarded_meta = {}

function base.getmetatable(value)
  if behind[value] then return guarded_meta[value] end
  if type(value) == 'userdata' then return nil end
  return getmetatable(value)
end

local function settle(ok, ...)
  if ok then return true, ... end
  local e = as_table((...))
  -- An error reply is caught as its text.
  if type(e) == 'table' and type(e.err) == 'string' then e = e.err end
  return false, e
end

function base.pcall(f, ...)
  return settle(pcall(f, ...))
end

function base.xpcall(f, handler)
  return xpcall(f, function(e)
    -- The handler of an error that a hook raised is watched by no hook.
    return ending and e or handler(as_table(e))
  end)
end

-- Bytecode can do anything to the interpreter: behind a space it is but a source text with an error.
local function as_source(text)
  return byte(text) == 27 and ' ' .. text or text
end

local function with_globals(f, message)
  if f then setfenv(f, base._G) end
  return f, as_table(message)
end

function base.loadstring(text, name)
  if type(text) ~= 'string' and type(text) ~= 'number' then
    bad_argument(1, 'loadstring', 'string expected, got ' .. (text == nil and 'no value' or type(text)))
  end
  text = tostring(text)
  return with_globals(loadstring(as_source(text), name or text))
end

function base.load(reader, name)
  if type(reader) ~= 'function' then bad_argument(1, 'load', 'function expected, got ' .. type(reader)) end
  local first = true
  return with_globals(load(function()
    local piece = reader()
    if first and type(piece) == 'string' and #piece > 0 then
      first = false
      return as_source(piece)
    end
    return piece
  end, name))
end

-- A coroutine has a hook of its own.
local function watched(f)
  return function(...)
    sethook(hook, '', INSTRUCTIONS_PER_LOOK)
    return f(...)
  end
end

local function resumed(ok, ...)
  if ok then return true, ... end
  return false, as_table((...))
end

local function expect_function(f, name)
  if type(f) ~= 'function' then bad_argument(1, name, 'Lua function expected') end
end

-- Libraries

local libraries = {}
for name, chunk in pairs(chunks) do libraries[name] = chunk(fail, bad_argument, host) end

libraries.coroutine = {
  create = function(f)
    expect_function(f, 'create')
    return create(watched(f))
  end,
  wrap = function(f)
    expect_function(f, 'wrap')
    return wrap(watched(f))
  end,
  resume = function(thread, ...)
    if type(thread) ~= 'thread' then bad_argument(1, 'resume', 'coroutine expected') end
    return resumed(resume(thread, ...))
  end,
  running = coroutine.running, status = coroutine.status, yield = coroutine.yield,
}

-- The generator of drand48(3): the same numbers after each start of the server, as in Redis.
local function random(...)
  local r, n = host.random(), select('#', ...)
  if n == 0 then return r end
  local low, high = ...
  if n == 1 then low, high = 1, low end
  if type(low) ~= 'number' then low = tonumber(low) end
  if type(high) ~= 'number' then high = tonumber(high) end
  if n > 2 then fail('wrong number of arguments') end
  if not low or not high then bad_argument(low and n or 1, 'random', 'number expected, got ' .. type((select(low and n or 1, ...)))) end
  if low > high then bad_argument(n, 'random', 'interval is empty') end
  return math.floor(r * (high - low + 1)) + low
end

-- The globals

local function picked(source, names)
  local found = {}
  for name in names:gmatch('%S+') do found[name] = source[name] end
  return found
end

libraries.math = picked(math, [[abs acos asin atan atan2 ceil cos cosh deg exp floor fmod frexp huge ldexp log log10
  max min mod modf pi pow rad sin sinh sqrt tan tanh]])
libraries.math.random = random
libraries.math.randomseed = function(seed)
  seed = tonumber(seed)
  if not seed then bad_argument(1, 'randomseed', 'number expected, got no value') end
  host.seed(seed)
end
libraries.string = string
libraries.os = {clock = os.clock}

libraries.table = picked(table, 'concat foreach foreachi getn insert maxn remove setn sort')

local insert = table.insert

function libraries.table.insert(...)
  local t, position, value = ...
  local count = select('#', ...)
  expect_table(t, 'insert')
  if behind[t] then error(READONLY, 0) end
  if count == 2 then insert(t, position) return end
  if count ~= 3 then fail("wrong number of arguments to 'insert'") end
  if not tonumber(position) then bad_argument(2, 'insert', 'number expected, got ' .. type(position)) end
  insert(t, position, value)
end

function libraries.table.foreach(t, f)
  expect_table(t, 'foreach')
  return table.foreach(behind[t] or t, f)
end

local redis = {}
for name, value in pairs(host.constants) do redis[name] = value end
for name, f in pairs(host.redis) do redis[name] = as_function(f) end
libraries.redis = redis

function redis.status_reply(...)
  if select('#', ...) ~= 1 or type((...)) ~= 'string' then return {err = 'ERR wrong number or type of arguments'} end
  return {ok = (...)}
end

function redis.error_reply(...)
  if select('#', ...) ~= 1 or type((...)) ~= 'string' then return {err = 'ERR wrong number or type of arguments'} end
  local text = (...)
  if byte(text) == 45 then text = text:sub(2) end
  if not text:find(' ', 1, true) then text = 'ERR ' .. text end
  return {err = text}
end

if not host.register then
  redis.breakpoint = function() return false end
  redis.debug = function() end
end

local globals = picked(_G, [[assert collectgarbage error gcinfo ipairs rawequal select tonumber tostring type unpack
  _VERSION]])
for name, f in pairs(base) do globals[name] = f end
for name, library in pairs(libraries) do globals[name] = protect(library) end
if not host.register then globals.__redis__err__handler = on_error end
local function nonexistent(_, name)
  fail(format("Script attempted to access nonexistent global variable '%s'", tostring(name)))
end
setmetatable(globals, {__index = nonexistent})
base._G = protect(globals)
globals._G = base._G
guarded_meta[base._G] = protect(getmetatable(globals))
string_meta.__index = globals.string
string_meta.__metatable = protect(string_meta)
-- lupa asks for a traceback of every error as long as there is this.
debug = nil

-- While the code of a library runs it sees little more than redis.register_function

local function reject(message) error({err = 'ERR ' .. message}, 0) end

local function register_function(...)
  local count = select('#', ...)
  if count == 0 or count > 2 then reject('wrong number of arguments to redis.register_function') end
  local name, callback, description, flags = ...
  if count == 1 then
    local named = name
    if type(named) ~= 'table' then
      reject('calling redis.register_function with a single argument is only applicable to Lua table '
        .. '(representing named arguments).')
    end
    name, callback = nil, nil
    for key, value in next, named do
      local kind = type(value)
      if key == 'function_name' or key == 'description' then
        if kind ~= 'string' and kind ~= 'number' then
          reject(key .. ' argument given to redis.register_function must be a string')
        end
        if key == 'description' then description = tostring(value) else name = value end
      elseif key == 'callback' then
        if kind ~= 'function' then reject('callback argument given to redis.register_function must be a function') end
        callback = value
      elseif key == 'flags' then
        if kind ~= 'table' then
          reject('flags argument to redis.register_function must be a table representing function flags')
        end
        flags = value
      else
        reject('unknown argument given to redis.register_function')
      end
    end
    if name == nil then reject('redis.register_function must get a function name argument') end
    if callback == nil then reject('redis.register_function must get a callback argument') end
  elseif type(name) ~= 'string' and type(name) ~= 'number' then
    reject('first argument to redis.register_function must be a string')
  elseif type(callback) ~= 'function' then
    reject('second argument to redis.register_function must be a function')
  end
  local words = {}
  for i = 1, flags and #flags or 0 do words[i] = tostring(flags[i]) end
  host.register(tostring(name), callback, description, unpack(words))
end

local while_loading
if host.register then
  local api = picked(redis, 'log LOG_DEBUG LOG_VERBOSE LOG_NOTICE LOG_WARNING REDIS_VERSION REDIS_VERSION_NUM')
  api.register_function = register_function
  setmetatable(api, {__index = nonexistent})
  while_loading = setmetatable({redis = protect(api)}, {__index = nonexistent})
end

-- What the interpreter drives it with

local lib = {}

function lib.compile(code, name)
  local f, message = loadstring(as_source(code), name)
  if f then return setfenv(f, base._G) end
  return nil, message
end

local function finished(ok, value, resp)
  if ok then return encode_reply(value, resp, host.resp, host) end
  local err = value.err
  return false, type(err) == 'string' and err or 'ERR unknown error', value.source, value.line,
    value.ignore_error_stats_update
end

local function guarded(f, script)
  running = script or f
  -- One line: no line hook of a script that is being ended goes off between them.
  local ok, value = xpcall(f, on_error) sethook(hook, '', INSTRUCTIONS_PER_LOOK) ending = false
  return ok, value
end

-- A script of EVAL: its keys and arguments are globals.
function lib.run(f, resp, keys, ...)
  local words = {...}
  if keys == 0 then
    globals.KEYS, globals.ARGV = {}, words
  elseif keys == #words then
    globals.KEYS, globals.ARGV = words, {}
  else
    globals.KEYS, globals.ARGV = {unpack(words, 1, keys)}, {unpack(words, keys + 1)}
  end
  local ok, value = guarded(f)
  return finished(ok, value, resp)
end

-- The same for more words than Lua's stack holds, and for functions: they get them as parameters.
function lib.run_tables(f, resp, keys, words)
  globals.KEYS, globals.ARGV = keys, words
  local ok, value = guarded(f)
  return finished(ok, value, resp)
end

function lib.call(f, resp, keys, words)
  local ok, value = guarded(function() return (f(keys, words)) end, f)
  return finished(ok, value, resp)
end

-- The code of a function library, which registers its functions.
function lib.load(f)
  local meta = getmetatable(base._G)
  meta.__index = while_loading
  local ok, value = guarded(f)
  meta.__index = globals
  if ok then return true end
  return finished(false, value)
end

function lib.memory() return collectgarbage('count') * 1024 end

sethook(hook, '', INSTRUCTIONS_PER_LOOK)
return lib
