-- Functions that Lua 5.1 reserves too little stack for (CVE-2014-5461). A call reserves what the registers of the function
-- need, and a function that uses `...` moves its fixed parameters above its arguments besides: each parameter without an
-- argument lies one slot beyond. Seven slots are spare there, and a metamethod takes four of them unasked (callTM of
-- lvm.c), so three parameters are safe. `refused(f, text)` gives
-- the line of the first function with more, at any depth; of a text that is known it looks for those with a chance only.
local byte, char, dump, find = string.byte, string.char, string.dump, string.find
local MOST_PARAMETERS = 3
local NEEDS_ARG = 4 -- it has a table `arg`, not `...`: for that one Lua asks for room again
local code, at, little, of_int, of_size, of_instruction, of_number

local function integer(size)
  local a, b, c, d = byte(code, at, at + 3)
  at = at + size
  if little == 1 then return a + b * 2 ^ 8 + c * 2 ^ 16 + d * 2 ^ 24 end -- no length needs more
  a, b, c, d = byte(code, at - 4, at - 1)
  return a * 2 ^ 24 + b * 2 ^ 16 + c * 2 ^ 8 + d
end

local function skip(size, each)
  local count = integer(size)
  at = at + count * each
end

-- The line of the first one in the function that the dump has here.
local function first_refused()
  skip(of_size, 1) -- the name of the chunk
  local line = integer(of_int)
  local _, parameters, vararg = byte(code, at + of_int, at + of_int + 2)
  if vararg > 0 and vararg < NEEDS_ARG and parameters > MOST_PARAMETERS then return line end
  at = at + of_int + 4
  skip(of_int, of_instruction)
  for _ = 1, integer(of_int) do -- constants
    local kind = byte(code, at)
    at = at + 1
    if kind == 4 then skip(of_size, 1)
    elseif kind == 3 then at = at + of_number
    elseif kind == 1 then at = at + 1
    end
  end
  for _ = 1, integer(of_int) do
    local found = first_refused()
    if found then return found end
  end
  skip(of_int, of_int) -- the line of each instruction
  for _ = 1, integer(of_int) do -- locals
    skip(of_size, 1)
    at = at + 2 * of_int
  end
  for _ = 1, integer(of_int) do skip(of_size, 1) end -- upvalues
end

local SPACE, NAME = {}, {}
for c = 0, 255 do
  SPACE[c] = find(char(c), '%s') ~= nil
  NAME[c] = c >= 128 or find(char(c), '[%w_]') ~= nil
end
local COMMA, CLOSING = byte(',]', 1, 2)
local ENDS_LINE = {[byte('\n')] = true, [byte('\r')] = true}

-- May a text have one? Three names and commas stand before its dots then (`self` may be the fourth parameter), or a comment,
-- which ends with a line or a bracket, between them. To look at a function takes longer than to compile it.
local function may_have(text)
  local dots = find(text, '...', 1, true)
  local commented = dots and find(text, '--', 1, true)
  while dots do
    local place, commas = dots - 1, 0
    local c = byte(text, place)
    while c do
      if c == COMMA then
        commas = commas + 1
        if commas == MOST_PARAMETERS then return true end
      elseif commented and (c == CLOSING or ENDS_LINE[c]) then return true
      elseif not (SPACE[c] or NAME[c] and commas > 0) then break
      end
      place = place - 1
      c = byte(text, place)
    end
    dots = find(text, '...', dots + 3, true)
  end
  return false
end

return function(f, text)
  if text and not may_have(text) then return nil end
  code, at = dump(f), 13
  little, of_int, of_size, of_instruction, of_number = byte(code, 7, 11)
  local line = first_refused()
  code = nil
  return line
end
