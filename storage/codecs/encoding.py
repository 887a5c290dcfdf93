"""Lengths and strings in RDB: big-endian lengths of four sizes, integers, LZF."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from .byte_source import RdbError

if TYPE_CHECKING:
    from .byte_source import ByteSource

_INTEGER: Final = re.compile(rb"(?:0|-?[1-9][0-9]{0,9})\Z")
# LZF turns three bytes into 264 at best.
_BEST_RATIO: Final = 88


def encode_length(number: int) -> bytes:
    """Encode a number below 2^64 in one, two, five or nine bytes."""
    if number < 64:
        return bytes((number,))
    if number < 16384:
        return bytes((0x40 | number >> 8, number & 0xFF))
    if number < 1 << 32:
        return b"\x80" + number.to_bytes(4, "big")
    return b"\x81" + number.to_bytes(8, "big")


def encode_string(text: bytes) -> bytes:
    """Encode a string; one that looks like an integer of up to 32 bits becomes one."""
    size = len(text)
    if size <= 11 and _INTEGER.match(text):
        value = int(text)
        if -128 <= value < 128:
            return b"\xc0" + value.to_bytes(1, "little", signed=True)
        if -32768 <= value < 32768:
            return b"\xc1" + value.to_bytes(2, "little", signed=True)
        if -(1 << 31) <= value < 1 << 31:
            return b"\xc2" + value.to_bytes(4, "little", signed=True)
    return encode_length(size) + text


def read_length(source: ByteSource) -> int:
    """Read a length; raises RdbError for the mark of a special string."""
    first = source.byte()
    if first < 0x40:
        return first
    if first < 0x80:
        return (first & 0x3F) << 8 | source.byte()
    if first == 0x80:
        return int.from_bytes(source.take(4), "big")
    if first == 0x81:
        return int.from_bytes(source.take(8), "big")
    raise RdbError(f"Unknown length encoding {first:#x} in RDB data")


def read_string(source: ByteSource) -> bytes:
    """Read a string of any encoding."""
    first = source.peek(1)
    if not first or first[0] < 0xC0:
        return source.take(read_length(source))
    source.byte()
    kind = first[0] & 0x3F
    if kind <= 2:
        return b"%d" % int.from_bytes(source.take(1 << kind), "little", signed=True)
    if kind == 3:
        packed_size, size = read_length(source), read_length(source)
        return unpack_lzf(source.take(packed_size), size)
    raise RdbError(f"Unknown RDB string encoding type {kind}")


def skip_string(source: ByteSource) -> None:
    """Skip a string."""
    first = source.peek(1)
    if first and first[0] == 0xC3:
        source.byte()
        packed_size = read_length(source)
        read_length(source)
        source.skip(packed_size)
    elif first and first[0] > 0xC3:
        read_string(source)  # raises the right error
    elif first and first[0] >= 0xC0:
        source.skip(1 + (1 << (first[0] & 0x3F)))
    else:
        source.skip(read_length(source))


def unpack_lzf(data: bytes, size: int) -> bytes:
    """Undo LZF compression.

    Runs of literal bytes (a byte below 32: their number less one) alternate with references to earlier output (three
    bits of length, 13 bits of distance, and another byte of length if three bits are not enough).

    Raises:
        RdbError: the data is damaged, or does not unpack to ``size`` bytes.
    """
    if size > len(data) * _BEST_RATIO:
        raise RdbError("Invalid LZF compressed string")
    out = bytearray()
    at, end = 0, len(data)
    try:
        while at < end:
            control = data[at]
            at += 1
            if control < 32:
                out += data[at : at + control + 1]
                at += control + 1
                continue
            length = control >> 5
            if length == 7:
                length += data[at]
                at += 1
            start = len(out) - ((control & 0x1F) << 8 | data[at]) - 1
            at += 1
            length += 2
            if start < 0:
                raise RdbError("Invalid LZF compressed string")
            piece = out[start : start + length]
            if len(piece) < length:  # it overlaps its own output: a repeating pattern
                piece = (piece * (length // len(piece) + 1))[:length]
            out += piece
    except IndexError:
        raise RdbError("Invalid LZF compressed string") from None
    if at != end or len(out) != size:
        raise RdbError("Invalid LZF compressed string")
    return bytes(out)
