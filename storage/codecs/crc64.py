"""CRC-64/Jones, the checksum at the end of RDB files and DUMP payloads."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import anycrc


def crc64(data: bytes | bytearray | memoryview, crc: int = 0) -> int:
    """Return the checksum of ``data``; ``crc`` is the checksum of the bytes before it, 0 at the start."""
    checksum: int = _model().calc(data, crc)
    return checksum


@cache
def _model() -> anycrc.Model:
    import anycrc  # it imports bitarray, and most servers of tests write no RDB

    return anycrc.Model("CRC64-REDIS")
