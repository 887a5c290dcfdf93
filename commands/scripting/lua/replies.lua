-- What a script returns, as RESP: ``encode(value, resp, script_resp, host)`` for a client that speaks ``resp``;
-- ``script_resp()`` is what redis.setresp chose, which decides what a boolean is.
local type, rawget, next, format, concat, gsub = type, rawget, next, string.format, table.concat, string.gsub
local match = string.match
local DEEPEST = 7900 / 3 -- about where Redis finds its own Lua stack full

-- A text of C, which ends at a zero.
local function text_of_c(text) return match(text, '^%Z*') end

local function one_line(text) return (gsub(text, '[\r\n]', ' ')) end

local null = {[2] = '$-1\r\n', [3] = '_\r\n'}

local function integer(number)
  if number ~= number or number >= 2 ^ 63 or number < -2 ^ 63 then return ':-9223372036854775808\r\n' end
  return format(':%d\r\n', number)
end

local function bulk(text) return '$' .. #text .. '\r\n' .. text .. '\r\n' end

local encode

local function encode_pairs(map, resp, script_resp, host, depth)
  local parts, n = {false}, 0
  for key, value in next, map do
    n = n + 1
    parts[#parts + 1] = encode(key, resp, script_resp, host, depth)
    parts[#parts + 1] = encode(value, resp, script_resp, host, depth)
  end
  parts[1] = resp == 3 and '%' .. n .. '\r\n' or '*' .. 2 * n .. '\r\n'
  return concat(parts)
end

local function encode_table(t, resp, script_resp, host, depth)
  if depth > DEEPEST then return '-ERR reached lua stack limit\r\n' end
  local field = rawget(t, 'err')
  if type(field) == 'string' then
    field = one_line((gsub(text_of_c(field), '[\r\n]+$', '')))
    if not rawget(t, 'ignore_error_stats_update') then host.own_error(field) end
    return '-' .. field .. '\r\n'
  end
  field = rawget(t, 'ok')
  if type(field) == 'string' then return '+' .. one_line(text_of_c(field)) .. '\r\n' end
  field = rawget(t, 'double')
  if type(field) == 'number' then
    local text = field == 0 and 1 / field < 0 and '-0' or host.double(field) -- Python gets -0 as the integer 0
    return resp == 3 and ',' .. text .. '\r\n' or bulk(text)
  end
  field = rawget(t, 'map')
  if type(field) == 'table' then return encode_pairs(field, resp, script_resp, host, depth + 1) end
  field = rawget(t, 'set')
  if type(field) == 'table' then
    local parts, n = {false}, 0
    for key in next, field do
      n = n + 1
      parts[n + 1] = encode(key, resp, script_resp, host, depth + 1)
    end
    parts[1] = (resp == 3 and '~' or '*') .. n .. '\r\n'
    return concat(parts)
  end
  field = rawget(t, 'big_number')
  if type(field) == 'string' then
    field = one_line(field)
    return resp == 3 and '(' .. field .. '\r\n' or bulk(field)
  end
  field = rawget(t, 'verbatim_string')
  if type(field) == 'table' then
    local text, kind = rawget(field, 'string'), rawget(field, 'format')
    if type(text) == 'string' and type(kind) == 'string' then
      if resp == 2 then return bulk(text) end
      return '=' .. #text + 4 .. '\r\n' .. (text_of_c(kind) .. '   '):sub(1, 3) .. ':' .. text .. '\r\n'
    end
  end
  local parts, n = {false}, 0
  while true do
    local item = rawget(t, n + 1)
    if item == nil then break end
    n = n + 1
    parts[n + 1] = encode(item, resp, script_resp, host, depth + 1)
  end
  parts[1] = '*' .. n .. '\r\n'
  return concat(parts)
end

function encode(value, resp, script_resp, host, depth)
  local kind = type(value)
  if kind == 'string' then return '$' .. #value .. '\r\n' .. value .. '\r\n' end
  if kind == 'number' then return integer(value) end
  if kind == 'table' then return encode_table(value, resp, script_resp, host, depth or 1) end
  if kind == 'boolean' then
    if script_resp() == 3 then
      if resp == 3 then return value and '#t\r\n' or '#f\r\n' end
      return value and ':1\r\n' or ':0\r\n'
    end
    return value and ':1\r\n' or null[resp]
  end
  return null[resp]
end

return encode
