"""CRC-64/Jones, with which RDB files and DUMP payloads end, fast enough for files of some hundred megabytes.

Python adds up one byte at a time slowly, but shifts and XORs long integers fast. A CRC is a remainder of
polynomials over two values: as x^N has the same remainder as some polynomial R of degree below 64, the part of the
data above x^N may be multiplied by R (a shift and an XOR for each of its terms) and added to the part below. That
halves the data again and again; what is left in the end goes byte by byte.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

_POLYNOMIAL: Final = 0x95AC9329AC4BC9B5  # 0xAD93D23594C935A9, bits reversed
_PIECE: Final = 1 << 15  # bytes folded at once: what the processor's cache holds
_SMALL: Final = 64  # bytes below which folding costs more than it saves

# N and x^N modulo the polynomial (here with its highest power first): those N with few terms, some each octave.
_POWERS: Final = (
    (368, 0x414E4E958E1C6A01),
    (456, 0xB0ACAE02B44126F0),
    (720, 0x10A015922BB37409),
    (784, 0x3698A8AC26052490),
    (1152, 0x30521143D861D0A9),
    (1632, 0xD8475480C1325253),
    (2992, 0x63554A7000330143),
    (4088, 0x290214F06B324944),
    (4440, 0x404445BC3414DC06),
    (6496, 0x8113E2390043A80B),
    (10664, 0x104A0902A3381D13),
    (15472, 0x50D284502120407F),
    (16664, 0x1504B233400420C3),
    (25728, 0x522601E60840830),
    (43408, 0xD01C400D40E2B8),
    (50056, 0xA292A51002001173),
    (98264, 0x200024B8AF85010),
    (129456, 0xC020C02893B42101),
    (149744, 0x2001AE8810004844),
)
_BORDERS: Final = [power for power, _ in _POWERS]
_TERMS: Final = [[term for term in range(64) if rest >> term & 1] for _, rest in _POWERS]


def _table() -> tuple[int, ...]:
    found = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ _POLYNOMIAL if crc & 1 else crc >> 1
        found.append(crc)
    return tuple(found)


_TABLE: Final = _table()


def crc64(data: bytes | bytearray | memoryview, crc: int = 0) -> int:
    """The checksum of data that follows other data with the checksum ``crc``."""
    if len(data) > _PIECE:
        view = memoryview(data)
        for at in range(0, len(view), _PIECE):
            crc = crc64(view[at : at + _PIECE], crc)
        return crc
    if len(data) > 2 * _SMALL:
        data = _fold(int.from_bytes(data, "little") ^ crc, len(data) * 8)
        crc = 0
    table = _TABLE
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc


def _fold(number: int, bits: int) -> bytes:
    """Short data with the same checksum. The lowest bit of ``number`` stands for the highest power."""
    while bits > _SMALL * 8:
        which = bisect_left(_BORDERS, (bits + 64) // 2)
        power = _BORDERS[which]
        above = bits - power  # this many powers are x^N and higher
        if above <= 0:
            break
        high = number & (1 << above) - 1
        number >>= above
        room = power - above
        for term in _TERMS[which]:
            number ^= high << room - term
        bits = power
    return number.to_bytes(bits // 8, "little")
