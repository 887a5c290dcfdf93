"""``maxmemory-clients``: close the largest connections while all clients together exceed the limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ...commands.runtime.client import Client
from ...commands.runtime.state import CLOSING

if TYPE_CHECKING:
    from ..server import Server

_LEAST: Final = 128 << 10  # bytes; with a lower limit no client could use the server


class ClientEviction:
    """The memory limit for the clients of one server; replicas and the master do not count.

    A client counts with its last measured size. It is measured before each of its commands, including the arguments;
    when its input ends within a request; and ten times a second.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._sizes: dict[Client, int] = {}
        self._total = 0

    @property
    def limit(self) -> int:
        """The limit in bytes for all clients together (maxmemory-clients); 0: no limit.

        A percentage refers to ``maxmemory``.
        """
        config = self._server.config
        limit = config.maxmemory_clients
        if limit < 0:
            limit = config.maxmemory * -limit // 100
        return max(limit, _LEAST) if limit else 0

    def enforce_limit(self) -> None:
        """Measure all clients; while they exceed the limit together, close the largest."""
        self._sizes = {}
        if self.limit:
            self._measure_all()
            self._evict()

    def evicts(self, client: Client, argv: Sequence[bytes] = ()) -> bool:
        """Measure a client, including the arguments of the command that it is about to run, and enforce the limit.

        Return True if this client was closed.
        """
        if not self.limit or not _counts(client):
            return False
        # Later requests may have been read here already; Redis would not have read them yet.
        size = client.held_bytes + sum(map(len, argv)) if argv else client.memory
        self._total += size - self._sizes.get(client, 0)
        self._sizes[client] = size
        if self._total >= self.limit:
            self._measure_all()
            self._total += size - self._sizes[client]
            self._sizes[client] = size
            self._evict()
        return client.state is CLOSING

    def _measure_all(self) -> None:
        clients = filter(_counts, self._server.clients.values())
        self._sizes = {client: client.memory for client in clients}
        self._total = sum(self._sizes.values())

    def _evict(self) -> None:
        server = self._server
        for client in sorted(self._sizes, key=self._sizes.__getitem__, reverse=True):
            if self._total < self.limit:
                return
            if not client.no_evict:
                size = self._sizes.pop(client)
                self._total -= size
                server.log.notice(f"Evicting client id={client.id}, it takes {size} bytes")
                server.stats.evicted_clients += 1
                client.close(after_reply=False)


def _counts(client: Client) -> bool:
    return not (client.is_replica or client.trusted or client.state is CLOSING)
