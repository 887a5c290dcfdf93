"""DEBUG CLOCK AUTO-SKIP: the clock moves to what clients wait for, as soon as all of them wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...commands.runtime.state import BLOCKED

if TYPE_CHECKING:
    from ..server import Server

# Steps of the cron without input until a client that is not blocked counts as one that waits for others: a test keeps
# connections of its own.
_IDLE: Final = 5


class AutoSkip:
    """Skips for one server.

    Attributes:
        enabled: by DEBUG CLOCK AUTO-SKIP.
    """

    def __init__(self, server: Server) -> None:
        self.enabled = False
        self._server = server
        self._input = 0
        self._quiet = 0  # steps of the cron

    def look(self) -> None:
        """Skip if all clients wait; called by the cron."""
        if not self.enabled:
            return
        server = self._server
        stats = server.stats
        seen = stats.net_input + stats.connections_received
        self._quiet = self._quiet + 1 if seen == self._input else 0
        self._input = seen
        if not self._quiet or not server.blocking.waiters:
            return
        if self._quiet >= _IDLE or all(client.state is BLOCKED for client in server.clients.values()):
            server.skip()

    def reset(self) -> None:
        """Begin without it."""
        self.enabled = False
