"""Keep sockets open across DEBUG RESET: a new client takes each over.

This saves tests the cost of a new socket and greeting. A kept socket belongs to no client until its next bytes arrive: no
list shows it and no counter includes it. Then a new ``Connection`` takes it over as if the loop had just accepted it, with
limits, refusals and faults.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

from .connection import Connection


class Dormant(asyncio.Protocol):
    """The protocol of a kept socket, until its next bytes arrive.

    Args:
        before: the connection whose transport it takes over.
        greeting: the number of bytes with which the next client greets; it sends its first command together with them.
    """

    def __init__(self, before: Connection, greeting: int) -> None:
        assert before.transport is not None
        self.server = before.server
        self.address = before.address
        self.transport = before.transport
        self._meet = type(before)
        self._greeting = greeting
        before.transport = None
        self.server.clients.dormant.add(self)
        self.transport.set_protocol(self)

    def wake(self) -> Connection:
        """Create a client for the socket and return it."""
        self.server.clients.dormant.discard(self)
        connection = self._meet(self.server)
        self.transport.set_protocol(connection)
        connection.connection_made(self.transport)
        return connection

    def data_received(self, data: bytes) -> None:
        """Create a client for the socket, and let it receive the commands of its greeting one by one, then the rest."""
        connection = self.wake()
        for command in _commands(data[: self._greeting]):
            connection.data_received(command)
        self.server.replies.flush()
        if len(data) > self._greeting:
            connection.data_received(data[self._greeting :])

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the socket after its client or the server has closed it."""
        del exc
        self.server.clients.dormant.discard(self)


def _commands(data: bytes) -> Iterator[bytes]:
    """Split bytes after each command; an incomplete command and everything after it stay in one piece."""
    at = 0
    with contextlib.suppress(ValueError):
        while data.startswith(b"*", at):
            end = data.index(b"\r\n", at)
            for _ in range(int(data[at + 1 : end])):
                length = data.index(b"\r\n", end + 2)
                end = length + 2 + int(data[end + 3 : length])
            if not at < end + 2 <= len(data):
                break
            yield data[at : end + 2]
            at = end + 2
    if at < len(data):
        yield data[at:]
