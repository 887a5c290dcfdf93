"""Reads the bytes of an RDB (or AOF) file, with a running checksum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..loading import RdbError
from .crc64 import crc64

SHORT_READ: Final = "Short read or OOM loading DB. Unrecoverable error, aborting now."
_AHEAD: Final = 1 << 16
# One system call requests at most this many bytes, so that a false length reserves no memory.
_AT_ONCE: Final = 1 << 20


class EmptyValueError(RdbError):
    """A collection has no elements; a load of a file skips its key, as Redis does."""


class PayloadRefusedError(RdbError):
    """A DUMP payload has an unknown version or a wrong checksum; RESTORE has its own error text for this."""


class ByteSource:
    """The bytes of one file, read from its start, with the current position.

    Args:
        read: returns at most the given number of bytes; none only at the end of the file.
        data: bytes that were read before.
    """

    def __init__(self, read: Callable[[int], bytes], data: bytes = b"") -> None:
        # Lists of field names in this file, by their numbers; later hashes refer to the numbers.
        self.templates: dict[int, list[bytes]] = {}
        self.proven = False  # a checksum covers the content, so values may check parts of it later
        self._read = read
        self._data = data
        self._at = 0  # position of the next byte in the buffered data
        self._start = 0  # position of the buffered data in the file
        self._ahead = 0  # minimum number of bytes to read
        self._sum = 0
        self._summed = -1  # end of the summed part of the buffered data; -1: no checksum is computed

    @classmethod
    def of(cls, data: bytes) -> ByteSource:
        """Return a source of bytes in memory."""
        return cls(lambda _count: b"", data)

    @property
    def position(self) -> int:
        """Number of bytes taken so far."""
        return self._start + self._at

    def peek(self, count: int) -> bytes:
        """Return the next bytes without taking them; fewer only at the end of the file."""
        self._fill(count)
        return self._data[self._at : self._at + count]

    def read(self, count: int) -> bytes:
        """Take up to `count` bytes; fewer only at the end of the file."""
        at = self._at
        if at + count > len(self._data):
            self._fill(count)
            at = self._at
        data = self._data[at : at + count]
        self._at = at + len(data)
        return data

    def take(self, count: int) -> bytes:
        """Take exactly `count` bytes; raise RdbError at the end of the file."""
        at = self._at
        end = at + count
        if end > len(self._data):
            self._fill(count)
            at = self._at
            end = at + count
            if end > len(self._data):
                raise RdbError(SHORT_READ)
        self._at = end
        return self._data[at:end]

    def byte(self) -> int:
        """Take one byte; raise RdbError at the end of the file."""
        at = self._at
        if at >= len(self._data):
            return self.take(1)[0]
        self._at = at + 1
        return self._data[at]

    def skip(self, count: int) -> None:
        """Skip bytes without buffering them; raise RdbError at the end of the file."""
        while count:
            piece = min(count, _AT_ONCE)
            self.take(piece)
            count -= piece

    def begin_checksum(self) -> None:
        """Start a checksum, and read ahead, because small pieces follow."""
        self._ahead = _AHEAD
        self._sum = 0
        self._summed = self._at

    def checksum(self) -> int:
        """End the checksum; return the CRC64 of the bytes since ``begin_checksum``."""
        self._add_to_sum()
        self._summed = -1
        self._ahead = 0
        return self._sum

    def _add_to_sum(self) -> None:
        if self._summed >= 0:
            self._sum = crc64(memoryview(self._data)[self._summed : self._at], self._sum)
            self._summed = self._at

    def _fill(self, count: int) -> None:
        """Buffer ``count`` bytes, or all that the file has left."""
        have = len(self._data) - self._at
        if have >= count:
            return
        self._add_to_sum()
        pieces = [self._data[self._at :]]
        while have < count:
            more = self._read(min(max(count - have, self._ahead), _AT_ONCE))
            if not more:
                break
            pieces.append(more)
            have += len(more)
        self._start += self._at
        self._data = b"".join(pieces)
        self._at = 0
        self._summed = min(self._summed, 0)


def is_rdb(source: ByteSource) -> bool:
    """Return True if a file starts like an RDB file of Redis or Valkey."""
    head = source.peek(6)
    return head.startswith(b"REDIS") or head == b"VALKEY"
