"""Receive the snapshot that a master sends: a length comes first, or a mark comes last."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import BinaryIO

_CHUNK: Final = 1 << 18
_MARK: Final = 40
_LENGTH: Final = re.compile(rb"\$[0-9]{1,18}")


class SnapshotReceiver:
    """A snapshot that is being received.

    ``header``: the line before the snapshot: ``$<length>`` or ``$EOF:<mark>``.
    Raises EOFError: the header is something else.
    """

    def __init__(self, header: bytes) -> None:
        self.received = 0  # bytes so far
        self.is_complete = False  # all of it has arrived, and it is being loaded
        self._mark = header[5:] if header.startswith(b"$EOF:") else b""
        self._last = b""  # possibly the beginning of the mark
        if self._mark:
            self.total = -1  # its length in bytes; -1 if only a mark shows its end
            if len(self._mark) != _MARK:
                raise EOFError(f"Bad protocol from MASTER: a mark of {len(self._mark)} bytes")
        elif _LENGTH.fullmatch(header):
            self.total = int(header[1:])
        else:
            raise EOFError(f"Bad protocol from MASTER, the first byte is not '$': {header[:80]!r}")

    @property
    def wanted(self) -> int:
        """Maximum number of bytes to read next; 0 when it is complete."""
        if self.is_complete:
            return 0
        return _CHUNK if self._mark else min(_CHUNK, self.total - self.received)

    def take(self, data: bytes) -> bytes:
        """Count received bytes; return those that are known to be data, not the mark at the end."""
        self.received += len(data)
        if not self._mark:
            self.is_complete = self.received == self.total
            return data
        # The master sends nothing after the mark until we acknowledge, so a mark at the end of the received bytes is
        # the end.
        data = self._last + data
        self._last = data[-_MARK:]
        self.is_complete = self._last == self._mark
        return data[:-_MARK]

    async def copy(self, read: Callable[[int], Awaitable[bytes]], file: BinaryIO) -> None:
        """Receive the whole snapshot and write it to ``file``; ``read`` returns at most as many bytes as it is asked for."""
        self.is_complete = self.total == 0
        while wanted := self.wanted:
            file.write(self.take(await read(wanted)))
