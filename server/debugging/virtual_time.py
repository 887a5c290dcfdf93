"""Virtual time for tests: DEBUG CLOCK, with SKIP and AUTO-SKIP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...commands.runtime.state import BLOCKED

if TYPE_CHECKING:
    from ..server import Server
    from .faults import Faults

# Cron steps without input after which clients that are not blocked count as waiting, too: a test keeps connections of its
# own.
_IDLE: Final = 5


class VirtualTime:
    """Moves the clock of one server (DEBUG CLOCK)."""

    def __init__(self, server: Server) -> None:
        # Set by DEBUG CLOCK AUTO-SKIP: once all clients wait, the clock moves to the next time they wait for.
        self.skips_alone = False
        self._server = server
        self._input = 0
        self._quiet = 0  # cron steps without input

    def moved(self) -> None:
        """After a clock change, expire keys and end waits, pauses and delays whose time has come."""
        server = self._server
        server.keyspace.now = server.clock.tick()
        server.active_expiry.run()
        server.blocking.time_moved()
        server.pause.reschedule()
        faults = self._faults()
        if faults is not None:
            faults.time_moved()
        server.cron.wake()

    def skip(self) -> None:
        """Advance the clock to the next time at which a key expires or a wait, pause or delay ends, if there is one."""
        server = self._server
        times = [server.blocking.next_deadline(), server.active_expiry.next_expiry()]
        if server.pause.until:
            times.append(server.pause.until)
        faults = self._faults()
        if faults is not None:
            times.append(faults.next_time())
        now = server.clock.tick()
        until = min((when for when in times if when is not None), default=now)
        if until > now:
            server.clock.advance(until - now)
        self.moved()

    def skip_if_idle(self) -> None:
        """With AUTO-SKIP, call ``skip`` once clients are blocked and no input arrives; the cron calls this."""
        if not self.skips_alone:
            return
        server = self._server
        stats = server.stats
        seen = stats.net_input + stats.connections_received
        self._quiet = self._quiet + 1 if seen == self._input else 0
        self._input = seen
        if not self._quiet or not server.blocking.waiters:
            return
        if self._quiet >= _IDLE or all(client.state is BLOCKED for client in server.clients.values()):
            self.skip()

    def reset(self) -> None:
        """Switch AUTO-SKIP of DEBUG CLOCK off."""
        self.skips_alone = False

    def _faults(self) -> Faults | None:
        debugging = self._server.debugging_if_used
        return None if debugging is None else debugging.faults_if_used
