"""``maxmemory-clients``: close the largest connections while all exceed the limit."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from ...commands.runtime.state import CLOSING

if TYPE_CHECKING:
    from ...commands.runtime.client import Client
    from ..server import Server


class ClientEviction:
    """The memory limit for the clients of one server; replicas and the master do not count."""

    def __init__(self, server: Server) -> None:
        self._server = server

    @property
    def limit(self) -> int:
        """Bytes for all clients together; 0: no limit. A percentage refers to ``maxmemory``."""
        config = self._server.config
        if config.maxmemory_clients >= 0:
            return config.maxmemory_clients
        return config.maxmemory * -config.maxmemory_clients // 100

    def look(self) -> None:
        """Close clients until the others are within the limit; called ten times a second."""
        limit = self.limit
        if not limit:
            return
        clients = [client for client in self._server.clients.values() if _may_go(client)]
        total = sum([client.memory for client in clients])
        if total <= limit:
            return
        for client in sorted(clients, key=attrgetter("memory"), reverse=True):
            total -= client.memory
            self._evict(client)
            if total <= limit:
                return

    def refuses(self, client: Client) -> bool:
        """Close a client that exceeds the limit alone; return whether it was closed."""
        limit = self.limit
        if not limit or client.memory <= limit or not _may_go(client):
            return False
        self._evict(client)
        return True

    def _evict(self, client: Client) -> None:
        server = self._server
        server.log.notice(f"Evicting client id={client.id}, it takes {client.memory} bytes")
        server.stats.evicted_clients += 1
        client.close(after_reply=False)


def _may_go(client: Client) -> bool:
    return not (client.no_evict or client.is_replica or client.trusted or client.state is CLOSING)
