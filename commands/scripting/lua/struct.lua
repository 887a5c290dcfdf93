-- The library ``struct``: values to bytes and back after a format, as Roberto Ierusalimschy's struct 0.2.
local fail, bad_argument, host = ...
local floor, char, byte, format, concat, type, tonumber = math.floor, string.char, string.byte, string.format,
  table.concat, type, tonumber
local log, unpack, tostring = math.log, unpack, tostring

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

-- A reader of formats: gives each option with its size, and the bytes of alignment before it.
local function options(text)
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
          if to > 1 then padding = (to - total % to) % to end
        end
        return option, size, padding, little
      end
    end
  end
end

local struct = {}

function struct.pack(...)
  local words, next_word = {...}, 2
  local text = words[1]
  if type(text) == 'number' then text = tostring(text) end
  if type(text) ~= 'string' then bad_argument(1, 'pack', 'string expected, got ' .. (text == nil and 'no value' or type(text))) end
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
      add(host.pack_float(argument('number'), size, little))
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
  if type(text) ~= 'string' then bad_argument(1, 'unpack', 'string expected, got ' .. (text == nil and 'no value' or type(text))) end
  if type(data) == 'number' then data = tostring(data) end
  if type(data) ~= 'string' then bad_argument(2, 'unpack', 'string expected, got ' .. (data == nil and 'no value' or type(data))) end
  local position = start == nil and 1 or tonumber(start)
  if not position then bad_argument(3, 'unpack', 'number expected, got ' .. type(start)) end
  if position ~= position then bad_argument(2, 'unpack', 'data string too short') end
  position = position - 1
  if position == -1 then bad_argument(3, 'unpack', 'offset must be 1 or greater') end
  local values, n = {}, 0
  local function need(size)
    if size > #data or position < 0 or position > #data - size then bad_argument(2, 'unpack', 'data string too short') end
  end
  local read = options(text)
  while true do
    local option, size, padding, little = read(position)
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
        if size < 0 then need(2 ^ 53) end
        need(size)
      end
      n = n + 1
      values[n] = data:sub(position + 1, position + size)
    elseif option == 'f' or option == 'd' then
      n = n + 1
      values[n] = host.unpack_float(data:sub(position + 1, position + size), little)
    else
      local value, low, high = 0, position + size, position + 1
      -- Only the lowest eight bytes count.
      if size > 8 then
        if little then low = position + 8 else high = position + size - 7 end
      end
      if little then
        for i = low, position + 1, -1 do value = value * 256 + byte(data, i) end
      else
        for i = high, position + size do value = value * 256 + byte(data, i) end
      end
      local bits = 8 * (size > 8 and 8 or size)
      if option:lower() == option and value >= 2 ^ (bits - 1) then
        value = 0
        -- Bytewise from -1, so that large negative numbers are as exact as a double is.
        for i = 1, size > 8 and 8 or size do
          local at = little and position + (size > 8 and 8 or size) + 1 - i or high + i - 1
          value = value * 256 + 255 - byte(data, at)
        end
        value = -value - 1
      end
      n = n + 1
      values[n] = value
    end
    position = position + size
  end
  n = n + 1
  values[n] = position + 1
  return unpack(values, 1, n)
end

function struct.size(text)
  if type(text) ~= 'string' then bad_argument(1, 'size', 'string expected, got ' .. (text == nil and 'no value' or type(text))) end
  local read, total = options(text), 0
  while true do
    local option, size, padding = read(total)
    if not option then return total end
    total = total + padding
    if option == 's' then bad_argument(1, 'size', "option 's' has no fixed size") end
    if option == 'c' and size == 0 then bad_argument(1, 'size', "option 'c0' has no fixed size") end
    total = total + (size or 0)
  end
end

return struct
