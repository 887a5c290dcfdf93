"""A connection to a monitored server."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import hiredis

from ...protocol import replies
from .state import Instance


class Link(asyncio.Protocol):
    """A client connection of the sentinel; replies come in the order of the commands.

    Args:
        instance: the server; its ``pending`` counts commands without a reply.
        on_lost: called once when the connection is closed, by whichever side.
    """

    def __init__(self, instance: Instance, on_lost: Callable[[], None]) -> None:
        self._instance = instance
        self._on_lost = on_lost
        self._reader = hiredis.Reader()
        self._waiting: deque[asyncio.Future[Any]] = deque()
        self._transport: asyncio.Transport
        self.closed = False

    @classmethod
    async def open(cls, instance: Instance, on_lost: Callable[[], None]) -> Link:
        """Connect to a server and return the link; raise OSError if that fails."""
        loop = asyncio.get_running_loop()
        _, link = await loop.create_connection(lambda: cls(instance, on_lost), instance.host, instance.port)
        return link

    def send(self, *words: bytes) -> asyncio.Future[Any]:
        """Send a command; its reply may be an error, as ``hiredis.ReplyError``.

        Raises ConnectionError: the connection was lost; the future raises it as well.
        """
        if self.closed:
            raise ConnectionResetError
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append(reply)
        self._instance.pending += 1
        self._transport.write(replies.command(words))
        return reply

    def close(self) -> None:
        """Close the connection; the futures of commands without a reply raise ConnectionError."""
        self._transport.close()
        self._lose()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport for commands."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Pass each reply to the command that waits for it."""
        self._reader.feed(data)
        try:
            while self._waiting and (reply := self._reader.gets()) is not False:
                self._instance.pending -= 1
                waiting = self._waiting.popleft()
                if not waiting.done():
                    waiting.set_result(reply)
        except hiredis.ProtocolError:
            self.close()  # the peer is not a Redis server

    def connection_lost(self, exc: Exception | None) -> None:
        """Let the futures of commands without a reply raise ConnectionError."""
        del exc
        self._lose()

    def _lose(self) -> None:
        if self.closed:
            return
        self.closed = True
        self._on_lost()
        self._instance.pending -= len(self._waiting)
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_exception(ConnectionResetError())
