"""CRC-64/Jones, the checksum at the end of RDB files and DUMP payloads."""

from __future__ import annotations

from typing import Final

import anycrc

_MODEL: Final = anycrc.Model("CRC64-REDIS")


def crc64(data: bytes | bytearray | memoryview, crc: int = 0) -> int:
    """Compute the checksum of data that follows other data, whose checksum is ``crc``."""
    checksum: int = _MODEL.calc(data, crc)
    return checksum
