"""TLS between a socket and a client's connection.

Not the event loop's own, for that can be driven by the loop only: while a slow script holds the loop up,
``server/busy`` reads the sockets by hand and has to decrypt what they bring.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from .app import Server
    from .connection import Connection

_READ_AT_ONCE: Final = 1 << 18
_WRITE_AT_ONCE: Final = 1 << 30  # OpenSSL counts in 32 bits
_SECONDS_TO_SHAKE_HANDS: Final = 60


class SecureChannel(asyncio.Protocol):
    """To the transport of a socket the protocol, and to a connection its transport.

    The connection hears of the client when the handshake is done, and sees plain bytes only.

    Args:
        context: what clients meet; one that is changed later counts for later channels.
        connection: whose transport this becomes.
    """

    __slots__ = ("_incoming", "_outgoing", "_server", "_timer", "_tls", "connection", "is_open", "transport")

    def __init__(self, server: Server, context: ssl.SSLContext, connection: Connection) -> None:
        self.connection = connection
        self.transport: asyncio.Transport | None = None
        self.is_open = False  # the handshake is done
        self._server = server
        self._timer: asyncio.TimerHandle | None = None
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)

    @property
    def close_asap(self) -> bool:
        """Whether the connection has ended, but for what is not sent yet."""
        return self.connection.close_asap

    # asyncio.Protocol: what the socket brings

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the client's first words, but not for ever."""
        self.transport = cast("asyncio.Transport", transport)
        self._server.listeners.shaking_hands.add(self)
        self._timer = self._server.loop.call_later(_SECONDS_TO_SHAKE_HANDS, self.abort)

    def data_received(self, data: bytes) -> None:
        """Decrypt what has arrived, and hand it on."""
        self._incoming.write(data)
        try:
            if not self.is_open:
                self._shake_hands()
            self._read()
        except ssl.SSLWantReadError:
            self._send()  # our part of the handshake
        except ssl.SSLError as error:
            doing = "reading from" if self.is_open else "accepting"
            self._server.log.verbose(f"Error {doing} a client connection: {error}")
            self._send()  # the alert that tells the client why
            if self.transport is not None:
                self.transport.close()

    def _shake_hands(self) -> None:
        self._tls.do_handshake()
        self._send()
        self._has_ended_handshake()
        self.is_open = True
        self.connection.connection_made(cast("asyncio.Transport", self))

    def _read(self) -> None:
        tls, incoming = self._tls, self._incoming
        pieces, goodbye = [], False
        try:
            while not goodbye and (incoming.pending or tls.pending()):
                if piece := tls.read(_READ_AT_ONCE):
                    pieces.append(piece)
                else:
                    goodbye = True
        except ssl.SSLWantReadError:
            pass  # the rest of a record is still to come
        if pieces:
            self.connection.data_received(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        self._send()  # where the client asked for other keys
        if goodbye:
            self.connection.eof_received()

    def eof_received(self) -> bool:
        """The client is gone; with or without a goodbye is the same to us."""
        return self.is_open and self.connection.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the connection if it has heard of the client at all."""
        self._has_ended_handshake()
        if self.is_open:
            self.connection.connection_lost(exc)

    def pause_writing(self) -> None:
        """The client does not read."""
        if self.is_open:
            self.connection.pause_writing()

    def resume_writing(self) -> None:
        """The client reads again."""
        if self.is_open:
            self.connection.resume_writing()

    # asyncio.Transport: what the connection wants

    def write(self, data: bytes) -> None:
        """Encrypt and send."""
        if self.is_closing():
            return
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._tls.write(rest[:_WRITE_AT_ONCE]) :]
        except ssl.SSLError as error:
            self._server.log.verbose(f"Error writing to a client connection: {error}")
            self.abort()
        else:
            self._send()

    def close(self) -> None:
        """Say goodbye, and close when everything is sent; the client's goodbye is not waited for, as in Redis."""
        if self.transport is None or self.transport.is_closing():
            return
        if self.is_open:
            with contextlib.suppress(ssl.SSLError):  # it wants to hear the client's goodbye as well
                self._tls.unwrap()
            self._send()
        self.transport.close()

    def abort(self) -> None:
        """Close at once."""
        if self.transport is not None:
            self.transport.abort()

    def is_closing(self) -> bool:
        """Whether nothing more is to be written."""
        return self.transport is None or self.transport.is_closing()

    def get_write_buffer_size(self) -> int:
        """Bytes that are not sent."""
        return self.transport.get_write_buffer_size() if self.transport is not None else 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """As an asyncio transport tells it."""
        return self.transport.get_extra_info(name, default) if self.transport is not None else default

    def pause_reading(self) -> None:
        """Let the client's bytes wait in the socket."""
        if self.transport is not None:
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Take them again."""
        if self.transport is not None:
            self.transport.resume_reading()

    def _has_ended_handshake(self) -> None:
        self._server.listeners.shaking_hands.discard(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _send(self) -> None:
        if self.transport is not None and self._outgoing.pending:
            self.transport.write(self._outgoing.read())
