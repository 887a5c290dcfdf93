-- The library ``cjson``: JSON, as lua-cjson 2.1.0 with what Redis added. Its settings live as long as the interpreter.
local fail, bad_argument, host, protect, behind = ...
local type, tonumber, tostring, next, select, floor = type, tonumber, tostring, next, select, math.floor
local format, byte, char, sub, find, match, gsub = string.format, string.byte, string.char, string.sub, string.find,
  string.match, string.gsub
local huge = math.huge
local LARGEST = 2 ^ 31 - 1
local concat, getmetatable, setmetatable, newproxy = table.concat, getmetatable, setmetatable, newproxy

local null = newproxy(true)
getmetatable(null).__tostring = function() return 'userdata: (nil)' end
local ARRAY_META = {__is_cjson_array = true}
protect(ARRAY_META) -- all scripts share it

local ESCAPES = {['"'] = '\\"', ['\\'] = '\\\\', ['/'] = '\\/', ['\b'] = '\\b', ['\t'] = '\\t', ['\n'] = '\\n',
  ['\f'] = '\\f', ['\r'] = '\\r'}
for code = 0, 31 do
  local c = char(code)
  ESCAPES[c] = ESCAPES[c] or format('\\u%04x', code)
end
ESCAPES['\127'] = '\\u007f'
local UNESCAPED = {['"'] = '"', ['\\'] = '\\', ['/'] = '/', b = '\b', f = '\f', n = '\n', r = '\r', t = '\t'}
local SPECIAL = '[%c"\\/\127]'

local function new()
  local settings = {
    sparse_convert = false, sparse_ratio = 2, sparse_safe = 10, encode_depth = 1000, decode_depth = 1000,
    encode_invalid = false, decode_invalid = true, keep_buffer = true, precision = 14, array_meta = false,
  }

  -- Encoding

  local function refuse(value, reason)
    fail(format('Cannot serialise %s: %s', type(value), reason))
  end

  local function quoted(text)
    if find(text, SPECIAL) then text = gsub(text, SPECIAL, ESCAPES) end
    return '"' .. text .. '"'
  end

  local function number(n)
    if n ~= n or n == huge or n == -huge then
      local mode = settings.encode_invalid
      if mode == 'null' then return 'null' end
      if not mode then refuse(n, 'must not be NaN or Inf') end
      return n ~= n and 'nan' or n > 0 and 'inf' or '-inf'
    end
    return format('%.' .. settings.precision .. 'g', n)
  end

  -- How long an array is; nil for an object.
  local function array_length(t)
    local highest, count = 0, 0
    for key in next, t do
      if type(key) ~= 'number' or key < 1 or key % 1 ~= 0 then return nil end
      if key > highest then highest = key <= LARGEST and key or -LARGEST end -- a C int holds the length
      count = count + 1
    end
    if settings.sparse_ratio > 0 and highest > count * settings.sparse_ratio and highest > settings.sparse_safe then
      if not settings.sparse_convert then refuse(t, 'excessively sparse array') end
      return nil
    end
    if highest < 0 then return nil end
    return highest
  end

  local function encode_value(value, depth, parts)
    local kind = type(value)
    local n = #parts
    if kind == 'string' then
      parts[n + 1] = quoted(value)
    elseif kind == 'number' then
      parts[n + 1] = number(value)
    elseif kind == 'boolean' then
      parts[n + 1] = value and 'true' or 'false'
    elseif kind == 'table' then
      value = behind[value] or value
      if depth > settings.encode_depth then fail(format('Cannot serialise, excessive nesting (%d)', depth)) end
      local length = array_length(value)
      local meta = getmetatable(value)
      if length == 0 and not (type(meta) == 'table' and meta.__is_cjson_array) then length = nil end
      if length then
        parts[n + 1] = '['
        for i = 1, length do
          if i > 1 then parts[#parts + 1] = ',' end
          encode_value(value[i], depth + 1, parts)
        end
        parts[#parts + 1] = ']'
      else
        parts[n + 1] = '{'
        local first = true
        for key, item in next, value do
          if not first then parts[#parts + 1] = ',' end
          first = false
          if type(key) == 'string' then
            parts[#parts + 1] = quoted(key) .. ':'
          elseif type(key) == 'number' then
            parts[#parts + 1] = '"' .. number(key) .. '":'
          else
            refuse(key, 'table key must be a number or string')
          end
          encode_value(item, depth + 1, parts)
        end
        parts[#parts + 1] = '}'
      end
    elseif kind == 'nil' or value == null then
      parts[n + 1] = 'null'
    else
      refuse(value, 'type not supported')
    end
  end

  -- Decoding: the text and the position stand in upvalues while one value is read

  local text, position, depth

  local function expected(what, found, at)
    fail(format('Expected %s but found %s at character %d', what, found, at))
  end

  local TOKENS = {['{'] = 'T_OBJ_BEGIN', ['}'] = 'T_OBJ_END', ['['] = 'T_ARR_BEGIN', [']'] = 'T_ARR_END',
    [','] = 'T_COMMA', [':'] = 'T_COLON'}

  local function utf8(code)
    if code < 0x80 then return char(code) end
    if code < 0x800 then return char(0xc0 + floor(code / 64), 0x80 + code % 64) end
    if code < 0x10000 then return char(0xe0 + floor(code / 4096), 0x80 + floor(code / 64) % 64, 0x80 + code % 64) end
    return char(0xf0 + floor(code / 262144), 0x80 + floor(code / 4096) % 64, 0x80 + floor(code / 64) % 64,
      0x80 + code % 64)
  end

  -- The character of ``\uXXXX`` at a place, and the place behind it; nil if it is none.
  local function unicode(at)
    local code = tonumber(match(text, '^\\u(%x%x%x%x)', at) or '', 16)
    if not code then return nil end
    if code >= 0xdc00 and code <= 0xdfff then return nil end
    if code < 0xd800 or code > 0xdbff then return utf8(code), at + 6 end
    local low = tonumber(match(text, '^\\u(%x%x%x%x)', at + 6) or '', 16)
    if not low or low < 0xdc00 or low > 0xdfff then return nil end
    return utf8(0x10000 + (code - 0xd800) * 1024 + low - 0xdc00), at + 12
  end

  -- A string whose first quote stands at the position; ``what`` was expected there.
  local function read_string(what)
    local start = position + 1
    local stop = find(text, '["\\%z]', start)
    if stop and byte(text, stop) == 34 then
      position = stop + 1
      return sub(text, start, stop - 1)
    end
    local parts = {}
    while true do
      stop = find(text, '["\\%z]', start)
      if not stop or byte(text, stop) == 0 then expected(what, 'unexpected end of string', stop or #text + 1) end
      parts[#parts + 1] = sub(text, start, stop - 1)
      if byte(text, stop) == 34 then
        position = stop + 1
        return concat(parts)
      end
      local letter = sub(text, stop + 1, stop + 1)
      if letter == 'u' then
        local piece, behind = unicode(stop)
        if not piece then expected(what, 'invalid unicode escape code', stop) end
        parts[#parts + 1] = piece
        start = behind
      else
        local piece = UNESCAPED[letter]
        if not piece then expected(what, 'invalid escape code', stop) end
        parts[#parts + 1] = piece
        start = stop + 2
      end
    end
  end

  local function odd_number(at)
    return match(text, '^[-+]?0[xX]%x+', at) or match(text, '^[-+]?[iI][nN][fF][iI][nN][iI][tT][yY]', at)
      or match(text, '^[-+]?[iI][nN][fF]', at) or match(text, '^[-+]?[nN][aA][nN]', at)
  end

  local function read_number(what)
    local at = position
    local odd = odd_number(at)
    if odd then
      if not settings.decode_invalid then expected(what, 'invalid number', at) end
      position = at + #odd
      local sign = byte(odd) == 45 and -1 or 1
      local bare = gsub(odd, '^[-+]', ''):lower()
      if sub(bare, 1, 1) == 'i' then return sign * huge end
      if sub(bare, 1, 1) == 'n' then return -(0 / 0) end
      return sign * tonumber(bare)
    end
    if not settings.decode_invalid and find(text, '^[-+]?0%d', at) then expected(what, 'invalid number', at) end
    local digits = match(text, '^[-+]?%d+%.?%d*', at) or match(text, '^[-+]?%.%d+', at)
    if not digits then expected(what, 'invalid number', at) end
    local behind = at + #digits
    local exponent = match(text, '^[eE][-+]?%d+', behind)
    if exponent then
      digits = digits .. exponent
      behind = behind + #exponent
    end
    position = behind
    return tonumber(digits)
  end

  local function skip_space()
    position = find(text, '[^ \t\r\n]', position) or #text + 1
  end

  -- What stands at the position, for an error.
  local function token(what)
    local c = sub(text, position, position)
    if c == '' or c == '\0' then return 'T_END' end
    if TOKENS[c] then return TOKENS[c] end
    if c == '"' then
      local at = position
      read_string(what)
      position = at
      return 'T_STRING'
    end
    if find(c, '[-%d]') or (settings.decode_invalid and (c == '+' or odd_number(position))) then
      local at = position
      read_number(what)
      position = at
      return 'T_NUMBER'
    end
    if find(text, '^true', position) or find(text, '^false', position) then return 'T_BOOLEAN' end
    if find(text, '^null', position) then return 'T_NULL' end
    return 'invalid token'
  end

  local function deeper()
    depth = depth + 1
    if depth > settings.decode_depth then
      fail(format('Found too many nested data structures (%d) at character %d', depth, position - 1))
    end
  end

  local function read_value()
    skip_space()
    local c = sub(text, position, position)
    if c == '"' then return read_string('value') end
    if c == '{' then
      position = position + 1
      deeper()
      local object = {}
      skip_space()
      if sub(text, position, position) == '}' then
        position, depth = position + 1, depth - 1
        return object
      end
      while true do
        skip_space()
        if sub(text, position, position) ~= '"' then
          expected('object key string', token('object key string'), position)
        end
        local key = read_string('object key string')
        skip_space()
        if sub(text, position, position) ~= ':' then expected('colon', token('colon'), position) end
        position = position + 1
        object[key] = read_value()
        skip_space()
        c = sub(text, position, position)
        position = position + 1
        if c == '}' then
          depth = depth - 1
          return object
        end
        if c ~= ',' then
          position = position - 1
          expected('comma or object end', token('comma or object end'), position)
        end
      end
    end
    if c == '[' then
      position = position + 1
      deeper()
      local array, n = {}, 0
      if settings.array_meta then setmetatable(array, ARRAY_META) end
      skip_space()
      if sub(text, position, position) == ']' then
        position, depth = position + 1, depth - 1
        return array
      end
      while true do
        n = n + 1
        array[n] = read_value()
        skip_space()
        c = sub(text, position, position)
        position = position + 1
        if c == ']' then
          depth = depth - 1
          return array
        end
        if c ~= ',' then
          position = position - 1
          expected('comma or array end', token('comma or array end'), position)
        end
      end
    end
    if find(c, '[-%d]') then return read_number('value') end
    if find(text, '^true', position) then
      position = position + 4
      return true
    end
    if find(text, '^false', position) then
      position = position + 5
      return false
    end
    if find(text, '^null', position) then
      position = position + 4
      return null
    end
    if settings.decode_invalid and (c == '+' or odd_number(position)) then return read_number('value') end
    expected('value', token('value'), position)
  end

  -- The library

  local cjson = {_NAME = 'cjson', _VERSION = '2.1.0', null = null, new = new}

  function cjson.encode(...)
    if select('#', ...) ~= 1 then bad_argument(1, 'encode', 'expected 1 argument') end
    local parts = {}
    encode_value((...), 1, parts)
    return concat(parts)
  end

  function cjson.decode(...)
    if select('#', ...) ~= 1 then bad_argument(1, 'decode', 'expected 1 argument') end
    local given = ...
    if type(given) == 'number' then given = tostring(given) end
    if type(given) ~= 'string' then bad_argument(1, 'decode', 'string expected, got ' .. type(given)) end
    if #given >= 2 and (byte(given, 1) == 0 or byte(given, 2) == 0) then
      fail('JSON parser does not support UTF-16 or UTF-32')
    end
    text, position, depth = given, 1, 0
    local value = read_value()
    skip_space()
    if position <= #text and byte(text, position) ~= 0 then expected('the end', token('the end'), position) end
    text = nil
    return value
  end

  local function choice(name, field, choices)
    cjson[name] = function(value)
      if value ~= nil then
        local found = choices[value]
        if found == nil then bad_argument(1, name, "invalid option '" .. tostring(value) .. "'") end
        settings[field] = found
      end
      return settings[field]
    end
  end
  local ON_OFF = {[true] = true, [false] = false, on = true, off = false}
  choice('encode_invalid_numbers', 'encode_invalid', {[true] = true, [false] = false, on = true, off = false, null = 'null'})
  choice('decode_invalid_numbers', 'decode_invalid', ON_OFF)
  choice('encode_keep_buffer', 'keep_buffer', ON_OFF)
  if host.has_array_mt then choice('decode_array_with_array_mt', 'array_meta', ON_OFF) end

  local function whole(name, number_of, value, low, high)
    if value == nil then return nil end
    local n = tonumber(value)
    if not n then bad_argument(number_of, name, 'number expected, got ' .. type(value)) end
    n = floor(n)
    if n < low or n > high then bad_argument(1, name, format('expected integer between %d and %d', low, high)) end
    return n
  end

  local function limit(name, field, high)
    cjson[name] = function(value)
      settings[field] = whole(name, 1, value, 1, high) or settings[field]
      return settings[field]
    end
  end
  limit('encode_max_depth', 'encode_depth', LARGEST)
  limit('decode_max_depth', 'decode_depth', LARGEST)
  limit('encode_number_precision', 'precision', 14)

  function cjson.encode_sparse_array(convert, ratio, safe)
    if convert ~= nil then
      if ON_OFF[convert] == nil then bad_argument(1, 'encode_sparse_array', "invalid option '" .. tostring(convert) .. "'") end
      settings.sparse_convert = ON_OFF[convert]
    end
    settings.sparse_ratio = whole('encode_sparse_array', 2, ratio, 0, LARGEST) or settings.sparse_ratio
    settings.sparse_safe = whole('encode_sparse_array', 3, safe, 0, LARGEST) or settings.sparse_safe
    return settings.sparse_convert, settings.sparse_ratio, settings.sparse_safe
  end

  return cjson
end

return new()
