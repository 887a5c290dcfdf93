"""CRC-64/Jones, with which RDB files and DUMP payloads end."""

from __future__ import annotations

from typing import Final

import anycrc

_MODEL: Final = anycrc.Model("CRC64-REDIS")


def crc64(data: bytes | bytearray | memoryview, crc: int = 0) -> int:
    """Compute the checksum of data that follows other data with the checksum ``crc``."""
    checksum: int = _MODEL.calc(data, crc)
    return checksum
