"""The two connections of a proxied client, to the client and to the server: flow control, holding and closing.

If one side cannot take more bytes, the other is paused. The bytes themselves are handled in ``link.py``.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from .session import Session

if TYPE_CHECKING:
    from .listener import Listener


class Relay(asyncio.Protocol):
    """A client's connection to the proxy: passes its requests on to the server and the replies back."""

    def __init__(self, listener: Listener, number: int) -> None:
        # The proxy's knowledge of the client's session.
        self.session = Session(number, keeps_id=listener.keeps_ids)
        self.transport: asyncio.Transport | None = None  # the transport to the client
        self._listener = listener
        self._server: asyncio.Transport | None = None
        self._pauses: set[str] = set()  # reasons why the client is not read
        self._server_pauses: set[str] = set()
        self._unread = b""
        # Requests are held until the server is connected, or until an earlier command ends.
        self._is_held = True
        self._has_begun = self._is_closed = self._has_left = False

    def server_data(self, data: bytes) -> None:
        """Process bytes from the server; ``Link`` implements it."""
        raise NotImplementedError

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport to the client."""
        self.transport = cast("asyncio.Transport", transport)
        self._listener.open_sides[self] = self.transport

    async def _connect(self) -> None:
        side = _ServerSide(self)
        try:
            made = await self._listener.upstream.connect(lambda: side)
        except asyncio.CancelledError:
            self._listener.side_is_closed(side)  # uvloop closes it without telling its protocol
            raise
        except OSError:
            self.close(at_once=True)  # as if the server had disconnected
            return
        self._server = made
        if self._is_closed:
            made.abort()
            return
        if self._listener.is_parted:
            self.part()
        else:
            self._begin()

    def _begin(self) -> None:
        """Process the requests so far, now that the server is connected."""
        self._has_begun = True
        self._is_held = False
        unread, self._unread = self._unread, b""
        if unread:
            self.data_received(unread)
        if not self._is_held:
            self._resume("held")
        if self._has_left:
            self.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Close the connection to the server as well."""
        del exc
        self.close()
        self._listener.side_is_closed(self)

    def eof_received(self) -> bool:
        """Pass the client's end of input on to the server; return True if the client's side stays open for replies."""
        self._has_left = True
        self._listener.delays.forget(self)
        if not self._has_begun:
            return True
        if self._server is not None and not self._server.is_closing() and self._server.can_write_eof():
            self._server.write_eof()
            return True
        return False

    def pause_writing(self) -> None:
        """Pause reading from the server: the client is slow."""
        self._pause_server("full")

    def resume_writing(self) -> None:
        """Resume reading from the server."""
        self._resume_server("full")

    def _pause(self, why: str) -> None:
        _pause(self.transport, self._pauses, why)

    def _resume(self, why: str) -> None:
        _resume(self.transport, self._pauses, why)

    def _pause_server(self, why: str) -> None:
        _pause(self._server, self._server_pauses, why)

    def _resume_server(self, why: str) -> None:
        _resume(self._server, self._server_pauses, why)

    def part(self) -> None:
        """Pause reading from both sides, as in a network partition; bytes that are sent wait."""
        self._pause("partition")
        self._pause_server("partition")

    def heal(self) -> None:
        """End the partition of ``part``: read from both sides again."""
        self._resume("partition")
        self._resume_server("partition")
        if self._server is not None and not self._has_begun:
            self._begin()

    def close(self, *, at_once: bool = False) -> None:
        """Close both connections; written bytes still arrive, unless ``at_once``."""
        if self._is_closed:
            return
        self._is_closed = True
        for side in (self._server, self.transport):
            if side is not None:
                if at_once:
                    side.abort()
                else:
                    side.close()

    def _hold(self) -> None:
        self._is_held = True

    def _release(self) -> None:
        """Process the requests that waited for an earlier one."""
        self._is_held = False
        unread, self._unread = self._unread, b""
        if unread and not self._has_left:
            self.data_received(unread)
        if not self._is_held:
            self._resume("held")

    def _write(self, data: bytes) -> None:
        transport = self.transport
        if transport is not None and not transport.is_closing():
            transport.write(data)


def _pause(transport: asyncio.Transport | None, reasons: set[str], why: str) -> None:
    """Add a reason not to read from a transport."""
    if not reasons and transport is not None and not transport.is_closing():
        transport.pause_reading()
    reasons.add(why)


def _resume(transport: asyncio.Transport | None, reasons: set[str], why: str) -> None:
    """Remove a reason, and read again if it was the last one."""
    if why not in reasons:
        return
    reasons.discard(why)
    if not reasons and transport is not None and not transport.is_closing():
        transport.resume_reading()


class _ServerSide(asyncio.Protocol):
    """The connection of one client to the server."""

    def __init__(self, link: Relay) -> None:
        self._link = link

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        sides = self._link._listener.open_sides  # noqa: SLF001 - the two sides of one link
        sides[self] = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._link.server_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._link.close()
        self._link._listener.side_is_closed(self)  # noqa: SLF001 - the two sides of one link

    def pause_writing(self) -> None:
        self._link._pause("full")  # noqa: SLF001 - the two sides of one link

    def resume_writing(self) -> None:
        self._link._resume("full")  # noqa: SLF001 - the two sides of one link
