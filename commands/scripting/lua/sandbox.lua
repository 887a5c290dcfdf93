-- What a script sees of Lua, and how it is run. Gets the server's functions, the chunks of the libraries beside Lua's
-- own, the encoder of replies and the memory that scripts may take (kilobytes); gives back the functions that the
-- interpreter drives it with.
--
-- No object of Python is ever a value here: host functions are closures in C that return a value, nil and the text of
-- an error, or nil and false when the server itself failed.
local host, chunks, encode_reply, most_memory = ...

local error, type, tostring, tonumber, select = error, type, tostring, tonumber, select
local getinfo, sethook, getmetatable, setmetatable = debug.getinfo, debug.sethook, getmetatable, setmetatable
local pcall, xpcall, next, pairs, rawget, rawset = pcall, xpcall, next, pairs, rawget, rawset
local loadstring, load, setfenv, unpack = loadstring, load, setfenv, unpack
local byte, find, format, match, sub = string.byte, string.find, string.format, string.match, string.sub
local create, resume, concat = coroutine.create, coroutine.resume, table.concat
local collectgarbage, gcinfo, as_function, max = collectgarbage, gcinfo, python.as_function, math.max
local floor, min = math.floor, math.min

local OURS = '=rillet'
local OUR_PLACE = '^rillet:%d+: '
local MOST_SOURCE = 2 ^ 26 -- bytes: counts in Lua's lexer and parser are ints
local OUT_OF_MEMORY = 'not enough memory'
local READONLY = 'Attempt to modify a readonly table'

-- Errors

local running -- the function of the script

-- The level of the first caller that is neither ours nor written in C, and how that called ours: the name, its kind,
-- and whether C called it (pcall, gsub, sort), which has neither a place nor a name.
local function users_level(start)
  local level, seen, lost, direct = start or 3, false, false, false
  local name, kind
  while true do
    local info = getinfo(level, 'Sn')
    if not info then return nil, name, kind, direct end
    if info.what == 'tail' then
      -- Between two functions of ours it means nothing; before a caller, that a function of the script is lost.
      lost = true
      name = nil
    elseif info.what == 'C' then
      if seen and not lost then direct = true end
      lost = true
    elseif info.source ~= OURS then return level - 1, name, kind, direct
    else
      if not direct and (not lost or not seen) then name, kind = info.name, info.namewhat end
      if not direct then lost = false end
      seen = true
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
  local level, _, _, direct = users_level()
  if direct then error(message, 0) end
  if level or not is_lost() then error(message, level or 0) end
  local info, line = last_place()
  error(format('%s:%d: %s', info.short_src, line, message), 0)
end

-- The text for a bad argument, with the name by which the script called the function; `self` is not counted.
local function complaint(number, name, reason, called, kind, direct)
  if direct then name = '?' elseif called then name = called end
  if kind == 'method' and not direct then
    number = number - 1
    if number == 0 then return format("calling '%s' on bad self (%s)", name, reason) end
  end
  return format("bad argument #%d to '%s' (%s)", number, name, reason)
end

local function bad_argument(number, name, reason)
  local _, called, kind, direct = users_level()
  fail(complaint(number, name, reason, called, kind, direct))
end

local function expect_table(value, name, count)
  if type(value) ~= 'table' then bad_argument(1, name, 'table expected, got ' .. (count == 0 and 'no value' or type(value))) end
end

-- An error of Lua's C functions names the line of ours that called them: the user's place stands there instead.
-- `above` is how many functions stand between the error and this one.
local function placed(e, above)
  if type(e) ~= 'string' then return e end
  local _, stop = find(e, OUR_PLACE)
  if not stop then return e end
  local message = sub(e, stop + 1)
  local level, called, kind, direct = users_level(3 + (above or 0))
  local number, name, reason = match(message, "^bad argument #(%d+) to '([^']*)' %((.*)%)$")
  if number then message = complaint(tonumber(number), name, reason, called, kind, direct) end
  if direct then return message end
  if level then
    local info = getinfo(level, 'Sl')
    return info.short_src .. ':' .. info.currentline .. ': ' .. message
  elseif is_lost() then
    local info, line = last_place()
    return info.short_src .. ':' .. line .. ': ' .. message
  end
  return message
end

local behind, fronts = {}, {} -- see `protect`

local function on_error(e)
  e = placed(e, 1)
  if type(e) ~= 'table' then
    local text = tostring(e)
    e = {err = 'ERR ' .. (type(text) == 'string' and text or type(e))}
  end
  if behind[e] then return e end
  local level = users_level()
  if level then
    local info = getinfo(level, 'Sl')
    e.source = info.source
    e.line = info.currentline
  elseif is_lost() then
    local info, line = last_place()
    e.source = info.source
    e.line = line
  end
  return e
end

-- Host functions

local ending = false -- the script is to end
local hook

-- Ends the script: at every line from here on, so that no pcall keeps it alive. What pcall, xpcall and resume catch
-- while it ends, they raise again.
local function stop()
  ending = true
  sethook(hook, 'l')
  error({err = 'ERR the script ends'}, 0)
end

-- The host turns what it gets and gives into values of Lua outside of any pcall, where Lua can not fail: so much
-- memory is kept for it that it does not.
local function make_room()
  collectgarbage()
  if gcinfo() > most_memory then error(OUT_OF_MEMORY, 0) end
end

local function failed(text, counted)
  if text == false then stop() end
  error({err = text, ignore_error_stats_update = counted or nil})
end

local function hosted(f)
  f = as_function(f)
  return function(...)
    if gcinfo() > most_memory then make_room() end
    local value, text, counted = f(...)
    if text == nil then return value end
    return failed(text, counted)
  end
end

-- Looking up now and then: the server may have to serve others, or want the script to end

local interrupt = as_function(host.interrupt)
-- A look takes 0.5 us, so many instructions at least 30. But one may call C for long: where they turn out to be slow, the
-- next look comes after fewer.
local MOST_INSTRUCTIONS, SLOW, FAST = 10000, 10, 1 -- milliseconds
local instructions = MOST_INSTRUCTIONS

local function look()
  local elapsed = not ending and interrupt()
  if not elapsed then stop() end
  if elapsed > SLOW then instructions = max(floor(instructions * SLOW / 2 / elapsed), 10)
  elseif elapsed < FAST and instructions < MOST_INSTRUCTIONS then instructions = min(instructions * 4, MOST_INSTRUCTIONS)
  end
end

function hook()
  look()
  sethook(hook, '', instructions)
end

-- Where C calls nest too deep, or memory is out, the call of the hook fails itself, and the script meets that as an error
-- of its own. So what catches errors looks, too: else a script goes on for ever from one failed look to the next. Not each
-- time: a look is half of what it costs to catch an error.
local ERRORS_PER_LOOK = 16
local errors = 0

local function look_after(e)
  errors = errors + 1
  if ending or e == OUT_OF_MEMORY or errors >= ERRORS_PER_LOOK then
    errors = 0
    look()
  end
end

-- A coroutine counts its own instructions: many short ones never reach a look.
local RESUMES_PER_LOOK = 64
local resumes = 0

local function resumed_again(thread, ...)
  resumes = resumes + 1
  if resumes >= RESUMES_PER_LOOK then
    resumes = 0
    look()
  end
  return resume(thread, ...)
end

-- Tables that scripts can only read: what they hold of one is an empty table in front of it

local function refuse() fail(READONLY) end

local function protect(original)
  local front = setmetatable({}, {__index = original, __newindex = refuse})
  behind[front], fronts[original] = original, front
  return front
end

-- The functions of Lua that would see through this, or around the hook, or that Redis has changed

local base = {}

function base.pairs(...)
  local t = ...
  expect_table(t, 'pairs', select('#', ...))
  if behind[t] then return base.next, t, nil end
  return next, t, nil
end

function base.next(...)
  local t, k = ...
  expect_table(t, 'next', select('#', ...))
  return next(behind[t] or t, k)
end

function base.rawget(...)
  local t, k = ...
  local count = select('#', ...)
  expect_table(t, 'rawget', count)
  if count < 2 then bad_argument(2, 'rawget', 'value expected') end
  return rawget(behind[t] or t, k)
end

function base.rawset(...)
  local t, k, v = ...
  local count = select('#', ...)
  expect_table(t, 'rawset', count)
  if count < 3 then bad_argument(count + 1, 'rawset', 'value expected') end
  if behind[t] then error(READONLY, 0) end
  return rawset(t, k, v)
end

function base.setmetatable(...)
  local t, meta = ...
  local count = select('#', ...)
  expect_table(t, 'setmetatable', count)
  if behind[t] then error(READONLY, 0) end
  if count < 2 or meta ~= nil and type(meta) ~= 'table' then bad_argument(2, 'setmetatable', 'nil or table expected') end
  return setmetatable(t, meta)
end

local string_meta = getmetatable('')
local global_meta -- the front of that of the globals

function base.getmetatable(...)
  local value = ...
  if select('#', ...) == 0 then bad_argument(1, 'getmetatable', 'value expected') end
  if behind[value] then return value == base._G and global_meta or nil end
  if type(value) == 'userdata' then return nil end
  local meta = getmetatable(value)
  return fronts[meta] or meta
end

local function settle(ok, ...)
  if ok then return true, ... end
  local e = ...
  look_after(e)
  -- An error reply is caught as its text.
  if type(e) == 'table' and type(e.err) == 'string' then e = e.err end
  return false, e
end

local function results(...) return ... end

local MOST_ON_STACK = 7000 -- of what a C function gets; more words travel in a table

function base.pcall(...)
  local count = select('#', ...)
  if count == 0 then return false, 'attempt to call a boolean value' end -- so says Lua 5.1
  local f, word = ...
  if type(f) ~= 'function' then return settle(pcall(f, select(2, ...))) end
  if count == 1 then return settle(xpcall(f, placed)) end
  if count == 2 then return settle(xpcall(function() return results(f(word)) end, placed)) end
  local words = {select(2, ...)}
  if count <= MOST_ON_STACK then
    return settle(xpcall(function() return results(f(unpack(words, 1, count - 1))) end, placed))
  end
  -- What unpack returns and its three arguments share a stack of 8,000: the first words come without it.
  local a, b, c, d, e, g, h, i = unpack(words, 1, 8)
  return settle(xpcall(function() return results(f(a, b, c, d, e, g, h, i, unpack(words, 9, count - 1))) end, placed))
end

-- The handler of xpcall runs after the stack of the function is gone: Lua would call it where the error was raised, which
-- may be inside a hook, and there nothing could end it. An error in it goes to itself again, as often as in Redis, where
-- each time is a call of C within the last.
local MOST_HANDLED = 221

local function watch(f, word)
  local reached = false -- not by lack of memory
  local function handler(e)
    e = placed(e, 1)
    reached = true
    return e
  end
  local function caught(ok, ...)
    if ok then return true, ... end
    look_after((...))
    return false, reached, ...
  end
  if word == nil then return caught(xpcall(f, handler)) end
  return caught(xpcall(function() return (f(word[1])) end, handler))
end

local function handled(handler, ok, ...)
  if ok then return true, ... end
  local reached, e = ...
  if not reached then return false, e end
  if type(handler) ~= 'function' then return false, 'error in error handling' end
  for _ = 1, MOST_HANDLED do
    ok, reached, e = watch(handler, {e})
    if ok then return false, reached end -- which is what it returned
    if not reached then return false, e end
  end
  return false, 'error in error handling'
end

function base.xpcall(...)
  if select('#', ...) < 2 then bad_argument(2, 'xpcall', 'value expected') end
  local f, handler = ...
  if handler == on_error then -- ours: it tells the place, and needs the stack for that
    local function caught(ok, ...)
      if not ok then look_after((...)) end
      return ok, ...
    end
    return caught(xpcall(f, on_error))
  end
  return handled(handler, watch(f))
end

-- Bytecode can do anything to the interpreter: behind a space it is but a source text with an error.
local function as_source(text)
  return byte(text) == 27 and ' ' .. text or text
end

-- The parser makes a string of a chunk's name and does not keep it alive. Lua holds equal strings once, and this one
-- is an argument of the call: the collector finds it there. It ends at a zero, as for C.
local function chunk_name(name)
  return (match(name, '^%Z*'))
end

local refused = chunks.varargs()
chunks.varargs = nil

-- What the compiler made of a text, with the globals of scripts; nil and an error if it is refused.
local function checked(f, text)
  local line = refused(f, text)
  if not line then return setfenv(f, base._G) end
  return nil, format("%s:%d: function with more than 3 parameters before '...'", getinfo(f, 'S').short_src, line)
end

local function compiled(f, message, text)
  if f then return checked(f, text) end
  return nil, placed(message)
end

local function no_string(value, number, name, count)
  local kind = type(value)
  if kind ~= 'string' and kind ~= 'number' then
    bad_argument(number, name, 'string expected, got ' .. (count == 0 and 'no value' or kind))
  end
end

function base.loadstring(...)
  local text, name = ...
  no_string(text, 1, 'loadstring', select('#', ...))
  text = tostring(text)
  if name == nil then name = text else no_string(name, 2, 'loadstring') end
  if #text > MOST_SOURCE then return nil, 'chunk is too long' end
  name = chunk_name(name)
  local f, message = loadstring(as_source(text), name)
  return compiled(f, message, text)
end

function base.load(reader, name)
  if type(reader) ~= 'function' then
    bad_argument(1, 'load', 'function expected, got ' .. (reader == nil and 'no value' or type(reader)))
  end
  if name == nil then name = '=(load)' else no_string(name, 2, 'load') end
  name = chunk_name(name)
  local size = 0
  local f, message = load(function()
    local piece = reader()
    if type(piece) == 'string' then
      if size == 0 and #piece > 0 then piece = as_source(piece) end
      size = size + #piece
      if size > MOST_SOURCE then error('chunk is too long', 0) end
    end
    return piece
  end, name)
  if not f then look_after(message) end
  return compiled(f, message)
end

-- What a script sets of the garbage collector ends with it.
local collector_changed = false

function base.collectgarbage(...)
  local option = ...
  if option ~= nil and option ~= 'count' and option ~= 'collect' then collector_changed = true end
  if option ~= 'count' then look() end -- it takes long
  return collectgarbage(...)
end

-- A coroutine has a hook of its own.
local function watched(f)
  return function(...)
    sethook(hook, '', instructions)
    return f(...)
  end
end

-- As `placed`, for an error that ended a coroutine: its stack is still there.
local function placed_within(thread, e)
  if type(e) ~= 'string' then return e end
  local _, stop_at = find(e, OUR_PLACE)
  if not stop_at then return e end
  local message, level = sub(e, stop_at + 1), 0
  while true do
    local info = getinfo(thread, level, 'Sl')
    if not info then return message end
    if info.source ~= OURS and info.what ~= 'C' and info.what ~= 'tail' then
      return info.short_src .. ':' .. info.currentline .. ': ' .. message
    end
    level = level + 1
  end
end

local function resumed(thread, ok, ...)
  if ok then return true, ... end
  look_after((...))
  return false, placed_within(thread, (...))
end

local function unwrapped(thread, ok, ...)
  if ok then return ... end
  look_after((...))
  local e = placed_within(thread, (...))
  if type(e) == 'string' then fail(e) end
  error(e, 0)
end

local function expect_function(f, name)
  if type(f) ~= 'function' or getinfo(f, 'S').source == OURS then bad_argument(1, name, 'Lua function expected') end
end

-- Libraries

local api = {}
for _, name in next, {'resp', 'double', 'own_error', 'random', 'seed', 'pack_float', 'unpack_float'} do
  api[name] = hosted(host[name])
end

api.has_array_mt = host.has_array_mt
local libraries = {}
local natives = chunks.natives(fail, bad_argument, behind, READONLY, api.random, api.seed, look)
chunks.natives = nil
for name, chunk in pairs(chunks) do libraries[name] = chunk(fail, bad_argument, api, protect, behind) end

libraries.coroutine = {
  create = function(f)
    expect_function(f, 'create')
    return create(watched(f))
  end,
  wrap = function(f)
    expect_function(f, 'wrap')
    local thread = create(watched(f))
    return function(...) return unwrapped(thread, resumed_again(thread, ...)) end
  end,
  resume = function(thread, ...)
    if type(thread) ~= 'thread' then bad_argument(1, 'resume', 'coroutine expected') end
    return resumed(thread, resumed_again(thread, ...))
  end,
  running = coroutine.running, status = coroutine.status, yield = coroutine.yield,
}

-- The globals

local function picked(source, names)
  local found = {}
  for name in names:gmatch('%S+') do found[name] = source[name] end
  return found
end

libraries.math = picked(math, [[abs acos asin atan atan2 ceil cos cosh deg exp floor fmod frexp huge ldexp log log10
  max min mod modf pi pow rad sin sinh sqrt tan tanh]])
libraries.string = picked(string, 'byte char dump format len sub')
libraries.table = picked(table, 'foreachi getn maxn remove setn')
if host.has_os then libraries.os = {clock = os.clock} end
for name, library in next, {math = natives.math, string = natives.string, table = natives.table} do
  for key, f in next, library do libraries[name][key] = f end
end

local redis = {}
for name, value in pairs(host.constants) do redis[name] = value end
for name, f in pairs(host.redis) do redis[name] = hosted(f) end
libraries.redis = redis

local call_few, call_many = host.redis.call and as_function(host.redis.call), as_function(host.call_many)

-- Python gets -0 as the integer 0: where the sign counts, it gets a text.
local function is_negative_zero(value) return value == 0 and 1 / value < 0 end

local function sign_zeros(words, count)
  local found = false
  for i = 1, count do
    if is_negative_zero(words[i]) then words[i], found = '-0', true end
  end
  return found
end

local signs_zeros = host.signs_zeros
local function call(...)
  local count = select('#', ...)
  if signs_zeros or count > MOST_ON_STACK then
    local words = {...}
    local changed = signs_zeros and sign_zeros(words, count)
    if changed or count > MOST_ON_STACK then return call_many(words, count) end
  end
  return call_few(...)
end

local sha1hex = redis.sha1hex
function redis.sha1hex(...)
  local digest
  if select('#', ...) == 1 and type((...)) == 'number' then digest = sha1hex(tostring((...))) else digest = sha1hex(...) end
  return digest
end

function redis.call(...)
  if gcinfo() > most_memory then make_room() end
  local value, text, counted = call(...)
  if text == nil then return value end
  return failed(text, counted)
end

function redis.pcall(...)
  if gcinfo() > most_memory then make_room() end
  local value, text, counted = call(...)
  if text == nil then return value end
  if text == false then stop() end
  return {err = text, ignore_error_stats_update = counted or nil}
end

local log = redis.log

function redis.log(...)
  local count = select('#', ...)
  if count < 2 then error({err = 'ERR redis.log() requires two arguments or more.'}) end
  local level = tonumber((...))
  if not level then error({err = 'ERR First argument must be a number (log level).'}) end
  local parts, words = {}, {...}
  for i = 2, count do
    local kind = type(words[i])
    if kind == 'string' or kind == 'number' then
      -- As in Redis, the space belongs to the place, not to the word.
      parts[#parts + 1] = i > 2 and ' ' .. words[i] or words[i]
    end
  end
  log(level, concat(parts))
end

function redis.status_reply(...)
  if select('#', ...) ~= 1 or type((...)) ~= 'string' then return {err = 'ERR wrong number or type of arguments'} end
  return {ok = (...)}
end

function redis.error_reply(...)
  if select('#', ...) ~= 1 or type((...)) ~= 'string' then return {err = 'ERR wrong number or type of arguments'} end
  local text = match((...), '^%Z*') -- a text of C
  if byte(text) == 45 then text = text:sub(2) end
  -- Line breaks go from both ends of the text behind the code.
  local code, rest = text:match('^([^ ]*) (.*)$')
  return {err = (code or 'ERR') .. ' ' .. (rest or text):gsub('^[\r\n]+', ''):gsub('[\r\n]+$', '')}
end

if not host.register then
  redis.breakpoint = function() return false end
  redis.debug = function() end
end

local globals = picked(_G, 'assert error gcinfo ipairs rawequal select tonumber tostring type _VERSION')
globals.unpack = natives.unpack
for name, f in pairs(base) do globals[name] = f end
for name, library in pairs(libraries) do globals[name] = protect(library) end
if not host.register then globals.__redis__err__handler = on_error end
local function nonexistent(_, name)
  local text = tostring(name)
  fail("Script attempted to access nonexistent global variable '" .. (type(text) == 'string' and match(text, '^%Z*') or '?') .. "'")
end
setmetatable(globals, {__index = nonexistent})
base._G = protect(globals)
globals._G = base._G
global_meta = protect(getmetatable(globals))
string_meta.__index = globals.string
protect(string_meta) -- all that getmetatable gives

-- While the code of a library runs it sees little more than redis.register_function

local MOST_FLAGS = 1000
local register = host.register and hosted(host.register)

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
  local flag_count = flags and #flags or 0
  if flag_count > MOST_FLAGS then reject('unknown flag given') end
  for i = 1, flag_count do
    local flag = tostring(flags[i])
    words[i] = type(flag) == 'string' and flag or '?'
  end
  register(tostring(name), callback, description, unpack(words))
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

-- What the state has grown to when all that is no longer used is collected next: over half of its memory, and by a quarter
-- of what the last collection left free. So a collection, which looks at all that is kept, comes once in so many kilobytes,
-- not with each script when much is kept.
local collect_at = most_memory / 2

local function collect()
  collectgarbage()
  local kept = gcinfo()
  collect_at = max(most_memory / 2, kept + max(most_memory - kept, 0) / 4)
  return kept
end

-- After each run: the collector is as it was, and there is room for what the next one brings. If what the state keeps
-- does not leave it, the state is full.
local function tidy()
  if collector_changed then
    collectgarbage('restart') collectgarbage('setpause', 200) collectgarbage('setstepmul', 200)
    collector_changed = false
  end
  return gcinfo() > collect_at and collect() > most_memory * 0.75
end

-- Collects what is no longer used. Is the state full all the same?
function lib.collect() return collect() > most_memory * 0.75 end

function lib.compile(code, name)
  if #code > MOST_SOURCE then return nil, 'chunk is too long' end
  name = chunk_name(name)
  local f, message = loadstring(as_source(code), name)
  if gcinfo() > collect_at and collect() > most_memory then return nil, OUT_OF_MEMORY end
  if not f then return nil, message end
  local ok
  ok, f, message = pcall(checked, f, code)
  if not ok then message, f = f, nil end
  if f then return f end
  return nil, message
end

-- What is known of an error: its text, the place, and whether it is counted. Fields may run code of the script.
local function details(e)
  local err, source, line, counted = e.err, e.source, e.line, e.ignore_error_stats_update
  if type(err) == 'number' then err = tostring(err) end
  return type(err) == 'string' and err or 'ERR unknown error', type(source) == 'string' and source or nil,
    type(line) == 'number' and line > 0 and line < 2 ^ 31 and line or nil, counted and true or nil
end

-- One line: no line hook of a script that is being ended goes off between them.
local function guarded(f, ...)
  local ok, a, b, c, d = pcall(f, ...) sethook(hook, '', MOST_INSTRUCTIONS) ending, instructions = false, MOST_INSTRUCTIONS
  return ok, a, b, c, d
end

local function run(f, script)
  running = script or f
  local ok, value = xpcall(f, on_error) sethook(hook, '', MOST_INSTRUCTIONS) ending, instructions = false, MOST_INSTRUCTIONS
  return ok, value
end

local function failure_of(e)
  local text, source, line, counted = 'ERR unknown error', nil, nil, nil
  if type(e) == 'table' then
    local ok, a, b, c, d = guarded(details, e)
    if ok then text, source, line, counted = a, b, c, d end
  elseif e == OUT_OF_MEMORY then text = 'ERR not enough memory'
  elseif type(e) == 'string' then text = 'ERR ' .. e
  end
  return false, text, source, line, counted, tidy()
end

local script_resp = api.resp

local function finished(ok, value, resp)
  if not ok then return failure_of(value) end
  local reply
  if type(value) == 'table' then
    ok, reply = guarded(encode_reply, value, resp, script_resp, api)
    if not ok then return failure_of(reply) end
  else
    reply = encode_reply(value, resp, script_resp, api)
  end
  if (gcinfo() > collect_at or collector_changed) and tidy() then return true, reply end
  return reply
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
  running = f
  -- As `run`, of which this is the usual case.
  local ok, value = xpcall(f, on_error) sethook(hook, '', MOST_INSTRUCTIONS) ending, instructions = false, MOST_INSTRUCTIONS
  return finished(ok, value, resp)
end

-- The same for more words than Lua's stack holds, and for functions: they get them as parameters.
function lib.run_tables(f, resp, keys, words)
  globals.KEYS, globals.ARGV = keys, words
  local ok, value = run(f)
  return finished(ok, value, resp)
end

function lib.call(f, resp, keys, words)
  local ok, value = run(function() return (f(keys, words)) end, f)
  return finished(ok, value, resp)
end

-- The code of a function library, which registers its functions.
function lib.load(f)
  local meta = getmetatable(base._G)
  meta.__index = while_loading
  local ok, value = run(f)
  meta.__index = globals
  if not ok then return failure_of(value) end
  if tidy() then return true, true end
  return true
end

function lib.memory() return collectgarbage('count') * 1024 end

-- Nothing that lupa or Lua has put anywhere is left but what stands in locals here; its own metatable for objects of
-- Python, none of which is a value any more, keeps what frees them.
local object_meta = debug.getmetatable(host.interrupt)
for name in pairs(object_meta) do
  if name ~= '__gc' then object_meta[name] = nil end
end
local everything = _G
for name in pairs(package.loaded) do package.loaded[name] = nil end
for name in pairs(everything) do everything[name] = nil end

sethook(hook, '', MOST_INSTRUCTIONS)
return lib
