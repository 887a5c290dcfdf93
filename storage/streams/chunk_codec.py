"""The packed form of an unread chunk of stream entries: its columns, deflated into one bytes object.

Chunks loaded from a file may keep their form in the file instead (``codecs/stream_nodes``).

Entries repeat each other (field names, the RESP around them, most of an ID), so most chunks shrink to between a tenth and a
third. Columns of numbers are stored as differences between neighbours, which deflate to almost nothing.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate
from operator import add, sub
from typing import ClassVar, Final, NamedTuple, Protocol

_LEVEL: Final = 1  # higher levels save a tenth more and take two to four times as long
_RAW: Final = -15  # no header and no checksum: the bytes never leave the process
_HEAD: Final = struct.Struct("<HI")  # number of entries, length of their data
_NUMBERS: Final = struct.Struct("<cQ")  # type of the steps, the first number
_EQUAL: Final = b"="
_ABSOLUTE: Final = {b"1": "B", b"2": "H", b"4": "I", b"8": "Q"}
_SIZES: Final = {b"B": 1, b"H": 2, b"I": 4}
PACKED_OBJECTS: Final = 80  # bytes of a packed chunk's own objects
_MOST_PER_ENTRY: Final = 8 + 8 + 4 + 1  # bytes of the columns beside the data
_SOME: Final = 64  # bytes before the columns
_ID_LINE: Final = b"%d-%d\r\n"
# The bytes before an ID line, by the length of that line.
_BEGINNINGS: Final = tuple(b"*2\r\n$%d\r\n" % max(length - 2, 0) for length in range(2 * 20 + 4))
# The size of an entry's head: those bytes and the ID, by the length of the ID.
_HEAD_SIZES: Final = tuple(len(beginning) + length for length, beginning in enumerate(_BEGINNINGS))[2:]


class Columns(NamedTuple):
    """The parts of a chunk; see ``Chunk``. In a packed chunk, each sequence takes as few bytes as the greatest one needs."""

    data: bytes
    ms: array[int]
    seq: array[int]
    offsets: array[int]
    heads: bytearray


class Encoded(NamedTuple):
    """Encoded entries with their IDs, and for each the length of the part before its fields."""

    entries: list[bytes]
    heads: bytes

    def fields(self) -> list[bytes]:
        """Return the field part of each entry."""
        return [entry[head:] for entry, head in zip(*self, strict=True)]


class Packed(Protocol):
    """A packed chunk, which replaces an unread ``Chunk`` in a stream. It is immutable, so copies of the stream share it.

    Its length is the number of its entries.
    """

    # True if it can be read quickly. Otherwise another form replaces it after the first read.
    is_quick: ClassVar[bool]

    def __len__(self) -> int: ...

    @property
    def memory(self) -> int:
        """Approximate memory of the packed chunk in bytes."""

    @property
    def payload_bytes(self) -> int:
        """The bytes of the encoded entries."""

    def columns(self) -> Columns:
        """Return all columns of the chunk; the data begins with the first entry."""

    def data(self) -> bytes:
        """Return the encoded entries without the other columns."""


def columns_of(ids: list[tuple[int, int]], fields: list[bytes]) -> Columns:
    """Return the columns of entries, given the two halves of their IDs and their encoded fields."""
    entries, heads = joined(entry_heads(ids), fields)
    return Columns(
        b"".join(entries),
        array("Q", [ms for ms, _ in ids]),
        narrowed(array("Q", [seq for _, seq in ids])),
        array("I", accumulate(map(len, entries), initial=0)),
        bytearray(heads),
    )


def entry_heads(ids: list[tuple[int, int]]) -> list[bytes]:
    """Return the bytes before the fields of entries with these IDs."""
    return [_BEGINNINGS[len(line)] + line for line in map(_ID_LINE.__mod__, ids)]


def fields_form(names: Iterable[bytes]) -> bytes:
    """Return a format string for the encoded fields of an entry with these names: it takes each value's length and bytes."""
    parts = [b"$%d\r\n%b\r\n$%%d\r\n%%b\r\n" % (len(name), name.replace(b"%", b"%%")) for name in names]
    return b"*%d\r\n%b" % (2 * len(parts), b"".join(parts))


def joined(heads: list[bytes], fields: list[bytes]) -> Encoded:
    """Join the bytes before the fields of each entry (``entry_heads``) with its encoded fields."""
    return Encoded(list(map(add, heads, fields)), bytes(map(len, heads)))


def with_ids(ids: Sequence[bytes], fields: list[bytes]) -> Encoded:
    """Encode entries from the texts of their IDs and their encoded fields."""
    return joined(list(map(b"*2\r\n$%d\r\n%b\r\n".__mod__, zip(map(len, ids), ids, strict=True))), fields)


def encoded_entries(
    ids: Sequence[bytes], names: Sequence[bytes], values: Sequence[Sequence[bytes]]
) -> Encoded:
    """Encode entries with the same field names from the texts of their IDs and one column of values for each name."""
    form, columns = _words_form(ids)
    form = b"*2\r\n%b*%d\r\n" % (form, 2 * len(names))
    for name, column in zip(names, values, strict=True):
        value, more = _words_form(column)
        form += b"$%d\r\n%b\r\n%b" % (len(name), name.replace(b"%", b"%%"), value)
        columns += more
    entries = list(map(form.__mod__, zip(*columns, strict=True)))
    return Encoded(entries, bytes(map(_HEAD_SIZES.__getitem__, map(len, ids))))


def _words_form(column: Sequence[bytes]) -> tuple[bytes, list[Sequence[object]]]:
    """Return a format string for the words of a column, and its arguments; the usual length is written once."""
    sizes = list(map(len, column))
    if sizes.count(sizes[0]) == len(sizes):
        return b"$%d\r\n%%b\r\n" % sizes[0], [column]
    return b"$%d\r\n%b\r\n", [sizes, column]


def pack(columns: Columns) -> Deflated:
    """Pack a closed, non-empty chunk, without the bytes of trimmed entries."""
    data, ms, seq, offsets, heads = columns
    base = offsets[0]
    if base:
        data = data[base:]
        offsets = array("I", [offset - base for offset in offsets])
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, _RAW, 9)
    raw = b"".join((data, heads, *_steps(offsets), *_steps(ms), *_steps(narrowed(seq))))
    return Deflated(_HEAD.pack(len(ms), len(data)) + compressor.compress(raw) + compressor.flush())


def narrowed(column: array[int]) -> array[int]:
    """Return the column with as few bytes for each number as the greatest one needs."""
    kind = _narrow(max(column))
    return column if kind == column.typecode else array(kind, column)


def _narrow(greatest: int) -> str:
    return "B" if not greatest >> 8 else "H" if not greatest >> 16 else "I" if not greatest >> 32 else "Q"


class Deflated:
    """Columns packed by ``pack``."""

    __slots__ = ("_raw",)
    is_quick: ClassVar[bool] = True

    def __init__(self, raw: bytes) -> None:
        self._raw = raw

    def __len__(self) -> int:
        number: int = _HEAD.unpack_from(self._raw)[0]
        return number

    @property
    def memory(self) -> int:
        """Approximate memory of the deflated chunk in bytes."""
        return len(self._raw) + PACKED_OBJECTS

    @property
    def payload_bytes(self) -> int:
        """The bytes of the chunk's encoded entries."""
        size: int = _HEAD.unpack_from(self._raw)[1]
        return size

    def columns(self) -> Columns:
        """Return all columns of the chunk; the data begins with the first entry."""
        number, size = _HEAD.unpack_from(self._raw)
        raw = self._inflate(number, size)
        at = size + number
        offsets, at = _numbers("I", raw, at, number + 1)
        ms, at = _numbers("Q", raw, at, number)
        seq, _ = _numbers(None, raw, at, number)
        return Columns(raw[:size], ms, seq, offsets, bytearray(raw[size : size + number]))

    def data(self) -> bytes:
        """Return the encoded entries without the other columns, at a third of the cost."""
        number, size = _HEAD.unpack_from(self._raw)
        return self._inflate(number, size)[:size]

    def _inflate(self, number: int, size: int) -> bytes:
        at_most = size + number * _MOST_PER_ENTRY + _SOME
        return zlib.decompress(memoryview(self._raw)[_HEAD.size :], _RAW, at_most)


# Stands for the packed form of a chunk that packing makes hardly smaller.
NOT_WORTH_WHILE: Final = Deflated(_HEAD.pack(0, 0))


def _steps(column: array[int]) -> tuple[bytes, bytes]:
    """Encode a column of numbers: return its header, and the steps from each number to the next."""
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
    """Decode a column of ``number`` numbers of a type (None: the narrowest); return it and the position after it."""
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
    # An array takes bytes at once, but numbers slowly, one by one.
    return array(column, struct.pack(f"{number}{column}", *numbers)), end
