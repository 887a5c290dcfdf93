"""Transports that wrap a connection's own, and lose or delay the output."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    import asyncio

    class HasTransport(Protocol):
        """A connection whose transport a fault can replace: to the server, or through a proxy."""

        transport: asyncio.Transport | None


class Faulty:
    """A transport that passes everything on to a connection's real one.

    The constructor puts it in place of the real one.
    """

    is_faulty = True  # no transport of an event loop has this attribute

    def __init__(self, connection: HasTransport) -> None:
        assert connection.transport is not None
        self.connection = connection
        self.real: asyncio.Transport = connection.transport
        connection.transport = cast("asyncio.Transport", self)

    def __getattr__(self, name: str) -> Any:
        """Return this attribute of the wrapped transport."""
        return getattr(self.real, name)


class Cut(Faulty):
    """Loses everything after a number of bytes.

    ``passing``: the number of bytes that still pass.
    """

    def __init__(self, connection: HasTransport, passing: int) -> None:
        super().__init__(connection)
        self._passing = passing

    def write(self, data: bytes) -> None:
        """Send data up to the number of bytes that may pass; drop the rest."""
        if self._passing:
            self.real.write(data[: self._passing])
            self._passing = max(self._passing - len(data), 0)


class Slow(Faulty):
    """Sends a few bytes at a time; once all are sent, the connection gets its own transport back.

    Args:
        size: bytes to send at a time.
        milliseconds: the wait before each piece.
    """

    def __init__(
        self, connection: HasTransport, loop: asyncio.AbstractEventLoop, size: int, milliseconds: int
    ) -> None:
        super().__init__(connection)
        self._loop = loop
        self._size = size
        self._seconds = milliseconds / 1000
        self._unsent = bytearray()
        self._closes = self._hurries = False
        self._timer: asyncio.TimerHandle | None = None

    def write(self, data: bytes) -> None:
        """Queue data for the client; timers send it piece by piece."""
        if self._hurries:
            self.real.write(data)
            return
        self._unsent += data
        self._schedule()

    def _schedule(self) -> None:
        if self._timer is None and self._unsent:
            self._timer = self._loop.call_later(self._seconds, self._step)

    def _step(self) -> None:
        self._timer = None
        if self.real.is_closing():
            return
        self.real.write(bytes(self._unsent[: self._size]))
        del self._unsent[: self._size]
        if self._unsent:
            self._schedule()
        else:
            self._end()

    def hurry(self) -> None:
        """Send everything queued now, and later data at once, because the fault has ended."""
        self._hurries = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self.real.is_closing():
            self.real.write(bytes(self._unsent))
        self._unsent.clear()
        self._end()

    def _end(self) -> None:
        if self.connection.transport is cast("asyncio.Transport", self):
            self.connection.transport = self.real
        if self._closes:
            self.real.close()

    def get_write_buffer_size(self) -> int:
        """Return the number of unsent bytes."""
        return len(self._unsent) + self.real.get_write_buffer_size()

    def is_closing(self) -> bool:
        """Return True if the connection takes no more data."""
        return self._closes or self.real.is_closing()

    def close(self) -> None:
        """Close the connection after everything is sent."""
        self._closes = True
        if not self._unsent:
            self.real.close()
