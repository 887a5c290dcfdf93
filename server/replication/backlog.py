"""Keep the newest part of the replication stream for replicas that reconnect."""

from __future__ import annotations

from typing import Final

_SLACK: Final = 16384  # bytes above the size before the oldest are dropped


class Backlog:
    """The newest part of the replication stream."""

    __slots__ = ("_data", "_size", "first")

    def __init__(self, size: int, offset: int) -> None:
        self._size = size
        self._data = bytearray()
        self.first = offset + 1  # offset of the oldest byte kept. The first byte of a stream has offset 1.

    def __len__(self) -> int:
        return min(len(self._data), self._size)

    @property
    def size(self) -> int:
        """Maximum number of bytes kept (repl-backlog-size)."""
        return self._size

    @size.setter
    def size(self, value: int) -> None:
        self._size = value
        self._trim()

    @property
    def first_promised(self) -> int:
        """Offset of the oldest of the last ``size`` bytes (repl_backlog_first_byte_offset); older ones may still be kept."""
        return self.first + len(self._data) - len(self)

    def append(self, data: bytes) -> None:
        """Append the next bytes of the stream, and drop old ones beyond the size."""
        self._data += data
        if len(self._data) > self._size + _SLACK:
            self._trim()

    def _trim(self) -> None:
        excess = len(self._data) - self._size
        if excess > 0:
            del self._data[:excess]
            self.first += excess

    def since(self, offset: int) -> bytes | None:
        """Return the stream from ``offset`` on, inclusive; None if that byte is no longer kept or lies beyond the end."""
        start = offset - self.first
        if not 0 <= start <= len(self._data):
            return None
        return bytes(memoryview(self._data)[start:])
