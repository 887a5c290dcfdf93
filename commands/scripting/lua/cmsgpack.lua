-- The library ``cmsgpack``: MessagePack, as lua-cmsgpack 0.4.0.
local fail, bad_argument, host, _, behind = ...
local type, char, byte, concat, select, unpack, next = type, string.char, string.byte, table.concat, select, unpack, next
local error, tonumber, tostring, floor, format = error, tonumber, tostring, math.floor, string.format
local DEEPEST = 16
local DEEPEST_READ = 2600 -- about where Redis finds its own Lua stack full
local MOST_RESULTS = 7900

-- Big-endian bytes of an integer.
local function bytes_of(value, size)
  local bytes = {}
  for i = size, 1, -1 do
    local low = value % 256
    bytes[i] = char(low)
    value = (value - low) / 256
  end
  return concat(bytes)
end

local function head(length, few, few_limit, codes)
  if length <= few_limit then return char(few + length) end
  if codes[1] and length <= 0xff then return char(codes[1]) .. bytes_of(length, 1) end
  if length <= 0xffff then return char(codes[2]) .. bytes_of(length, 2) end
  return char(codes[3]) .. bytes_of(length, 4)
end

local STRINGS, ARRAYS, MAPS = {0xd9, 0xda, 0xdb}, {nil, 0xdc, 0xdd}, {nil, 0xde, 0xdf}

local function pack_number(n)
  if n ~= n or n % 1 ~= 0 or n >= 2 ^ 63 or n < -2 ^ 63 then
    local short = host.pack_float(n, 4, false)
    if host.unpack_float(short, false) == n then return '\202' .. short end
    return '\203' .. host.pack_float(n, 8, false)
  end
  if n >= 0 then
    if n <= 127 then return char(n) end
    if n <= 0xff then return '\204' .. bytes_of(n, 1) end
    if n <= 0xffff then return '\205' .. bytes_of(n, 2) end
    if n <= 0xffffffff then return '\206' .. bytes_of(n, 4) end
    return '\207' .. bytes_of(n, 8)
  end
  if n >= -32 then return char(256 + n) end
  if n >= -128 then return '\208' .. bytes_of(n, 1) end
  if n >= -32768 then return '\209' .. bytes_of(n, 2) end
  if n >= -2147483648 then return '\210' .. bytes_of(n, 4) end
  return '\211' .. bytes_of(n, 8)
end

-- How many items a table that is an array has; nil for a map.
local function array_length(t)
  local count, highest = 0, 0
  for key in next, t do
    if type(key) ~= 'number' or key <= 0 or key % 1 ~= 0 then return nil end
    if key > highest then highest = key end
    count = count + 1
  end
  return highest == count and count or nil
end

local function pack_value(value, depth, parts)
  local kind = type(value)
  local n = #parts
  if kind == 'string' then
    parts[n + 1] = head(#value, 0xa0, 31, STRINGS)
    parts[n + 2] = value
  elseif kind == 'number' then
    parts[n + 1] = pack_number(value)
  elseif kind == 'boolean' then
    parts[n + 1] = value and '\195' or '\194'
  elseif kind == 'table' and depth < DEEPEST then
    value = behind[value] or value
    local length = array_length(value)
    if length then
      parts[n + 1] = head(length, 0x90, 15, ARRAYS)
      for i = 1, length do pack_value(value[i], depth + 1, parts) end
    else
      local count = 0
      for _ in next, value do count = count + 1 end
      parts[n + 1] = head(count, 0x80, 15, MAPS)
      for key, item in next, value do
        pack_value(key, depth + 1, parts)
        pack_value(item, depth + 1, parts)
      end
    end
  else
    parts[n + 1] = '\192'
  end
end

local MISSING, BAD = 'Missing bytes in input.', 'Bad data format in input.'

local function take(data, position, size)
  if position + size - 1 > #data then fail(MISSING) end
  local value = 0
  for i = position, position + size - 1 do value = value * 256 + byte(data, i) end
  return value, position + size
end

local function take_signed(data, position, size)
  local half = size / 2
  local high, behind = take(data, position, half < 1 and size or half)
  local sign = byte(data, position) >= 128
  if half < 1 then return sign and high - 256 or high, behind end
  local low
  low, behind = take(data, behind, half)
  -- In two halves, so that the sum alone is rounded.
  local weight = 256 ^ half
  return (sign and high - weight or high) * weight + low, behind
end

local function take_text(data, position, length)
  if position + length - 1 > #data then fail(MISSING) end
  return data:sub(position, position + length - 1), position + length
end

local unpack_value

local function take_array(data, position, length, depth)
  if depth > DEEPEST_READ then fail('stack overflow (in function mp_decode_to_lua_array)') end
  local t = {}
  for i = 1, length do t[i], position = unpack_value(data, position, depth + 1) end
  return t, position
end

local function take_map(data, position, length, depth)
  if depth > DEEPEST_READ then fail('stack overflow (in function mp_decode_to_lua_hash)') end
  local t = {}
  for _ = 1, length do
    local key, value
    key, position = unpack_value(data, position, depth + 1)
    value, position = unpack_value(data, position, depth + 1)
    if key == nil then error('table index is nil', 0) end
    if key ~= key then error('table index is NaN', 0) end
    t[key] = value
  end
  return t, position
end

-- The value at a position, and the position behind it.
function unpack_value(data, position, depth)
  local code = byte(data, position)
  if not code then fail(MISSING) end
  position = position + 1
  if code <= 0x7f then return code, position end
  if code >= 0xe0 then return code - 256, position end
  if code <= 0x8f then return take_map(data, position, code - 0x80, depth) end
  if code <= 0x9f then return take_array(data, position, code - 0x90, depth) end
  if code <= 0xbf then return take_text(data, position, code - 0xa0) end
  if code == 0xc0 then return nil, position end
  if code == 0xc2 then return false, position end
  if code == 0xc3 then return true, position end
  if code == 0xca or code == 0xcb then
    local text, behind = take_text(data, position, code == 0xca and 4 or 8)
    return host.unpack_float(text, false), behind
  end
  if code >= 0xcc and code <= 0xce then return take(data, position, 2 ^ (code - 0xcc)) end
  if code == 0xcf then return take_signed(data, position, 8) end
  if code >= 0xd0 and code <= 0xd3 then return take_signed(data, position, 2 ^ (code - 0xd0)) end
  local length
  if code >= 0xd9 and code <= 0xdb then
    length, position = take(data, position, 2 ^ (code - 0xd9))
    return take_text(data, position, length)
  end
  if code == 0xdc or code == 0xdd then
    length, position = take(data, position, code == 0xdc and 2 or 4)
    return take_array(data, position, length, depth)
  end
  if code == 0xde or code == 0xdf then
    length, position = take(data, position, code == 0xde and 2 or 4)
    return take_map(data, position, length, depth)
  end
  fail(BAD)
end

local function text_argument(name, ...)
  local data = ...
  if type(data) == 'number' then return tostring(data) end
  if type(data) ~= 'string' then
    bad_argument(1, name, 'string expected, got ' .. (select('#', ...) == 0 and 'no value' or type(data)))
  end
  return data
end

-- A number as C converts it to an integer of 64 bits.
local function integer(n)
  if n ~= n or n >= 2 ^ 63 or n < -2 ^ 63 then return -2 ^ 63 end
  return n < 0 and -floor(-n) or floor(n)
end

-- Its lowest 32 bits with their sign, as errors show it.
local function shown(n)
  n = n % 2 ^ 32
  return format('%d', n >= 2 ^ 31 and n - 2 ^ 32 or n)
end

local function optional_integer(number, name, default, ...)
  local value = (select(number, ...))
  if value == nil then return default end
  local n = type(value) ~= 'boolean' and tonumber(value)
  if not n then bad_argument(number, name, 'number expected, got ' .. type(value)) end
  return integer(n)
end

-- Keeps the function that a script called on the stack, where errors find out who called it.
local function given(...) return ... end

local function unpack_many(data, limit, offset, full)
  if offset < 0 or limit < 0 then
    fail('Invalid request to unpack with offset of ' .. shown(offset) .. ' and limit of ' .. #data .. '.')
  end
  if offset > #data then fail('Start offset ' .. shown(offset) .. ' greater than input length ' .. #data .. '.') end
  local values, n, position = {}, 0, offset + 1
  while position <= #data and (full or n < limit) do
    n = n + 1
    if n > MOST_RESULTS then
      fail('stack overflow (too many return values at once; use unpack_one or unpack_limit instead.)')
    end
    values[n], position = unpack_value(data, position, 1)
  end
  if full then return unpack(values, 1, n) end
  return position > #data and -1 or position - 1, unpack(values, 1, n)
end

local cmsgpack = {
  _NAME = 'cmsgpack', _VERSION = 'lua-cmsgpack 0.4.0', _COPYRIGHT = 'Copyright (C) 2012, Salvatore Sanfilippo',
  _DESCRIPTION = 'MessagePack C implementation for Lua',
}

function cmsgpack.pack(...)
  local count = select('#', ...)
  if count == 0 then bad_argument(0, 'pack', 'MessagePack pack needs input.') end
  local parts = {}
  for i = 1, count do pack_value((select(i, ...)), 0, parts) end
  return concat(parts)
end

function cmsgpack.unpack(...)
  return given(unpack_many(text_argument('unpack', ...), 0, 0, true))
end

function cmsgpack.unpack_one(...)
  local offset = optional_integer(2, 'unpack_one', 0, ...)
  return given(unpack_many(text_argument('unpack_one', ...), 1, offset, false))
end

function cmsgpack.unpack_limit(...)
  local limit = optional_integer(2, 'unpack_limit', nil, ...)
  if not limit then
    bad_argument(2, 'unpack_limit', 'number expected, got ' .. (select('#', ...) < 2 and 'no value' or 'nil'))
  end
  local offset = optional_integer(3, 'unpack_limit', 0, ...)
  local data = text_argument('unpack_limit', ...)
  return given(unpack_many(data, limit, offset, limit == 0 and offset == 0))
end

return cmsgpack
