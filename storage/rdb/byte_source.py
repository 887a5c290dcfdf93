"""The bytes of an RDB (or AOF) file as a reader takes them, with their running checksum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .crc64 import crc64

if TYPE_CHECKING:
    from collections.abc import Callable

SHORT_READ: Final = "Short read or OOM loading DB. Unrecoverable error, aborting now."
_AHEAD: Final = 1 << 16
# One system call asks for no more: a length that is a lie must not reserve memory.
_AT_ONCE: Final = 1 << 20


class RdbError(Exception):
    """The RDB data can not be read; the text says why."""


class PayloadRefusedError(RdbError):
    """A DUMP payload is of a version we do not know, or its checksum is wrong: RESTORE has an error of its own."""


class ByteSource:
    """The bytes of one file from its start, with the place reached.

    Args:
        read: gives up to so many bytes; none only at the end of the file.
        data: bytes that were read before.
    """

    def __init__(self, read: Callable[[int], bytes], data: bytes = b"") -> None:
        self._read = read
        self._data = data
        self._at = 0  # of the next byte, in the data in hand
        self._start = 0  # of the data in hand, in the file
        self._ahead = 0  # bytes that are read at least
        self._sum = 0
        self._summed = -1  # up to here in the data in hand; -1: nobody wants the checksum

    @classmethod
    def of(cls, data: bytes) -> ByteSource:
        """A source of bytes that are all there."""
        return cls(lambda _count: b"", data)

    @property
    def position(self) -> int:
        """How many bytes were taken."""
        return self._start + self._at

    def peek(self, count: int) -> bytes:
        """Give the next bytes without taking them; fewer only at the end of the file."""
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
        """Take exactly `count` bytes; RdbError at the end of the file."""
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
        """Take one byte; RdbError at the end of the file."""
        at = self._at
        if at >= len(self._data):
            return self.take(1)[0]
        self._at = at + 1
        return self._data[at]

    def skip(self, count: int) -> None:
        """Pass over bytes without holding them; RdbError at the end of the file."""
        while count:
            piece = min(count, _AT_ONCE)
            self.take(piece)
            count -= piece

    def begin_checksum(self) -> None:
        """Sum up what is taken from here on, and read ahead: it will be taken in small pieces."""
        self._ahead = _AHEAD
        self._sum = 0
        self._summed = self._at

    def checksum(self) -> int:
        """The CRC64 of what was taken since ``begin_checksum``, which ends here."""
        self._add_to_sum()
        self._summed = -1
        self._ahead = 0
        return self._sum

    def _add_to_sum(self) -> None:
        if self._summed >= 0:
            self._sum = crc64(memoryview(self._data)[self._summed : self._at], self._sum)
            self._summed = self._at

    def _fill(self, count: int) -> None:
        """Have so many bytes in hand, if there are so many."""
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
    """Tell whether a file starts as an RDB file of Redis or Valkey does."""
    head = source.peek(6)
    return head.startswith(b"REDIS") or head == b"VALKEY"
