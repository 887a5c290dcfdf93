"""Cut the master's stream into units: a command, or a transaction from MULTI to EXEC."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from hiredis import HiredisError, Reader, pack_command

_MORE: Final = object()


class StreamError(Exception):
    """The bytes are not a replication stream."""


class LostPlaceError(StreamError):
    """The commands are not encoded canonically. Their length in the stream is then unknown, and with it the offset."""


class UnitReader:
    """Splits a replication stream into units and counts its bytes; it does no I/O."""

    __slots__ = ("_encoded", "_kept", "_raw", "_reader", "_size", "_unit")

    def __init__(self) -> None:
        self._reader = Reader(notEnoughData=_MORE)
        self._raw = bytearray()  # from the first byte that is not forwarded yet
        self._unit: list[list[bytes]] = []  # the transaction that is not complete yet
        self._size = 0  # its bytes
        self._encoded: list[bytes] = []  # commands taken and not forwarded yet, in their canonical spelling
        self._kept: tuple[list[list[bytes]], int, list[bytes]] | None = None  # a unit that was put back

    @property
    def waiting(self) -> int:
        """Number of received bytes that ``forward`` has not returned yet."""
        return len(self._raw)

    @property
    def holds_unit(self) -> bool:
        """Whether ``put_back`` has returned a unit that ``take`` has not yielded again."""
        return self._kept is not None

    def feed(self, data: bytes) -> None:
        """Append received bytes of the stream."""
        self._raw += data
        self._reader.feed(data)

    def take(self) -> Iterator[tuple[list[list[bytes]], int]]:
        """Yield the complete units of the stream as (list of commands, length in bytes).

        Raises StreamError: the bytes are not a stream of commands.
        """
        if self._kept is not None:
            (unit, size, encoded), self._kept = self._kept, None
            self._encoded += encoded
            yield unit, size
        while True:
            try:
                argv: Any = self._reader.gets()
            except (HiredisError, MemoryError, TypeError) as error:  # a length beyond memory, a list as a key
                raise StreamError(f"protocol error in the master's stream: {error}") from None
            if argv is _MORE:
                return
            if not isinstance(argv, list) or not argv or not all(type(word) is bytes for word in argv):
                raise StreamError(f"the master's stream holds {repr(argv)[:80]}, which is no command")
            record: bytes = pack_command(tuple(argv))
            self._encoded.append(record)
            self._size += len(record)
            unit = self._unit
            unit.append(argv)
            first = unit[0][0]
            if len(first) == 5 and first.upper() == b"MULTI" and argv[0].upper() != b"EXEC":
                continue
            size, self._size, self._unit = self._size, 0, []
            yield unit, size

    def put_back(self, unit: list[list[bytes]], size: int) -> None:
        """Put back the last unit that ``take`` yielded: the next ``take`` begins with it."""
        self._kept = unit, size, self._encoded[-len(unit) :]
        del self._encoded[-len(unit) :]

    def forward(self, size: int) -> bytes:
        """Return the next ``size`` bytes as received, and forget them; they must belong to taken units.

        Raises LostPlaceError: the units are not encoded canonically.
        """
        data = bytes(memoryview(self._raw)[:size])
        del self._raw[:size]
        # The commands of an incomplete transaction come last.
        open_commands = self._encoded[len(self._encoded) - len(self._unit) :]
        expected = b"".join(self._encoded[: len(self._encoded) - len(self._unit)])
        self._encoded = open_commands
        if data != expected:
            raise LostPlaceError("the master spells its commands in an unknown way")
        return data
