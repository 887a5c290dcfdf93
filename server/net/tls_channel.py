"""TLS between a socket and a client's connection.

The event loop's own TLS works only in the loop. While a slow script blocks the loop, ``server/net/busy_script`` reads
the sockets itself and must decrypt the input.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections import deque
from typing import Any, Final, cast

from ...commands.runtime.state import State
from ..server import Server
from .connection import Connection

_READ_AT_ONCE: Final = 1 << 18
# A limit on records, because a record may hold a single byte and still costs a microsecond.
_RECORDS_AT_ONCE: Final = 512
_ENCRYPTED_AT_ONCE: Final = 1 << 16
_ENCRYPTED_IN_A_TURN: Final = 1 << 19
# With this many bytes waiting for encryption, the connection runs no more commands.
_ENOUGH: Final = 1 << 16
_SECONDS_TO_SHAKE_HANDS: Final = 10
"""Redis has no such limit; a handshake takes two round trips."""


class SecureChannel(asyncio.Protocol):
    """TLS of one client: the protocol of the socket's transport, and in turn the transport of the connection.

    The connection learns of the client after the handshake, and sees only plain bytes. Its output is encrypted no faster
    than the socket accepts it, with a limit per round of the event loop; the rest waits unencrypted.

    Args:
        context: the TLS settings; changes apply to later channels.
        connection: the connection whose transport this becomes.
    """

    def __init__(self, server: Server, context: ssl.SSLContext, connection: Connection) -> None:
        self.connection = connection
        self.transport: asyncio.Transport | None = None
        self.is_open = False  # the handshake is done
        self._server = server
        self._timer: asyncio.TimerHandle | None = None
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._has_more = False  # some received bytes are not decrypted yet
        self._is_paused = False  # the connection has paused reading
        self._waiting: deque[bytes | memoryview] = deque()  # plain bytes, to be encrypted
        self._waiting_bytes = 0
        self._is_full = False  # the socket accepts no more for now
        self._has_paused = False  # the connection has paused writing
        self._is_scheduled = False  # the next round of the event loop continues to encrypt
        self._closes = False  # close after sending all waiting bytes

    @property
    def state(self) -> State:
        """What happens to the client's next command, see ``commands/runtime/state``."""
        return self.connection.state

    # asyncio.Protocol: from the socket

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake, for which the client has a limited time; close at once if maxclients is reached."""
        self.transport = cast("asyncio.Transport", transport)
        server = self._server
        if server.clients.are_full():
            # Redis also closes without an error: the text would have to be encrypted.
            server.stats.connections_rejected += 1
            self.transport.close()
        else:
            self._wait_for_handshake()
        server.listeners.welcome(self)

    def _wait_for_handshake(self) -> None:
        server = self._server
        server.listeners.shaking_hands.add(self)
        self._timer = server.loop.call_later(_SECONDS_TO_SHAKE_HANDS, self.abort)

    def data_received(self, data: bytes) -> None:
        """Decrypt received bytes and pass them to the connection."""
        self._incoming.write(data)
        self._take()

    def _take(self) -> None:
        try:
            if not self.is_open:
                self._shake_hands()
            self._read()
        except ssl.SSLWantReadError:
            self._send()  # the server's part of the handshake
        except ssl.SSLError as error:
            doing = "reading from" if self.is_open else "accepting"
            self._server.log.verbose(f"Error {doing} a client connection: {error}")
            self._send()  # the alert with the reason
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
        pieces: list[bytes] = []
        goodbye = False
        try:
            while not goodbye and (incoming.pending or tls.pending()):
                if len(pieces) == _RECORDS_AT_ONCE:
                    self._read_later()
                    break
                if piece := tls.read(_READ_AT_ONCE):
                    pieces.append(piece)
                else:
                    goodbye = True
        except ssl.SSLWantReadError:
            pass  # the rest of a record is still to come
        if pieces:
            self.connection.data_received(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        self._send()  # a reply to a key update, if the client requested one
        if goodbye:
            self.connection.eof_received()

    def _read_later(self) -> None:
        """Stop reading, and continue to decrypt in the next turn of the loop."""
        self._has_more = True
        if self.transport is not None:
            self.transport.pause_reading()
        self._server.loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        if not self._has_more or self._is_paused or self.transport is None or self.transport.is_closing():
            return
        self._has_more = False
        self._take()
        if not self._has_more and not self._is_paused:
            self.transport.resume_reading()

    def eof_received(self) -> bool:
        """Tell the connection that the client has hung up, with or without a TLS goodbye.

        Return True if the transport must stay open.
        """
        return self.is_open and self.connection.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the connection that the client is gone, if the handshake was completed."""
        self._has_ended_handshake()
        self._forget_waiting()
        if self.is_open:
            self.connection.connection_lost(exc)

    def pause_writing(self) -> None:
        """Stop encrypting and pause the connection, because the socket accepts no more for now."""
        self._is_full = True
        self._pause_connection()

    def resume_writing(self) -> None:
        """Continue to encrypt, because the socket accepts data again."""
        self._is_full = False
        self._encrypt_later()

    # asyncio.Transport: from the connection

    def write(self, data: bytes) -> None:
        """Encrypt and send data: now if it is small and nothing waits, else as fast as the socket accepts it."""
        if self.is_closing():
            return
        if len(data) <= _ENCRYPTED_AT_ONCE and not (self._waiting or self._is_full):
            self._encrypt(data)
            return
        self._waiting.append(data)
        self._waiting_bytes += len(data)
        if not self._is_scheduled:
            self._encrypt_some()

    def _encrypt(self, data: bytes | memoryview) -> None:
        try:
            written = self._tls.write(data)
            while written < len(data):
                written += self._tls.write(memoryview(data)[written:])
        except ssl.SSLError as error:
            self._server.log.verbose(f"Error writing to a client connection: {error}")
            self.abort()
        else:
            self._send()

    def _encrypt_some(self) -> None:
        """Encrypt waiting bytes, within the limits of the socket and of one turn."""
        left = _ENCRYPTED_IN_A_TURN
        while self._waiting and not self._is_full and left > 0:
            data = self._next_piece()
            left -= len(data)
            self._encrypt(data)
        if self._waiting and not self._is_full:
            self._encrypt_later()
        if self._waiting_bytes > _ENOUGH:
            self._pause_connection()
        elif not self._waiting and not self._is_full:
            if self._closes:
                self._close()
            elif self._has_paused:
                self._has_paused = False
                self.connection.resume_writing()

    def _next_piece(self) -> bytes | memoryview:
        """Return the next bytes to encrypt; small pieces are joined, so that they take few records."""
        pieces: list[bytes | memoryview] = []
        size = 0
        while self._waiting and size < _ENCRYPTED_AT_ONCE:
            data = self._waiting.popleft()
            lacks = _ENCRYPTED_AT_ONCE - size
            if len(data) > lacks:
                view = memoryview(data)
                self._waiting.appendleft(view[lacks:])
                data = view[:lacks]
            pieces.append(data)
            size += len(data)
        self._waiting_bytes -= size
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _encrypt_later(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._server.loop.call_soon(self._encrypt_on)

    def _encrypt_on(self) -> None:
        self._is_scheduled = False
        if self.transport is not None and not self.transport.is_closing():
            self._encrypt_some()

    def _pause_connection(self) -> None:
        if self.is_open and not self._has_paused:
            self._has_paused = True
            self.connection.pause_writing()

    def _forget_waiting(self) -> None:
        self._waiting.clear()
        self._waiting_bytes = 0

    def close(self) -> None:
        """Close after all data and a TLS goodbye are sent, without waiting for the client's goodbye, as Redis does."""
        if self.transport is None or self.is_closing():
            return
        if self._waiting:
            self._closes = True
        else:
            self._close()

    def _close(self) -> None:
        assert self.transport is not None
        if self.is_open:
            with contextlib.suppress(ssl.SSLError):  # unwrap also expects the client's goodbye
                self._tls.unwrap()
            self._send()
        self.transport.close()

    def abort(self) -> None:
        """Close the connection at once, without the unsent data."""
        self._forget_waiting()
        if self.transport is not None:
            self.transport.abort()

    def is_closing(self) -> bool:
        """Return True if the connection takes no more data."""
        return self._closes or self.transport is None or self.transport.is_closing()

    def get_write_buffer_size(self) -> int:
        """Return the number of unsent bytes."""
        sent = self.transport.get_write_buffer_size() if self.transport is not None else 0
        return self._waiting_bytes + sent

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Implement ``asyncio.Transport.get_extra_info``."""
        return self.transport.get_extra_info(name, default) if self.transport is not None else default

    def pause_reading(self) -> None:
        """Stop reading, and leave the client's input in the socket."""
        self._is_paused = True
        if self.transport is not None:
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Resume reading from the socket."""
        self._is_paused = False
        if self._has_more:
            self._server.loop.call_soon(self._read_on)
        elif self.transport is not None:
            self.transport.resume_reading()

    def _has_ended_handshake(self) -> None:
        self._server.listeners.shaking_hands.discard(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _send(self) -> None:
        if self.transport is not None and self._outgoing.pending:
            self.transport.write(self._outgoing.read())
