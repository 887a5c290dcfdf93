-- Functions of Lua's own libraries whose C code is not safe with every argument: each checks first, then calls it.
local fail, bad_argument, behind, readonly, random_number, seed, look = ...

local type, tostring, tonumber, select, error = type, tostring, tonumber, select, error
local floor, ceil = math.floor, math.ceil
local find, match, gmatch, gsub, rep = string.find, string.match, string.gmatch, string.gsub, string.rep
local unpack, insert, foreach, rawget, rawset = unpack, table.insert, table.foreach, rawget, rawset

local MOST_RESULTS = 8000 -- LUAI_MAXCSTACK: more values do not fit on the stack of a C function
local MOST_ITEMS = 1000 -- of a pattern: the matcher calls itself for each

local natives = {string = {}, table = {}, math = {}}

local function kind(value, count, number)
  if number > count then return 'no value' end
  return type(value)
end

-- A double as C converts it to an int on x86-64: cut off, modulo 2^32; 0 for what is no number of 64 bits.
local function integer(n)
  if n ~= n or n >= 2 ^ 63 or n < -2 ^ 63 then return 0 end
  n = (n < 0 and ceil(n) or floor(n)) % 2 ^ 32
  return n >= 2 ^ 31 and n - 2 ^ 32 or n
end

function natives.unpack(...)
  local t, first, last = ...
  local count = select('#', ...)
  if type(t) ~= 'table' then bad_argument(1, 'unpack', 'table expected, got ' .. kind(t, count, 1)) end
  if first == nil then first = 1
  else
    local n = tonumber(first)
    if not n then bad_argument(2, 'unpack', 'number expected, got ' .. type(first)) end
    first = integer(n)
  end
  if last == nil then last = #t
  else
    local n = tonumber(last)
    if not n then bad_argument(3, 'unpack', 'number expected, got ' .. type(last)) end
    last = integer(n)
  end
  if first > last then return end
  if last - first >= MOST_RESULTS then fail('too many results to unpack') end
  -- An argument more is a result less on the stack of C.
  if count == 1 then return unpack(t) end
  if count == 2 then return unpack(t, first) end
  return unpack(t, first, last)
end

-- Strings: a look at the server comes between two calls with a long one, for each takes as long as many instructions

local LONG = 100000

local function check(pattern)
  local _, items = gsub(pattern, '[*+?()-]', '')
  if items > MOST_ITEMS then fail('pattern too complex') end
end

function natives.string.find(...)
  local text, pattern, _, plain = ...
  if type(text) == 'string' and #text > LONG then look() end
  if not plain and type(pattern) == 'string' and #pattern > MOST_ITEMS then check(pattern) end
  return find(...)
end

function natives.string.match(...)
  local text, pattern = ...
  if type(text) == 'string' and #text > LONG then look() end
  if type(pattern) == 'string' and #pattern > MOST_ITEMS then check(pattern) end
  return match(...)
end

function natives.string.gmatch(...)
  local text, pattern = ...
  if type(text) == 'string' and #text > LONG then look() end
  if type(pattern) == 'string' and #pattern > MOST_ITEMS then check(pattern) end
  return gmatch(...)
end

natives.string.gfind = natives.string.gmatch

function natives.string.gsub(...)
  local text, pattern = ...
  if type(text) == 'string' and #text > LONG then look() end
  if type(pattern) == 'string' and #pattern > MOST_ITEMS then check(pattern) end
  return gsub(...)
end

for _, name in next, {'lower', 'reverse', 'upper'} do
  local change = string[name]
  natives.string[name] = function(...)
    local text = ...
    if type(text) == 'string' and #text > LONG then look() end
    return change(...)
  end
end

-- Repeating nothing is a loop that no hook ends.
function natives.string.rep(...)
  local text, n = ...
  if text == '' and tonumber(n) then return '' end
  if type(text) == 'string' and (tonumber(n) or 0) * #text > LONG then look() end
  return rep(...)
end

-- Tables

local function expect_table(t, name, count)
  if type(t) ~= 'table' then bad_argument(1, name, 'table expected, got ' .. kind(t, count, 1)) end
end

function natives.table.insert(...)
  local t, position, value = ...
  local count = select('#', ...)
  expect_table(t, 'insert', count)
  if behind[t] then error(readonly, 0) end
  if count == 2 then return insert(t, position) end
  if count ~= 3 then fail("wrong number of arguments to 'insert'") end
  local n = tonumber(position)
  if not n then bad_argument(2, 'insert', 'number expected, got ' .. type(position)) end
  n = integer(n)
  if n >= 1 then return insert(t, n, value) end
  -- C would move up to 2^31 places, and no hook would end it.
  for i = #t + 1, n + 1, -1 do rawset(t, i, rawget(t, i - 1)) end
  rawset(t, n, value)
end

-- Of a large table these take long.
for _, name in next, {'concat', 'sort'} do
  local work = table[name]
  natives.table[name] = function(...)
    local t = ...
    if type(t) == 'table' and #t > LONG / 10 then look() end
    return work(...)
  end
end

function natives.table.foreach(...)
  local t, f = ...
  expect_table(t, 'foreach', select('#', ...))
  return foreach(behind[t] or t, f)
end

-- The generator of drand48(3): the same numbers after each start of the server, as in Redis.
function natives.math.random(...)
  local r, n = random_number(), select('#', ...)
  if n == 0 then return r end
  if n > 2 then fail('wrong number of arguments') end
  local low, high = ...
  if n == 1 then low, high = 1, low end
  low, high = tonumber(low), tonumber(high)
  if not low then bad_argument(1, 'random', 'number expected, got ' .. type((...))) end
  if not high then bad_argument(n, 'random', 'number expected, got ' .. type((select(n, ...)))) end
  low, high = integer(low), integer(high)
  if low > high then bad_argument(n, 'random', 'interval is empty') end
  return floor(r * (high - low + 1)) + low
end

function natives.math.randomseed(...)
  local n = tonumber((...))
  if not n then bad_argument(1, 'randomseed', 'number expected, got ' .. kind((...), select('#', ...), 1)) end
  seed(n)
end

return natives
