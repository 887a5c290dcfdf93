"""Random calls of the libraries of scripts, with hostile arguments: the answers of a real server, byte by byte.

They are the same calls each time; RILLET_SEED makes others, and RILLET_FUZZ=100 a hundred times as many.
"""

import os
import random

import pytest
from differential.pairs import PAIRS

FUZZ = int(os.environ.get("RILLET_FUZZ", "1"))
CALLS = 3_000
SEED = int(os.environ.get("RILLET_SEED", "1"))
SHOW = """local function show(v, depth)
  if depth > 6 then return '...' end
  local kind = type(v)
  if kind == 'number' then return string.format('%.17g', v) end
  if kind == 'string' then return string.format('%q', v) end
  if kind ~= 'table' then return kind == 'boolean' and tostring(v) or kind end
  local keys, parts = {}, {}
  for key in next, v do keys[#keys + 1] = key end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  for i, key in ipairs(keys) do parts[i] = '[' .. show(key, depth + 1) .. ']=' .. show(v[key], depth + 1) end
  return '{' .. table.concat(parts, ',') .. '}'
end
local results = {RESULTS}
local shown = {}
for i = 1, #results do shown[i] = show(results[i], 0) end
return shown
"""
NUMBERS = """0 1 -1 2 7 8 31 32 33 127 128 255 256 -128 -129 32767 65536 2147483647 2147483648 -2147483648 -2147483649
4294967295 4294967296 2^51 2^52 2^53 2^53+2 -2^53 2^62 2^63 -2^63 2^64 1e15 1e20 -1e20 1e300 -1e300 0/0 1/0 -1/0 0.5
1.5 2.5 -0.5 -1.5 3.14 0.1 1e-300 123456789.75""".split()
FORMATS = (
    "b B h H i I l L T f d s x c c0 c3 > < ! !4 !2 !8 !1 !16 i3 i5 I7 i8 i9 I12 i16 i32 I33 = z 5 i0".split()
)
JSON = """1 -1 1.5 1e5 0x10 01 nan inf -inf true false null "" "a" "\\\\\\\\u0041" "\\\\\\\\ud83d\\\\\\\\ude00" .5 5. 1e - tru 1e400
123456789012345678901234567890""".split()
BITS = "tobit tohex bnot band bor bxor lshift rshift arshift rol ror bswap".split()


class Calls:
    """Writes calls; the same seed writes the same."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def text(self, length: int) -> str:
        return "'" + "".join(f"\\{self.random.randrange(256):03d}" for _ in range(length)) + "'"

    def value(self, depth: int = 0) -> str:
        pick = self.random.random()
        if pick < 0.5:
            return self.random.choice(NUMBERS)
        if pick < 0.7:
            return self.text(self.random.randrange(12))
        if pick < 0.8:
            return self.random.choice(["nil", "true", "false", "'1'", "'0x10'", "''"])
        if pick < 0.95 and depth < 3:
            fields = (
                self.random.choice(["", "", "k=", "[2]=", "[1.5]=", "[-1]="]) + self.value(depth + 1)
                for _ in range(self.random.randrange(4))
            )
            return "{" + ",".join(fields) + "}"
        return self.random.choice(["{}", "function() end", "cjson.null"])

    def values(self, most: int) -> list[str]:
        return [self.value() for _ in range(self.random.randrange(most))]

    def format(self) -> str:
        return "'" + "".join(self.random.choices(FORMATS, k=self.random.randrange(1, 5))) + "'"

    def json(self, depth: int = 0) -> str:
        pick = self.random.random()
        if pick < 0.4 or depth > 3:
            return self.random.choice(JSON)
        items = [self.json(depth + 1) for _ in range(self.random.randrange(4))]
        if pick < 0.7:
            return "[" + self.random.choice([",", " , "]).join(items) + "]"
        return "{" + ",".join(f'"k{number}":{item}' for number, item in enumerate(items)) + "}"

    def call(self) -> tuple[str, list[str]]:
        pick = self.random.random()
        if pick < 0.25:
            return f"bit.{self.random.choice(BITS)}", self.values(4)
        if pick < 0.35:
            return "struct.pack", [self.format(), *self.values(4)]
        if pick < 0.5:
            start = [self.random.choice(NUMBERS)] if self.random.random() < 0.3 else []
            return "struct.unpack", [self.format(), self.text(self.random.randrange(40)), *start]
        if pick < 0.55:
            return "struct.size", [self.format()]
        if pick < 0.65:
            return "(function(...) return cmsgpack.unpack(cmsgpack.pack(...)) end)", [self.value()]
        if pick < 0.8:
            name = self.random.choice(["unpack", "unpack_one", "unpack_limit"])
            numbers = self.random.choices(NUMBERS, k=self.random.randrange(3))
            return f"cmsgpack.{name}", [self.text(self.random.randrange(14)), *numbers]
        if pick < 0.9:
            return "(function(x) return cjson.decode(cjson.encode(x)) end)", [self.value()]
        return "cjson.decode", [f"'{self.json()}'"]

    def script(self) -> str:
        function, words = self.call()
        pick = self.random.random()
        if pick < 0.4:
            return SHOW.replace("RESULTS", f"{function}({','.join(words)})")
        if pick < 0.8:
            return SHOW.replace("RESULTS", f"pcall({','.join([function, *words])})")
        return f"local value = {function}({','.join(words)}) return value"


@pytest.mark.parametrize(("mine", "real"), PAIRS)
def test_libraries_answer_as_the_real_server_does(running, mine, real):
    calls = Calls(SEED)
    with running(mine).wire() as ours, running(real).wire() as theirs:
        for _ in range(CALLS * FUZZ):
            script = calls.script()
            assert ours.call("EVAL", script, 0).encode() == theirs.call("EVAL", script, 0).encode(), script
