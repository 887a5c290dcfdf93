-- The library ``struct``: values to bytes and back after a format, as Roberto Ierusalimschy's struct 0.2.
local fail, bad_argument, host = ...
local floor, char, byte, format, concat, type, tonumber = math.floor, string.char, string.byte, string.format,
  table.concat, type, tonumber
local log, unpack, tostring, select = math.log, unpack, tostring, select

local CONTROLS = {['<'] = true, ['>'] = true, ['!'] = true, [' '] = true}
local SIZES = {b = 1, B = 1, h = 2, H = 2, l = 8, L = 8, T = 8, f = 4, d = 8, x = 1}
local MOST = 32 -- bytes of an integer
local NATIVE_ALIGNMENT = 8
local LARGEST = 2 ^ 31 - 1
local MOST_RESULTS = 7900

local function lowest_first(value, size)
  local bytes = {}
  for i = 1, size do
    local low = value % 256
    bytes[i] = char(low)
    value = (value - low) / 256
  end
  return concat(bytes)
end

-- The bits of a number that a mask has.
local function masked(n, mask)
  local found, weight = 0, 1
  while mask > 0 do
    if mask % 2 == 1 and n % 2 == 1 then found = found + weight end
    n, mask, weight = floor(n / 2), floor(mask / 2), weight * 2
  end
  return found
end

-- An integer of some bytes, as C reads it: of more than eight the lowest eight count, and the sign bit is that of the
-- size modulo eight bytes. `at(i)` is the i-th byte, the lowest first. In two halves, so that the sum alone is rounded.
local function integer(size, signed, at)
  local bytes = size > 8 and 8 or size
  local low, high = 0, 0
  for i = bytes > 4 and 4 or bytes, 1, -1 do low = low * 256 + at(i) end
  for i = bytes, 5, -1 do high = high * 256 + at(i) end
  if not signed or size == 0 then return high * 2 ^ 32 + low end
  local kept = (size - 1) % 8 + 1
  local negative = at(kept) >= 128
  for i = kept + 1, bytes do negative = negative or at(i) > 0 end
  if not negative then return high * 2 ^ 32 + low end
  if kept <= 4 then return low % 2 ^ (8 * kept - 1) - 2 ^ (8 * kept - 1) end
  local half = 2 ^ (8 * (kept - 4) - 1)
  return (high % half - half) * 2 ^ 32 + low
end

-- A reader of formats: gives each option with its size, and the bytes of alignment before it. `check` is called before
-- an option that only sets something: unpack looks at its position first there, too.
local function options(text, check)
  text = text:match('^%Z*') -- a text of C
  local position, little, alignment = 1, true, 1
  local function number(default)
    local digits = text:match('^%d+', position)
    if not digits then return default end
    position = position + #digits
    local n = tonumber(digits)
    if n > LARGEST then fail('integral size overflow') end
    return n
  end
  return function(total)
    while position <= #text do
      local option = text:sub(position, position)
      position = position + 1
      if check and CONTROLS[option] then check() end
      if option == '<' then little = true
      elseif option == '>' then little = false
      elseif option == '!' then
        local n = number(NATIVE_ALIGNMENT)
        if n == 0 or n ~= 2 ^ floor(log(n) / log(2) + 0.5) then
          fail(format('alignment %d is not a power of 2', n))
        end
        alignment = n
      elseif option ~= ' ' then
        local size = SIZES[option]
        if option == 'i' or option == 'I' then
          size = number(4)
          if size > MOST then fail(format('integral size %d is larger than limit of %d', size, MOST)) end
        elseif option == 'c' then size = number(1)
        elseif option == 's' then size = 0
        end
        local padding = 0
        if size and size > 1 and option ~= 'c' and option ~= 's' then
          local to = size > alignment and alignment or size
          if to > 1 then padding = masked(to - masked(total, to - 1), to - 1) end
        end
        return option, size, padding, little
      end
    end
  end
end

local function kind(value, number, count) return number > count and 'no value' or type(value) end

local struct = {}

function struct.pack(...)
  local words, next_word = {...}, 2
  local text = words[1]
  if type(text) == 'number' then text = tostring(text) end
  if type(text) ~= 'string' then bad_argument(1, 'pack', 'string expected, got ' .. kind(text, 1, select('#', ...))) end
  local parts, total = {}, 0
  local function argument(kind)
    local value = words[next_word]
    local got = type(value)
    if kind == 'string' then
      if type(value) == 'number' then value = tostring(value) end
      if type(value) ~= 'string' then bad_argument(next_word, 'pack', 'string expected, got ' .. got) end
    else
      local n = type(value) ~= 'boolean' and tonumber(value)
      if not n then bad_argument(next_word, 'pack', 'number expected, got ' .. got) end
      value = n
    end
    next_word = next_word + 1
    return value
  end
  local function add(piece)
    parts[#parts + 1] = piece
    total = total + #piece
  end
  local read = options(text)
  while true do
    local option, size, padding, little = read(total)
    if not option then break end
    if not size then bad_argument(1, 'pack', format("invalid format option '%s'", option)) end
    if padding > 0 then add(('\0'):rep(padding)) end
    if option == 'x' then add('\0')
    elseif option == 's' or option == 'c' then
      local number = next_word
      local value = argument('string')
      if option == 's' then value = value .. '\0'
      else
        if size == 0 then size = #value end
        if #value < size then bad_argument(number + 1, 'pack', 'string too short') end
        value = value:sub(1, size)
      end
      add(value)
    elseif option == 'f' or option == 'd' then
      local value = argument('number')
      -- Python gets -0 as the integer 0: its sign is lost.
      add(host.pack_float(value == 0 and 1 / value < 0 and '-0' or value, size, little))
    else
      local value = argument('number')
      if value >= 2 ^ 64 then value = 0 elseif value ~= value or value < -2 ^ 63 then value = -2 ^ 63 end
      local bytes = lowest_first(value < 0 and -floor(-value) or floor(value), size > 8 and 8 or size)
      bytes = bytes .. ('\0'):rep(size - #bytes)
      add(little and bytes or bytes:reverse())
    end
  end
  return concat(parts)
end

function struct.unpack(...)
  local text, data, start = ...
  if type(text) == 'number' then text = tostring(text) end
  local count = select('#', ...)
  if type(text) ~= 'string' then bad_argument(1, 'unpack', 'string expected, got ' .. kind(text, 1, count)) end
  if type(data) == 'number' then data = tostring(data) end
  if type(data) ~= 'string' then bad_argument(2, 'unpack', 'string expected, got ' .. kind(data, 2, count)) end
  local position = start == nil and 1 or tonumber(start)
  if not position then bad_argument(3, 'unpack', 'number expected, got ' .. type(start)) end
  -- As C converts it to an integer of 64 bits.
  if position ~= position or position >= 2 ^ 63 or position < -2 ^ 63 then position = -2 ^ 63 end
  position = (position < 0 and -floor(-position) or floor(position)) - 1
  if position == -1 then bad_argument(3, 'unpack', 'offset must be 1 or greater') end
  local values, n = {}, 0
  local function need(size)
    if size > #data or position < 0 or position > #data - size then bad_argument(2, 'unpack', 'data string too short') end
  end
  local read = options(text, function() need(0) end)
  while true do
    local option, size, padding, little = read(position)
    if text ~= '' then need(0) end
    if not option then break end
    if n > MOST_RESULTS then fail('stack overflow (too many results)') end
    if not size then bad_argument(1, 'unpack', format("invalid format option '%s'", option)) end
    need(0)
    position = position + padding
    need(size)
    if option == 'x' then -- nothing is kept of it
    elseif option == 's' then
      local stop = data:find('\0', position + 1, true)
      if not stop then fail('unfinished string in data') end
      n = n + 1
      values[n] = data:sub(position + 1, stop - 1)
      size = stop - position
    elseif option == 'c' then
      if size == 0 then
        size = values[n]
        if type(size) ~= 'number' then fail("format 'c0' needs a previous size") end
        values[n], n = nil, n - 1
        if size ~= size or size < 0 then need(2 ^ 53) end
        size = floor(size)
        need(size)
      end
      n = n + 1
      values[n] = data:sub(position + 1, position + size)
    elseif option == 'f' or option == 'd' then
      n = n + 1
      values[n] = host.unpack_float(data:sub(position + 1, position + size), little)
    else
      local value = integer(size, option:lower() == option, function(i)
        return byte(data, little and position + i or position + size + 1 - i)
      end)
      n = n + 1
      values[n] = value
    end
    position = position + size
  end
  n = n + 1
  values[n] = position + 1
  return unpack(values, 1, n)
end

function struct.size(...)
  local text = ...
  if type(text) == 'number' then text = tostring(text) end
  if type(text) ~= 'string' then bad_argument(1, 'size', 'string expected, got ' .. kind(text, 1, select('#', ...))) end
  local read, total = options(text), 0
  while true do
    local option, size, padding = read(total)
    if not option then return total end
    if not size then
      -- As in Redis, other letters and digits are passed over.
      if not option:find('^[%w]') then bad_argument(1, 'size', format("invalid format option '%s'", option)) end
      size = 0
    end
    total = total + padding
    if option == 's' then bad_argument(1, 'size', "option 's' has no fixed size") end
    if option == 'c' and size == 0 then bad_argument(1, 'size', "option 'c0' has no fixed size") end
    total = total + size
  end
end

return struct
