"""Convert values between Lua and RESP: the words of redis.call, and the replies to it.

The result of a script is not converted here: ``replies.lua`` encodes it in Lua.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from ....protocol.replies import format_double

MakeTable: TypeAlias = Callable[..., Any]

# With 17 digits at most every version writes them alike.
_SHORT: Final = range(1 - 10**17, 10**17)
_BULK, _INTEGER, _STATUS, _ARRAY, _ERROR = b"$:+*-"
_NULL, _BOOLEAN, _DOUBLE, _MAP, _SET, _PUSH, _BIG, _VERBATIM = b"_#,%~>(="


class NotAWordError(ValueError):
    """An argument of redis.call is neither a string nor a number."""


def to_words(values: Sequence[object], write: Callable[[float], bytes] | None = None) -> list[bytes]:
    """Return the words of a command from the values of a script: strings unchanged, numbers as text.

    ``write`` formats a number that is not an integer; by default ``format_number``.

    Raises NotAWordError: a value is neither a string nor a number.
    """
    return [value if type(value) is bytes else _written(value, write or format_number) for value in values]


def _written(value: object, write: Callable[[float], bytes]) -> bytes:
    if type(value) is int:
        return b"%d" % value if value in _SHORT else write(float(value))
    if type(value) is float:
        return write(value)
    raise NotAWordError


def write_double(value: float) -> bytes:
    """Format the number in a script's ``{double=…}`` result, of which Lua gives an integer as such."""
    return format_double(float(value))


def format_number_7_0(value: float) -> bytes:
    """Like ``format_number``, but with 17 digits, as up to 7.0: integers, too."""
    return b"%b%b" % (b"-" if math.isnan(value) and math.copysign(1, value) < 0 else b"", b"%.17g" % value)


def format_number(value: float) -> bytes:
    """Format a number as Redis does since 7.2: like a double in a reply, but a NaN has its sign."""
    return b"-nan" if math.isnan(value) and math.copysign(1, value) < 0 else format_double(value)


def to_lua(reply: bytes, table: MakeTable) -> Any:
    """Convert a reply that is not an error to the value that redis.call returns.

    Strings and integers stay as they are, a status is ``{ok=…}``, arrays are tables from 1, the null of RESP2 is
    False and that of RESP3 nil; doubles, maps, sets, big numbers and verbatim strings are tables with the field
    ``double``, ``map``, ``set``, ``big_number`` or ``verbatim_string``.

    ``table``: creates a Lua table from a list or dict (``LuaRuntime.table_from``).
    """
    kind = reply[0]
    if kind == _BULK:
        start = reply.index(b"\n") + 1
        return False if reply[1] == 45 else reply[start:-2]  # a minus: null
    if kind == _INTEGER:
        return int(reply[1:-2])
    if kind == _STATUS:
        return table({b"ok": reply[1:-2]})
    value, _ = _read(reply, 0)
    return table(value, recursive=True) if isinstance(value, (list, dict)) else value


def _read(data: bytes, at: int) -> tuple[Any, int]:
    """Parse the value at a position into lists and dicts; return it, and the position after it."""
    end = data.index(b"\r\n", at)
    kind, line, behind = data[at], data[at + 1 : end], end + 2
    if kind == _BULK:
        size = int(line)
        return (False, behind) if size < 0 else (data[behind : behind + size], behind + size + 2)
    if kind == _INTEGER:
        return int(line), behind
    if kind in {_ARRAY, _PUSH}:
        count = int(line)
        return (False, behind) if count < 0 else _read_many(data, behind, count)
    if kind == _STATUS:
        return {b"ok": line}, behind
    if kind == _ERROR:
        return {b"err": line}, behind
    if kind == _NULL:
        return None, behind
    if kind == _BOOLEAN:
        return line == b"t", behind
    if kind == _DOUBLE:
        return {b"double": float(line)}, behind
    if kind == _BIG:
        return {b"big_number": line}, behind
    if kind == _VERBATIM:
        size = int(line)
        text = data[behind : behind + size]
        return {b"verbatim_string": {b"format": text[:3], b"string": text[4:]}}, behind + size + 2
    if kind == _MAP:
        items, behind = _read_many(data, behind, 2 * int(line))
        return {b"map": dict(zip(items[::2], items[1::2], strict=True))}, behind
    assert kind == _SET, f"a reply of the unknown kind {chr(kind)}"
    items, behind = _read_many(data, behind, int(line))
    return {b"set": dict.fromkeys(items, True)}, behind


def _read_many(data: bytes, at: int, count: int) -> tuple[list[Any], int]:
    items = []
    for _ in range(count):
        item, at = _read(data, at)
        items.append(item)
    return items, at


def number_of_errors(reply: bytes) -> int:
    """Return how many errors an encoded reply contains, at any depth."""
    found = at = 0
    while at < len(reply):
        end = reply.index(b"\r\n", at)
        kind, line, at = reply[at], reply[at + 1 : end], end + 2
        if kind == _ERROR:
            found += 1
        elif kind in {_BULK, _VERBATIM} and int(line) >= 0:
            at += int(line) + 2
    return found
