"""CRC-64/Jones, the checksum at the end of RDB files and DUMP payloads."""

from __future__ import annotations

from typing import Final

import anycrc

_MODEL: Final = anycrc.Model("CRC64-REDIS")


def crc64(data: bytes | bytearray | memoryview, crc: int = 0) -> int:
    """Return the checksum of ``data``; ``crc`` is the checksum of the bytes before it, 0 at the start."""
    checksum: int = _MODEL.calc(data, crc)
    return checksum
