-- The library ``bit``: operations on 32-bit integers, as BitOp 1.0.2. Numbers are taken modulo 2^32, results signed.
local fail, bad_argument = ...
local type, tonumber, floor, select, format = type, tonumber, math.floor, select, string.format
local WORD, HALF = 2 ^ 32, 2 ^ 31

-- An argument as an unsigned word; fractions are rounded to the nearest even.
local function word(value, number, name, count)
  local n = type(value) == 'number' and value or tonumber(value)
  if not n or type(value) == 'boolean' then
    bad_argument(number, name, 'number expected, got ' .. (count and number > count and 'no value' or type(value)))
  end
  if n % 1 ~= 0 then
    local down = floor(n)
    local rest = n - down
    if rest > 0.5 or (rest == 0.5 and down % 2 == 1) then down = down + 1 end
    n = down
  end
  return n % WORD
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
    for i = 2, count do result = apply(result, word((select(i, ...)), i, name, count)) end
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
  local n = word(value, 1, 'tohex', select('#', ...))
  local wanted = digits == nil and 8 or signed(word(digits, 2, 'tohex'))
  local text = format(wanted < 0 and '%08X' or '%08x', n)
  wanted = wanted < 0 and -wanted or wanted
  return wanted >= 8 and text or text:sub(9 - wanted)
end

return bit
