"""Strings as arrays of bits, highest bit of the first byte first: SETBIT, GETBIT, BITCOUNT, BITPOS, BITOP."""

from __future__ import annotations

from functools import reduce
from io import BytesIO
from operator import and_, or_, xor
from typing import Final

from bitarray import bitarray

from ...protocol import replies
from ...protocol.errors import SYNTAX, ReplyError
from ...storage.collections.string import RAW
from ..keys.lifecycle import delete
from ..runtime.arguments import INT64_MAX, parse_integer
from ..runtime.client import Client
from ..spec.command import handles
from ..strings.shared import overwrite, read_string, store_changed, write_string, written
from . import specs

_NOT_FOUND: Final = replies.integer(-1)
_BAD_OFFSET: Final = b"ERR bit offset is not an integer or out of range"
_AT_LEAST_TWO: Final = frozenset((b"DIFF", b"DIFF1", b"ANDOR"))
_OPERATIONS: Final = frozenset((b"AND", b"OR", b"XOR", b"NOT", b"ONE", *_AT_LEAST_TWO))
_SINCE_8_2: Final = frozenset((b"ONE", *_AT_LEAST_TWO))


def parse_offset(client: Client, word: bytes, width: int | None = None) -> int:
    """Parse the position of a bit; ``#n`` is position ``n * width``, if a width is given.

    Raises ReplyError: it is not a number, is negative, or is beyond the longest string (proto-max-bulk-len).
    """
    factor = 1
    if width is not None and word.startswith(b"#"):
        word, factor = word[1:], width
    offset = parse_integer(word, _BAD_OFFSET) * factor
    if not 0 <= offset <= INT64_MAX:
        raise ReplyError(_BAD_OFFSET)
    if offset >> 3 >= client.server.config.proto_max_bulk_len and not client.replays:
        raise ReplyError(_BAD_OFFSET)
    return offset


@handles(specs.SETBIT)
def setbit(client: Client, args: list[bytes]) -> bytes:
    """Set a bit and reply with the previous one; if both are equal, nothing changes and nothing is propagated."""
    name = args[1]
    offset = parse_offset(client, args[2])
    error = b"ERR bit is not an integer or out of range"
    bit = parse_integer(args[3], error)
    if bit not in {0, 1}:
        raise ReplyError(error)
    present = write_string(client, name)
    data = present or b""
    at, mask = offset >> 3, 0x80 >> (offset & 7)
    grown = present is None or at >= len(data)
    byte = 0 if at >= len(data) else data[at]
    old = int(byte & mask != 0)
    if grown or old != bit:
        changed = bytes((byte ^ mask if old != bit else byte,))
        del present, data  # so that they need not be copied
        store_changed(client, name, written(client, name, at, changed), b"setbit")
        client.propagate(args)
    else:
        client.db.encodings[name] = RAW  # Redis unpacks the string before it reads the bit
    return replies.integer(old)


@handles(specs.GETBIT)
def getbit(client: Client, args: list[bytes]) -> bytes:
    """Reply with the bit at an offset, 0 or 1; 0 beyond the end of the string."""
    offset = parse_offset(client, args[2])
    value = read_string(client, args[1]) or b""
    at = offset >> 3
    return replies.integer(value[at] >> (7 - (offset & 7)) & 1 if at < len(value) else 0)


def _clamped(start: int, end: int, length: int) -> tuple[int, int]:
    """Return a range with both ends included and no negative positions; it may be empty."""
    first = start if start >= 0 else max(start + length, 0)
    last = end if end >= 0 else max(end + length, 0)
    return first, min(last, length - 1)


def _parse_unit(word: bytes) -> bool:
    """Return True if the unit of a range is BIT."""
    unit = word.upper()
    if unit not in {b"BYTE", b"BIT"}:
        raise ReplyError(SYNTAX)
    return unit == b"BIT"


def _edges(first: int, last: int, *, bits: bool) -> tuple[int, int]:
    """Return masks of the bits of the first and of the last byte that lie inside the range."""
    return (0xFF >> (first & 7), 0xFF << (7 - (last & 7)) & 0xFF) if bits else (0xFF, 0xFF)


def _touched(value: bytes, first: int, last: int, *, bits: bool) -> memoryview:
    """Return a view of the bytes that a range touches."""
    return memoryview(value)[first >> 3 : (last >> 3) + 1] if bits else memoryview(value)[first : last + 1]


def _next_other(data: memoryview, flip: int, start: int, size: int) -> int:
    """Return the first byte from ``start`` on that is not ``flip``; the length of the data if there is none.

    ``size`` bytes are searched at a time.
    """
    alike = bytes((flip,)) * min(size, len(data) - start)
    for at in range(start, len(data), size):
        piece = bytes(data[at : at + size])
        if piece != alike[: len(piece)]:
            return at + len(piece) - len(piece.lstrip(alike[:1]))
    return len(data)


@handles(specs.BITCOUNT)
def bitcount(client: Client, args: list[bytes]) -> bytes:
    """Reply with the number of set bits in a range; both bounds are inclusive, and negative ones count from the end."""
    late = client.server.compat.checks_bit_range_before_key
    value = None if late else read_string(client, args[1])
    if not late and value is None:
        return replies.ZERO
    start, end, bits = 0, -1, False
    if len(args) in {4, 5}:
        start, end = parse_integer(args[2]), parse_integer(args[3])
        bits = len(args) == 5 and _parse_unit(args[4])
    elif len(args) != 2:
        raise ReplyError(SYNTAX)
    if late:
        value = read_string(client, args[1])
    if not value or (start < 0 and end < 0 and start > end):
        return replies.ZERO
    first, last = _clamped(start, end, len(value) << 3 if bits else len(value))
    if first > last:
        return replies.ZERO
    data = _touched(value, first, last, bits=bits)
    before, behind = _edges(first, last, bits=bits)
    outside = (data[0] & ~before).bit_count() + (data[-1] & ~behind).bit_count()
    return replies.integer(bitarray(buffer=data).count() - outside)


@handles(specs.BITPOS)
def bitpos(client: Client, args: list[bytes]) -> bytes:
    """Reply with the position of the first bit that is 0 or 1, as requested; -1 if there is none.

    Without an end, the bits after the string count as 0.
    """
    bit = parse_integer(args[2])
    if bit not in {0, 1}:
        raise ReplyError(b"ERR The bit argument must be 1 or 0.")
    missing = _NOT_FOUND if bit else replies.ZERO
    late = client.server.compat.checks_bit_range_before_key
    value = None if late else read_string(client, args[1])
    if not late and value is None:
        return missing
    start, end, bits = 0, -1, False
    if len(args) > 6:
        raise ReplyError(SYNTAX)
    if len(args) > 3:
        start = parse_integer(args[3])
        bits = len(args) == 6 and _parse_unit(args[5])
        end = parse_integer(args[4]) if len(args) > 4 else -1
    if late:
        value = read_string(client, args[1])
    if value is None:
        return missing
    first, last = _clamped(start, end, len(value) << 3 if bits else len(value))
    if first > last:
        return _NOT_FOUND
    data = _touched(value, first, last, bits=bits)
    before, behind = _edges(first, last, bits=bits)
    flip = 0 if bit else 0xFF
    size = client.server.tuning.bit_bytes
    place, end = _next_other(data, flip, 0, size), len(data) - 1
    while place <= end:
        byte = data[place] ^ flip
        byte &= before if not place else 0xFF
        byte &= behind if place == end else 0xFF
        if byte:
            return replies.integer(((first >> 3 if bits else first) + place) * 8 + 8 - byte.bit_length())
        place = _next_other(data, flip, place + 1, size)  # the bit found lies outside the range
    return _NOT_FOUND if bit or len(args) > 4 else replies.integer(len(value) * 8)


def _combine(operation: bytes, rows: list[bitarray]) -> bitarray:
    """Compute the result of a BITOP on rows of bits of the same length."""
    if operation == b"NOT":
        return ~rows[0]
    if operation == b"AND":
        return reduce(and_, rows)
    if operation == b"OR":
        return reduce(or_, rows)
    if operation == b"XOR":
        return reduce(xor, rows)
    if operation == b"ONE":
        once, more = rows[0], rows[0] ^ rows[0]
        for row in rows[1:]:
            more = more | once & row
            once = once | row
        return once & ~more
    others = reduce(or_, rows[1:])
    if operation == b"DIFF":
        return rows[0] & ~others
    return others & ~rows[0] if operation == b"DIFF1" else rows[0] & others


def _result(operation: bytes, values: list[bytes], length: int, most: int) -> bytes:
    """Compute the result of a BITOP, at most ``most`` bytes at a time; zeros fill up the shorter strings."""
    views = [memoryview(value) for value in values]
    result = BytesIO()  # it grows in place and returns its bytes without a copy
    for at in range(0, length, most):
        size = min(most, length - at)
        result.write(_combine(operation, [_row(view[at : at + size], size) for view in views]))
    return result.getvalue()


def _row(data: memoryview, size: int) -> bitarray:
    """Show bytes as a row of bits, filled up with zeros to a size in bytes."""
    return bitarray(buffer=data if len(data) == size else bytes(data).ljust(size, b"\0"))


@handles(specs.BITOP)
def bitop(client: Client, args: list[bytes]) -> bytes:
    """Combine strings bit by bit and store the result; reply with its length in bytes, that of the longest string.

    Shorter strings are padded with zero bytes.
    """
    operation = args[1].upper()
    if operation not in _OPERATIONS or (operation in _SINCE_8_2 and not client.server.compat.knows("8.2")):
        raise ReplyError(SYNTAX)
    if operation == b"NOT" and len(args) != 4:
        raise ReplyError(b"ERR BITOP NOT must be called with a single source key.")
    if operation in _AT_LEAST_TWO and len(args) < 5:
        raise ReplyError(b"ERR BITOP %b must be called with at least two source keys." % operation)
    values = [read_string(client, name) or b"" for name in args[3:]]
    length = max(map(len, values))
    target = args[2]
    if length:
        overwrite(client, target, _result(operation, values, length, client.server.tuning.bit_bytes))
        client.db.encodings[target] = RAW
        client.propagate(args)
    elif target in client.db.entries:  # even an expired key, as in ``store_result``
        delete(client, target)
        client.propagate(args)
    return replies.integer(length)
