"""CLIENT PAUSE: commands wait until the pause is over, in the order of their arrival."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

    from ...commands.runtime.client import Client
    from ..server import Server
    from .entry import Entry


class Pause:
    """The pause of one server.

    Attributes:
        until: when it ends, in milliseconds of the server's clock; 0 without a pause.
        writes_only: commands that change nothing are not paused.
        postponed: waiting clients, each with its command at the head of its backlog.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self.until = 0
        self.writes_only = False
        self.postponed: list[Client] = []
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, until: int, *, writes_only: bool) -> None:
        """Postpone commands until a time in milliseconds; a pause that ends later keeps its end."""
        self.until = max(self.until, until)
        self.writes_only = writes_only
        self._server.update_checks()
        self.look()

    def look(self) -> None:
        """End the pause if it is due, else set the timer; also called after a virtual clock moved."""
        self.stop()
        left = self.until - self._server.clock.tick()
        if self.until and left <= 0:
            self.end()
        elif self.until:
            self._timer = self._server.loop.call_later(left / 1000, self.look)

    def end(self) -> None:
        """Resume the postponed clients."""
        self.stop()
        self.until = 0
        self._server.update_checks()
        postponed, self.postponed = self.postponed, []
        for client in postponed:
            client.postponed = False
            client.update_fast_path()
            client.resume()

    def stop(self) -> None:
        """Cancel the timer, because the pause or the server ends."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def concerns(self, entry: Entry, client: Client) -> bool:
        """Whether the pause postpones this command."""
        if not self.until or client.trusted:
            return False
        if not self.writes_only:
            return True
        if entry.name == "exec" and client.transaction is not None:
            return any(command.is_write for command, _ in client.transaction.commands)
        return entry.write or "may_replicate" in entry.command.flags

    def postpone(self, client: Client) -> None:
        """Postpone the client; the dispatcher leaves its command in its backlog."""
        client.postponed = True
        client.update_fast_path()
        self.postponed.append(client)

    def forget(self, client: Client) -> None:
        """Remove a client whose connection is gone."""
        if client in self.postponed:
            self.postponed.remove(client)
            client.postponed = False
