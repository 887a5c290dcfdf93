"""How the columns of a chunk of stream entries are kept while they are not read: deflated, in one piece of bytes.

Entries repeat each other (field names, the RESP around them, most of an ID), so a tenth to a third is left of most.
Columns of numbers are kept as steps from one to the next, of which deflating leaves next to nothing.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from itertools import accumulate
from operator import sub
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

_LEVEL: Final = 1  # higher ones save a tenth more and take two to four times as long
_RAW: Final = -15  # no header and no checksum: the bytes never leave the process
_HEAD: Final = struct.Struct("<HI")  # number of entries, length of their data
_NUMBERS: Final = struct.Struct("<cQ")  # type of the steps, the first number
_EQUAL: Final = b"="
_ABSOLUTE: Final = {b"1": "B", b"2": "H", b"4": "I", b"8": "Q"}
_SIZES: Final = {b"B": 1, b"H": 2, b"I": 4}
_MOST_PER_ENTRY: Final = 8 + 8 + 4 + 1  # bytes of the columns beside the data
_SOME: Final = 64  # of what stands before them


class Columns(NamedTuple):
    """What a chunk consists of; see ``Chunk``. What was packed has its sequences in as few bytes as they need."""

    data: bytes
    ms: array[int]
    seq: array[int]
    offsets: array[int]
    heads: bytearray


def pack(columns: Columns) -> bytes:
    """The packed form of a closed chunk with one entry at least; bytes of entries trimmed away are left out."""
    data, ms, seq, offsets, heads = columns
    base = offsets[0]
    if base:
        data = data[base:]
        offsets = array("I", [offset - base for offset in offsets])
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, _RAW, 9)
    raw = b"".join((data, heads, *_steps(offsets), *_steps(ms), *_steps(narrowed(seq))))
    return _HEAD.pack(len(ms), len(data)) + compressor.compress(raw) + compressor.flush()


def narrowed(column: array[int]) -> array[int]:
    """A column of which each number has as few bytes as the greatest one needs."""
    kind = _narrow(max(column))
    return column if kind == column.typecode else array(kind, column)


def _narrow(greatest: int) -> str:
    return "B" if not greatest >> 8 else "H" if not greatest >> 16 else "I" if not greatest >> 32 else "Q"


def unpack(packed: bytes) -> Columns:
    """The columns again; the data begins with the first entry."""
    number, size = _HEAD.unpack_from(packed)
    raw = _inflate(packed, number, size)
    at = size + number
    offsets, at = _numbers("I", raw, at, number + 1)
    ms, at = _numbers("Q", raw, at, number)
    seq, _ = _numbers(None, raw, at, number)
    return Columns(raw[:size], ms, seq, offsets, bytearray(raw[size : size + number]))


def unpack_data(packed: bytes) -> bytes:
    """The data alone, which costs a third."""
    number, size = _HEAD.unpack_from(packed)
    return _inflate(packed, number, size)[:size]


def _inflate(packed: bytes, number: int, size: int) -> bytes:
    at_most = size + number * _MOST_PER_ENTRY + _SOME
    return zlib.decompress(memoryview(packed)[_HEAD.size :], _RAW, at_most)


def packed_length(packed: bytes) -> int:
    """How many entries a packed chunk has."""
    number: int = _HEAD.unpack_from(packed)[0]
    return number


def packed_payload(packed: bytes) -> int:
    """How many bytes of entries a packed chunk has."""
    size: int = _HEAD.unpack_from(packed)[1]
    return size


def _steps(column: array[int]) -> tuple[bytes, bytes]:
    """A column of numbers: how it is kept, and the steps from each number to the next."""
    first = column[0]
    steps = list(map(sub, column[1:], column))
    least, most = (min(steps), max(steps)) if steps else (0, 0)
    if least < 0 or most >> 32:
        return _NUMBERS.pack(b"%d" % column.itemsize, first), column.tobytes()
    if least == most:
        return _NUMBERS.pack(_EQUAL, first), least.to_bytes(4, "little")
    kind = "B" if most < 1 << 8 else "H" if most < 1 << 16 else "I"
    return _NUMBERS.pack(kind.encode(), first), array(kind, steps).tobytes()


def _numbers(column: str | None, raw: bytes, at: int, number: int) -> tuple[array[int], int]:
    """A column of so many numbers of a type (None: as narrow as can be), and where the next begins."""
    kind, first = _NUMBERS.unpack_from(raw, at)
    at += _NUMBERS.size
    if kind in _ABSOLUTE:
        end = at + int(kind) * number
        return array(_ABSOLUTE[kind], raw[at:end]), end
    numbers: Iterable[int]
    if kind == _EQUAL:
        end = at + 4
        step = int.from_bytes(raw[at:end], "little")
        if not step:
            return array(column or _narrow(first), (first,)) * number, end
        numbers = range(first, first + step * number, step)
        last = first + step * (number - 1)
    else:
        end = at + (number - 1) * _SIZES[kind]
        steps = array(kind.decode(), raw[at:end])
        numbers = accumulate(steps, initial=first)
        last = first + sum(steps) if column is None else 0
    column = column or _narrow(last)
    # An array takes bytes at once, but numbers one by one with much ado.
    return array(column, struct.pack(f"{number}{column}", *numbers)), end
