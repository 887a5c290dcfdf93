"""The clients of a server: the connected ones, the observers among them, and the cleanup after a disconnect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...commands.runtime.client import Client
from ...commands.runtime.state import BLOCKED
from ...commands.transactions.handlers import unwatch_all
from .connection import Connection
from .sockets_across_resets import Dormant

if TYPE_CHECKING:
    from ..server import Server


class Clients(dict[int, "Client"]):
    """The connected clients that commands show and count, by ID."""

    def __init__(self, server: Server) -> None:
        super().__init__()
        self._server = server
        self._last_id = 0
        self.controls: set[Client] = set()  # the connections that DEBUG CONTROL removed from all lists
        # The connections with more unsent output than the socket accepts.
        self.congested: set[Connection] = set()
        # The connections at their soft output limit, and since when (milliseconds).
        self.over_soft_limit: dict[Connection, int] = {}
        self.dormant: set[Dormant] = set()  # the sockets without a client that DEBUG RESET has kept
        self.monitors: set[Client] = set()  # the clients in MONITOR mode

    def next_id(self) -> int:
        """Return a new client ID; IDs start at 1 and are never reused."""
        self._last_id += 1
        return self._last_id

    def are_full(self) -> bool:
        """Return True if maxclients is reached; clients in a TLS handshake count."""
        server = self._server
        return len(self) + len(server.listeners.shaking_hands) >= server.config.maxclients

    def close_idle(self, now: int) -> None:
        """Close the clients that sent nothing for longer than the directive ``timeout``; 0 closes none.

        Blocked clients, subscribers, monitors, replicas and their masters stay, as in Redis.
        """
        timeout = self._server.config.timeout
        if not timeout:
            return
        for client in list(self.values()):
            idle = now - client.last_interaction > timeout * 1000
            is_quiet = client.is_subscriber or client.monitor or client.is_replica or client.trusted
            if idle and client.state is not BLOCKED and not is_quiet:
                self._server.log.verbose("Closing idle client")
                client.close(after_reply=False)

    def forget(self, client: Client) -> None:
        """Remove a disconnected client from every registry (blocked, subscribed, watching …); a second call does nothing."""
        if self.pop(client.id, None) is None and client not in self.controls:
            return
        server = self._server
        self.controls.discard(client)
        server.stats.keep(client)
        server.blocking.forget(client)
        server.replication.forget(client)
        server.pubsub.remove(client)
        server.tracking.remove(client)
        if client in self.monitors:
            self.monitors.remove(client)
            self.update_observers()
        server.pause.forget(client)
        server.ending.forget(client)
        if server.debugging_if_used is not None:
            server.debugging_if_used.forget(client)
        server.background_jobs.forget(client)
        unwatch_all(client)

    def close_all(self, *, after_reply: bool = True) -> None:
        """Close every connection, the control connections first."""
        for client in [*self.controls, *self.values()]:
            client.close(after_reply=after_reply)
        for socket in list(self.dormant):
            socket.transport.close()

    def update_observers(self) -> None:
        """Set ``Server.has_observers`` and ``Server.run_single`` after a client began or ended MONITOR or tracking."""
        self._server.has_observers = bool(self.monitors) or any(
            client.tracking is not None for client in self.values()
        )
        self._server.choose_single()

    def take_control(self, client: Client) -> None:
        """Hide a client from all lists (DEBUG CONTROL); neither the ACL nor a pause applies to it."""
        client.trusted = True
        if self.pop(client.id, None) is not None:
            self.controls.add(client)

    def end_control(self, client: Client) -> None:
        """Turn a control connection back into a plain client (RESET)."""
        if client in self.controls:
            self.controls.remove(client)
            self[client.id] = client
            client.trusted = False
