"""CLIENT PAUSE: postpone commands, in the order of their arrival, until the pause ends."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from ...commands.runtime.client import Client
from ...commands.runtime.state import POSTPONED
from ...protocol.errors import ReplyError
from .command_entry import CommandEntry
from .flags import flags_of

if TYPE_CHECKING:
    from ..server import Server

# Commands that may add to the stream of the replicas.
_REPLICATED = frozenset(("write", "may_replicate"))


class Pause:
    """The pause of one server: by CLIENT PAUSE, or by holders, parts of the server that postpone writes."""

    def __init__(self, server: Server) -> None:
        self._server = server
        # Objects that need the data unchanged, such as a failover that waits for a replica or a migration of slots.
        self.holders: set[object] = set()
        self.until = 0  # the end of CLIENT PAUSE, in milliseconds of the server's clock; 0 without a pause
        self.writes_only = False  # commands that change nothing are not paused
        self.postponed: list[Client] = []  # waiting clients, each with its command at the head of its backlog
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, until: int, *, writes_only: bool) -> None:
        """Begin or extend CLIENT PAUSE: postpone commands until a time in milliseconds of the server's clock.

        A pause that ends later keeps its end.
        """
        self.until = max(self.until, until)
        self.writes_only = writes_only
        self._server.update_checks()
        self.reschedule()

    def reschedule(self) -> None:
        """End CLIENT PAUSE if its time is over, else set the timer for that; also called after a clock change."""
        self.stop()
        left = self.until - self._server.clock.tick()
        if self.until and left <= 0:
            self.end()
        elif self.until and not self._server.clock.is_frozen:
            # The loop's timer also ends the pause if a library has stopped the system's clock.
            self._timer = self._server.loop.call_later(left / 1000, self.end)

    def end(self) -> None:
        """End CLIENT PAUSE, and let the postponed clients continue."""
        self.stop()
        self.until = 0
        self._resume()

    @property
    def is_on(self) -> bool:
        """Whether CLIENT PAUSE or a holder is active."""
        return self.until > 0 or bool(self.holders)

    def hold_writes(self, holder: object) -> None:
        """Postpone writes until ``release_writes``, independent of CLIENT PAUSE, UNPAUSE and other holders."""
        self.holders.add(holder)
        self._server.update_checks()

    def release_writes(self, holder: object) -> None:
        """Remove a holder; let the postponed clients continue unless CLIENT PAUSE or another holder still postpones them."""
        if holder in self.holders:
            self.holders.remove(holder)
            if self.until:  # CLIENT PAUSE still postpones them
                self._server.update_checks()
            else:
                self._resume()

    def _resume(self) -> None:
        """Resume the postponed clients; a remaining holder postpones their writes again."""
        self._server.update_checks()
        postponed, self.postponed = self.postponed, []
        for client in postponed:
            client.end_wait()
            client.resume()
        if self._server.replication.link is not None:
            self._server.replication.link.end_pause()

    def reset(self) -> None:
        """End every pause and forget the postponed clients, which DEBUG RESET disconnects."""
        self.stop()
        self.holders.clear()
        self.writes_only = False
        self.until = 0
        self.postponed.clear()

    def stop(self) -> None:
        """Cancel the timer of CLIENT PAUSE."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def concerns(self, client: Client, entry: CommandEntry, argv: list[bytes]) -> bool:
        """Return True if the pause postpones this command of this client."""
        if client.trusted or client.is_replica or not self.is_on:
            return False
        if self.until and not self.writes_only:
            return True
        return not flags_of(self._server, client, entry, argv).isdisjoint(_REPLICATED)

    def concerns_unit(self, master: Client, unit: list[list[bytes]]) -> bool:
        """Return True if the pause postpones a command or a transaction, given as lists of words, from our master."""
        if not self.is_on:
            return False
        if self.until and not self.writes_only:
            return True
        for argv in unit:
            with contextlib.suppress(ReplyError):  # the master knows commands that we do not
                entry = self._server.dispatcher.find(argv)
                if not flags_of(self._server, master, entry, argv).isdisjoint(_REPLICATED):
                    return True
        return False

    def postpone(self, client: Client) -> None:
        """Let the client wait for the end of the pause. The dispatcher keeps its command, which then runs first."""
        client.wait(POSTPONED)
        self.postponed.append(client)

    def forget(self, client: Client) -> None:
        """Forget a postponed client that has disconnected."""
        if client in self.postponed:
            self.postponed.remove(client)
