"""HyperLogLogs: strings that estimate how many distinct elements were added, in Redis' format.

A header of sixteen bytes: ``HYLL``, a byte for the encoding (0 dense, 1 sparse), three zero bytes, the last computed
count (little-endian; its highest bit marks it as out of date). Then 16384 registers: each holds the longest run of
zeros, plus one, at the start of any hash that belongs to it. In the dense encoding a register has six bits. The sparse
encoding consists of runs of equal registers: ``00llllll`` is a run of zeros, ``01llllll llllllll`` a longer one, and
``1vvvvvll`` one to four registers of a value up to 32 (all numbers are stored minus one).

Bytes and numbers equal those of Redis: the same hash (MurmurHash64A), the same steps when runs change, the same
estimate (O. Ertl, "New cardinality estimation algorithms for HyperLogLog sketches").
"""

from __future__ import annotations

import re
from binascii import a2b_base64, b2a_base64
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence
from itertools import compress
from math import inf, sqrt
from typing import Final

REGISTERS: Final = 1 << 14
_HASH_BITS: Final = 50  # bits of the hash's 64 that follow those of the register
_HEADER: Final = 16
_DENSE: Final = 0
_SPARSE: Final = 1
_DENSE_BYTES: Final = _HEADER + REGISTERS * 6 // 8
_OUT_OF_DATE: Final = 0x80
_LARGEST_SPARSE: Final = 32
_LONGEST_RUN: Final = 4
_LONGEST_ZERO: Final = 64
_MERGED: Final = 5  # runs that are checked for equal neighbours after a change
_RECENT_COUNTERS: Final = 64
_LONG_ZEROS: Final = re.compile(rb"[\x40-\x7f](?s:.)")  # found from the left: all other runs have one byte
# By the first byte of a run: the number of its registers, and the registers. A cut run at the end counts as too long.
_LENGTHS: Final = bytes(
    head + 1 if head < 0x40 else 0 if head < 0x80 else (head & 3) + 1 for head in range(256)
)
_EXPANDED: Final = [
    bytes(head + 1)
    if head < 0x40
    else bytes(REGISTERS + 1)
    if head < 0x80
    else bytes((head >> 2 & 31) + 1 for _ in range((head & 3) + 1))
    for head in range(256)
]
# A base64 digit has six bits, like a dense register, but base64 starts with the register that is last here.
_DIGITS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_TO_VALUES: Final = bytes.maketrans(_DIGITS, bytes(range(64)))
_TO_DIGITS: Final = bytes.maketrans(bytes(range(64)), _DIGITS)
_HIGH_BITS: Final = int.from_bytes(b"\x80" * REGISTERS, "little")
_ALPHA: Final = 0.721347520444481703680
_SEED: Final = 0xADC83B19
_MULTIPLIER: Final = 0xC6A4A7935BD1E995
_MASK: Final = (1 << 64) - 1


class NotHyperLogLogError(ValueError):
    """The string is not a HyperLogLog."""


class CorruptError(ValueError):
    """The string starts like a HyperLogLog, but its registers cannot be read."""


class HyperLogLog:
    """A mutable HyperLogLog.

    Args:
        data: the string; None creates an empty one.
        sparse_bytes: size up to which it stays sparse (hll-sparse-max-bytes).

    While it is sparse, ``_firsts`` has the first register of each run, and ``_longs`` that of each run of two bytes:
    together they give the offset of a register's run. ``_firsts`` is None until the first use.
    Raises NotHyperLogLogError: the string is something else.
    """

    __slots__ = ("_data", "_end", "_firsts", "_longs", "_sparse_bytes")

    def __init__(self, data: bytes | None = None, sparse_bytes: int = 3000) -> None:
        if data is None:
            data = b"HYLL\x01" + bytes(11) + _zeros(REGISTERS)
        elif (
            len(data) < _HEADER
            or not data.startswith(b"HYLL")
            or data[4] > _SPARSE
            or (data[4] == _DENSE and len(data) != _DENSE_BYTES)
        ):
            raise NotHyperLogLogError
        self._data = bytearray(data)
        self._sparse_bytes = sparse_bytes
        self._firsts: list[int] | None = None
        self._longs: list[int] = []
        self._end = 0  # total registers of all runs

    @classmethod
    def opened(cls, data: bytes | None, sparse_bytes: int) -> HyperLogLog:
        """Return a HyperLogLog like the constructor, but faster if ``close`` has returned this string recently.

        ``data`` is None for an empty one, and ``sparse_bytes`` is hll-sparse-max-bytes.
        """
        counter = None if data is None else _recent.pop(data, None)
        if counter is None:
            return cls(data, sparse_bytes)
        counter._sparse_bytes = sparse_bytes  # noqa: SLF001 - its own
        return counter

    def close(self) -> bytes:
        """Return the string; the counter must not be used afterwards.

        The last few counters are kept: without them, PFADD of one element to 3000 bytes takes 100 us, for it reads all
        runs.
        """
        data = bytes(self._data)
        if self._firsts is not None and not self.is_dense:
            _recent[data] = self
            if len(_recent) > _RECENT_COUNTERS:
                del _recent[next(iter(_recent))]
        return data

    def __bytes__(self) -> bytes:
        return bytes(self._data)

    @property
    def is_dense(self) -> bool:
        """Whether it uses the dense encoding."""
        return self._data[4] == _DENSE

    def add(self, element: bytes) -> bool:
        """Add an element; return False if no register changed. May raise CorruptError."""
        place, rank = _place_and_rank(element)
        return self.set(place, rank)

    def set(self, place: int, rank: int) -> bool:
        """Raise the register with the number ``place`` to ``rank``; return False if it is already as high.

        May raise CorruptError.
        """
        changed = self._set_dense(place, rank) if self.is_dense else self._set_sparse(place, rank)
        if changed:
            self.forget_count()
        return changed

    def forget_count(self) -> None:
        """Mark the cached count in the header as out of date."""
        self._data[15] |= _OUT_OF_DATE

    def known_count(self) -> int | None:
        """Return the cached count in the header; None if it is out of date."""
        return None if self._data[15] & _OUT_OF_DATE else int.from_bytes(self._data[8:16], "little")

    def count(self) -> int:
        """Estimate the number of distinct elements, and store it in the header. May raise CorruptError."""
        count = estimate(self.registers())
        self._data[8:16] = count.to_bytes(8, "little")
        return count

    def registers(self) -> bytearray:
        """Return all registers, one per byte. May raise CorruptError."""
        data = self._data
        if self.is_dense:
            return bytearray(b2a_base64(data[: _HEADER - 1 : -1], newline=False).translate(_TO_VALUES)[::-1])
        runs: list[bytes] = []
        at = _HEADER
        for zeros in _LONG_ZEROS.finditer(data, _HEADER):
            runs += map(_EXPANDED.__getitem__, data[at : zeros.start()])
            runs.append(bytes(_long_length(zeros[0])))
            at = zeros.end()
        runs += map(_EXPANDED.__getitem__, data[at:])
        found = bytearray().join(runs)
        if len(found) != REGISTERS:
            raise CorruptError
        return found

    def become_dense(self) -> None:
        """Convert to the dense encoding. May raise CorruptError."""
        if not self.is_dense:
            self._fill_dense(self.registers())

    def set_all(self, registers: bytearray) -> None:
        """Set all registers; none may become lower. May raise CorruptError."""
        if self.is_dense:
            self._fill_dense(registers)
            return
        for place in compress(range(REGISTERS), registers):
            self.set(place, registers[place])

    def _fill_dense(self, registers: bytearray) -> None:
        self._data[4] = _DENSE
        self._data[_HEADER:] = a2b_base64(registers[::-1].translate(_TO_DIGITS))[::-1]
        self._firsts = None

    def _set_dense(self, place: int, rank: int) -> bool:
        at, shift = divmod(6 * place, 8)
        at += _HEADER
        two = int.from_bytes(self._data[at : at + 2], "little")
        if (two >> shift & 63) >= rank:
            return False
        two = two & ~(63 << shift) | rank << shift
        self._data[at : at + 2] = two.to_bytes(2, "little")[: len(self._data) - at]
        return True

    def _set_sparse(self, place: int, rank: int) -> bool:
        if rank > _LARGEST_SPARSE:
            return self._promote(place, rank)
        data = self._data
        firsts, longs = self._runs()
        if place >= self._end:
            raise CorruptError
        index = bisect_right(firsts, place) - 1
        first = firsts[index]
        at = _HEADER + index + bisect_left(longs, first)
        size, length, value = self._run(at)
        if value >= rank:
            return False
        run = _zeros if not value else lambda count: bytes((_value(value, count),))
        parts = [(place, bytes((_value(rank, 1),)))]
        if place > first:
            parts.insert(0, (first, run(place - first)))
        if place < first + length - 1:
            parts.append((place + 1, run(first + length - 1 - place)))
        runs = b"".join([part for _, part in parts])
        if len(runs) > size and len(data) + len(runs) - size > self._sparse_bytes:
            return self._promote(place, rank)
        data[at : at + size] = runs
        firsts[index : index + 1] = [start for start, _ in parts]
        if size > 1:
            del longs[bisect_left(longs, first)]
        for start, part in parts:
            if len(part) > 1:
                insort(longs, start)
        before = max(index - 1, 0)
        self._merge(_HEADER + before + bisect_left(longs, firsts[before]), before)
        return True

    def _runs(self) -> tuple[list[int], list[int]]:
        """Return ``_firsts`` and ``_longs``; compute them at the first use."""
        if self._firsts is None:
            firsts: list[int] = []
            longs: list[int] = []
            data, at, first = self._data, _HEADER, 0
            for zeros in (*_LONG_ZEROS.finditer(data, _HEADER), None):
                for length in data[at : zeros and zeros.start()].translate(_LENGTHS):
                    firsts.append(first)
                    first += length
                if zeros is not None:
                    firsts.append(first)
                    longs.append(first)
                    first += _long_length(zeros[0])
                    at = zeros.end()
            self._firsts, self._longs, self._end = firsts, longs, first
        return self._firsts, self._longs

    def _promote(self, place: int, rank: int) -> bool:
        self.become_dense()
        return self._set_dense(place, rank)

    def _merge(self, at: int, index: int) -> None:
        """Join equal neighbours among a few runs if one byte can hold both; ``at`` and ``index`` give the first run."""
        data = self._data
        firsts, _ = self._runs()
        for _ in range(_MERGED):
            if at >= len(data):
                return
            head = data[at]
            if head < 0x80:
                at += 1 if head < 0x40 else 2
                index += 1
                continue
            if at + 1 < len(data) and data[at + 1] >= 0x80 and head >> 2 == data[at + 1] >> 2:
                length = (head & 3) + (data[at + 1] & 3) + 2
                if length <= _LONGEST_RUN:
                    data[at : at + 2] = bytes((_value((head >> 2 & 31) + 1, length),))
                    del firsts[index + 1]
                    continue
            at += 1
            index += 1

    def _run(self, at: int) -> tuple[int, int, int]:
        """Return the run at an offset: its bytes, its registers, its value."""
        head = self._data[at]
        if head >= 0x80:
            return 1, (head & 3) + 1, (head >> 2 & 31) + 1
        if head < 0x40:
            return 1, head + 1, 0
        if at + 1 >= len(self._data):
            raise CorruptError
        return 2, ((head & 63) << 8 | self._data[at + 1]) + 1, 0


_recent: Final[dict[bytes, HyperLogLog]] = {}  # sparse counters, by their strings; the latest is last


def _long_length(run: bytes) -> int:
    """Return the number of registers of a run of zeros that has two bytes."""
    return ((run[0] & 63) << 8 | run[1]) + 1


def _zeros(length: int) -> bytes:
    """Encode a run of zero registers."""
    length -= 1
    return bytes((length,)) if length < _LONGEST_ZERO else bytes((0x40 | length >> 8, length & 0xFF))


def _value(value: int, length: int) -> int:
    """Encode a short run of nonzero registers."""
    return 0x80 | (value - 1) << 2 | (length - 1)


def registers_of(elements: Iterable[bytes]) -> bytearray:
    """Return the registers of a HyperLogLog with these elements, one per byte."""
    found = bytearray(REGISTERS)
    for element in elements:
        place, rank = _place_and_rank(element)
        found[place] = max(found[place], rank)
    return found


def highest(several: Sequence[bytearray]) -> bytearray:
    """Return the registers of the union of several HyperLogLogs: the maximum of each register."""
    # One integer holds all registers: where the high bit remains, the first one is not lower.
    union, *others = [int.from_bytes(each, "little") for each in several]
    for other in others:
        high = (union | _HIGH_BITS) - other & _HIGH_BITS
        chosen = high - (high >> 7)
        union = union & chosen | other & ~chosen
    return bytearray(union.to_bytes(REGISTERS, "little"))


def estimate(registers: bytearray) -> int:
    """Estimate the number of distinct elements that produced these registers."""
    z = REGISTERS * _tau((REGISTERS - registers.count(_HASH_BITS + 1)) / REGISTERS)
    # The few of a sparse counter: counting is 15 times faster in these.
    raised = registers.translate(None, b"\0")
    for rank in range(_HASH_BITS, 0, -1):
        z = (z + raised.count(rank)) * 0.5
    z += REGISTERS * _sigma((REGISTERS - len(raised)) / REGISTERS)
    return int(_ALPHA * REGISTERS * REGISTERS / z + 0.5)


def _tau(x: float) -> float:
    if x in {0.0, 1.0}:
        return 0.0
    y, z, before = 1.0, 1 - x, inf
    while z != before:
        x = sqrt(x)
        before = z
        y *= 0.5
        z -= (1 - x) ** 2 * y
    return z / 3


def _sigma(x: float) -> float:
    if x == 1:
        return inf
    y, z, before = 1.0, x, inf
    while z != before:
        x *= x
        before = z
        z += x * y
        y += y
    return z


def _place_and_rank(element: bytes) -> tuple[int, int]:
    """Return the register of an element, and the value to raise it to."""
    hashed = murmur_hash(element)
    rest = hashed >> 14 | 1 << _HASH_BITS
    return hashed & (REGISTERS - 1), (rest & -rest).bit_length()


def murmur_hash(data: bytes) -> int:
    """Return MurmurHash64A (A. Appleby, public domain) with Redis' seed."""
    size = len(data)
    h = _SEED ^ (size * _MULTIPLIER & _MASK)
    whole = size & ~7
    for at in range(0, whole, 8):
        k = int.from_bytes(data[at : at + 8], "little") * _MULTIPLIER & _MASK
        h = (h ^ ((k ^ k >> 47) * _MULTIPLIER & _MASK)) * _MULTIPLIER & _MASK
    if size > whole:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _MASK
    h = (h ^ h >> 47) * _MULTIPLIER & _MASK
    return h ^ h >> 47
