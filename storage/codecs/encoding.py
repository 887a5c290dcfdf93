"""Lengths and strings in RDB: big-endian lengths of four sizes, integers, LZF."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ..loading import RdbError

try:
    import lzf
except ImportError:  # pyproject.toml names the Python versions that have a wheel
    from . import plain_lzf as lzf

if TYPE_CHECKING:
    from .byte_source import ByteSource

_INTEGER: Final = re.compile(rb"(?:0|-?[1-9][0-9]{0,9})\Z")
# LZF turns three bytes into at most 264.
_BEST_RATIO: Final = 88
_LEAST_TO_COMPRESS: Final = 21  # bytes
_LEAST_SAVED: Final = 4  # bytes; the header of a compressed string takes as many


def encode_length(number: int) -> bytes:
    """Encode a number below 2^64 as an RDB length of one, two, five or nine bytes."""
    if number < 64:
        return bytes((number,))
    if number < 16384:
        return bytes((0x40 | number >> 8, number & 0xFF))
    if number < 1 << 32:
        return b"\x80" + number.to_bytes(4, "big")
    return b"\x81" + number.to_bytes(8, "big")


def encode_string(text: bytes) -> bytes:
    """Encode a string without compression; as an integer if it looks like one of at most 32 bits."""
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


def compress_string(text: bytes) -> bytes:
    """Encode a string; compress it if that makes it shorter."""
    size = len(text)
    if size >= _LEAST_TO_COMPRESS:
        packed: bytes | None = lzf.compress(text, size - _LEAST_SAVED)
        if packed is not None:
            return packed_string(packed, size)
    return encode_string(text)


def packed_string(packed: bytes, size: int) -> bytes:
    """Encode an already compressed string; ``size`` is its uncompressed length in bytes."""
    return b"\xc3%b%b%b" % (encode_length(len(packed)), encode_length(size), packed)


def read_length(source: ByteSource) -> int:
    """Read an RDB length; raise RdbError if the bytes start a specially encoded string instead."""
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
    """Read an RDB string of any encoding: plain, an integer, or compressed with LZF."""
    text, size = read_raw_string(source)
    return text if size is None else unpack_lzf(text, size)


def read_raw_string(source: ByteSource) -> tuple[bytes, int | None]:
    """Read a string, but leave it compressed.

    Return the bytes, and the size for ``unpack_lzf``; None if the bytes are not compressed.
    """
    first = source.peek(1)
    if not first or first[0] < 0xC0:
        return source.take(read_length(source)), None
    source.byte()
    kind = first[0] & 0x3F
    if kind <= 2:
        return b"%d" % int.from_bytes(source.take(1 << kind), "little", signed=True), None
    if kind == 3:
        packed_size, size = read_length(source), read_length(source)
        return source.take(packed_size), size
    raise RdbError(f"Unknown RDB string encoding type {kind}")


def skip_string(source: ByteSource) -> None:
    """Skip an RDB string of any encoding."""
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
    """Decompress LZF data. Raises RdbError: the data is damaged, or does not decompress to ``size`` bytes."""
    # Check this before any allocation: a few bytes can claim any size.
    if 0 < size <= len(data) * _BEST_RATIO:
        try:
            text: bytes | None = lzf.decompress(data, size)
        except ValueError:
            text = None
        if text is not None and len(text) == size:
            return text
    raise RdbError("Invalid LZF compressed string")
