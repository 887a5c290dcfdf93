"""The master's stream cut into units: a command, or a transaction from MULTI to EXEC."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from hiredis import HiredisError, Reader, pack_command

if TYPE_CHECKING:
    from collections.abc import Iterator

_MORE: Final = object()


class StreamError(Exception):
    """The stream is not what a master sends."""


class LostPlaceError(StreamError):
    """Commands are spelled in a way that hides how long they were: nobody knows where in the stream we are."""


class Units:
    """A sans-I/O reader of a replication stream that accounts for every byte."""

    __slots__ = ("_encoded", "_raw", "_reader", "_size", "_unit")

    def __init__(self) -> None:
        self._reader = Reader(notEnoughData=_MORE)
        self._raw = bytearray()  # from the first byte that was not passed on
        self._unit: list[list[bytes]] = []  # the transaction that is not complete yet
        self._size = 0  # its bytes
        self._encoded: list[
            bytes
        ] = []  # the commands that were taken and not passed on, in the one usual spelling

    def feed(self, data: bytes) -> None:
        """Take what arrived."""
        self._raw += data
        self._reader.feed(data)

    def take(self) -> Iterator[tuple[list[list[bytes]], int]]:
        """Units that are complete, each with its length in bytes.

        Raises:
            StreamError: this is no stream of commands.
        """
        while True:
            try:
                argv: Any = self._reader.gets()
            except (HiredisError, MemoryError) as error:  # a length that no memory has
                raise StreamError(f"protocol error in the master's stream: {error}") from None
            if argv is _MORE:
                return
            if not isinstance(argv, list) or not argv or not all(type(word) is bytes for word in argv):
                raise StreamError(f"the master's stream holds {repr(argv)[:80]}, which is no command")
            encoded: bytes = pack_command(tuple(argv))
            self._encoded.append(encoded)
            self._size += len(encoded)
            unit = self._unit
            unit.append(argv)
            first = unit[0][0]
            if len(first) == 5 and first.upper() == b"MULTI" and argv[0].upper() != b"EXEC":
                continue
            size, self._size, self._unit = self._size, 0, []
            yield unit, size

    def pass_on(self, size: int) -> bytes:
        """The bytes of all the units that were taken and add up to a size, as they came; they are forgotten.

        Raises:
            LostPlaceError: they are not what came.
        """
        data = bytes(memoryview(self._raw)[:size])
        del self._raw[:size]
        # A transaction that is not complete stands behind.
        open_commands = self._encoded[len(self._encoded) - len(self._unit) :]
        expected = b"".join(self._encoded[: len(self._encoded) - len(self._unit)])
        self._encoded = open_commands
        if data != expected:
            raise LostPlaceError("the master spells its commands in an unknown way")
        return data
