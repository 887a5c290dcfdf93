-- The library ``bit``: operations on 32-bit integers, as BitOp 1.0.2. Numbers are taken modulo 2^32, results signed.
local fail, bad_argument = ...
local type, tonumber, floor, select, format = type, tonumber, math.floor, select, string.format
local frexp, huge = math.frexp, math.huge
local WORD, HALF = 2 ^ 32, 2 ^ 31
local MAGIC, MANTISSA = 2 ^ 52 + 2 ^ 51, 2 ^ 53

-- An argument as an unsigned word, as BitOp reads it: the lowest 32 bits of the double that 2^52 + 2^51 is added to.
-- Fractions are rounded to the nearest even so, and what is no number of 51 bits gives bits of its mantissa.
local function word(value, number, name, count)
  local n = type(value) == 'number' and value or tonumber(value)
  if not n or type(value) == 'boolean' then
    bad_argument(number, name, 'number expected, got ' .. (count and number > count and 'no value' or type(value)))
  end
  n = n + MAGIC
  if n ~= n or n == huge or n == -huge then return 0 end
  if n < 0 then n = -n end
  local mantissa = frexp(n)
  return mantissa * MANTISSA % WORD
end

local function signed(n)
  return n >= HALF and n - WORD or n
end

-- By nibbles: tables of 256 results each.
local function by_nibbles(of_bits)
  local results = {}
  for a = 0, 15 do
    for b = 0, 15 do
      local sum, weight, x, y = 0, 1, a, b
      for _ = 1, 4 do
        sum = sum + of_bits(x % 2, y % 2) * weight
        weight, x, y = weight * 2, floor(x / 2), floor(y / 2)
      end
      results[a * 16 + b] = sum
    end
  end
  return function(a, b)
    local sum, weight = 0, 1
    for _ = 1, 8 do
      local x, y = a % 16, b % 16
      sum = sum + results[x * 16 + y] * weight
      weight, a, b = weight * 16, (a - x) / 16, (b - y) / 16
    end
    return sum
  end
end

local bit = {}

for name, of_bits in pairs {
  band = function(x, y) return x * y end,
  bor = function(x, y) return x + y - x * y end,
  bxor = function(x, y) return (x + y) % 2 end,
} do
  local apply = by_nibbles(of_bits)
  bit[name] = function(...)
    local count = select('#', ...)
    local result = word((...), 1, name, count)
    -- From the last on, which an error of more than one argument names.
    for i = count, 2, -1 do result = apply(result, word((select(i, ...)), i, name, count)) end
    return signed(result)
  end
end

local function shifts(name, shift)
  bit[name] = function(...)
    local value, by = ...
    local count = select('#', ...)
    return signed(shift(word(value, 1, name, count), word(by, 2, name, count) % 32))
  end
end

shifts('lshift', function(n, by) return n * 2 ^ by % WORD end)
shifts('rshift', function(n, by) return floor(n / 2 ^ by) end)
shifts('arshift', function(n, by) return floor(signed(n) / 2 ^ by) % WORD end)
shifts('rol', function(n, by) return n * 2 ^ by % WORD + floor(n / 2 ^ (32 - by)) end)
shifts('ror', function(n, by) return floor(n / 2 ^ by) + n * 2 ^ (32 - by) % WORD end)

function bit.tobit(...) return signed(word((...), 1, 'tobit', select('#', ...))) end

function bit.bnot(...) return signed(WORD - 1 - word((...), 1, 'bnot', select('#', ...))) end

function bit.bswap(...)
  local n, swapped = word((...), 1, 'bswap', select('#', ...)), 0
  for _ = 1, 4 do
    swapped = swapped * 256 + n % 256
    n = floor(n / 256)
  end
  return signed(swapped)
end

-- tohex(x [, digits]): negative for capitals.
function bit.tohex(...)
  local value, digits = ...
  local count = select('#', ...)
  local n = word(value, 1, 'tohex', count)
  local wanted = count < 2 and 8 or signed(word(digits, 2, 'tohex', count))
  local text = format(wanted < 0 and '%08X' or '%08x', n)
  wanted = wanted < 0 and -wanted or wanted
  return wanted >= 8 and text or text:sub(9 - wanted)
end

return bit
