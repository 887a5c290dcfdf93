"""The periodic work: expire keys, close idle clients (``timeout``), fsync, begin saves and rewrites, ping replicas."""

from __future__ import annotations

import asyncio
import gc
import traceback
from math import inf
from typing import TYPE_CHECKING, Final

from ..storage import system
from .clock import LoopClock

if TYPE_CHECKING:
    from .server import Server

_SECONDS: Final = 0.1
# Bytes. glibc places buffers of up to this size beside each other, and keeps this much free memory.
_SMALL: Final = 128 << 10


class Cron:
    """The cron of one server: its periodic work, by a timer."""

    def __init__(self, server: Server) -> None:
        self.paused = False  # ``step`` does nothing (DEBUG PAUSE-CRON)
        self._server = server
        self._alarm: asyncio.Future[None] | None = None  # ends the rest of a shared loop's cron
        self._pause: asyncio.Future[None] | None = None  # ends the tenth of a second between two steps
        self._allocator_tuned = False
        self._last_input = (0, 0, 0)  # as the cron of a shared loop last saw it

    async def run(self) -> None:
        """Call ``step`` until the server stops: ten times a second, in a test's loop as often as needed."""
        server = self._server
        while not server.stopping:
            try:
                self.step()
            except Exception:  # noqa: BLE001 - a bug of ours must not end the service
                server.log.warning("Internal error in the cron:", details=traceback.format_exc())
            if server.shares_loop:
                await self._rest()
            if not server.stopping:
                # A wait with a timeout takes twice as long, and in a simulation this runs a thousand times a seed.
                self._pause = server.loop.create_future()
                timer = server.loop.call_later(_SECONDS, _end, self._pause)
                try:
                    await self._pause
                finally:
                    timer.cancel()

    def wake(self) -> None:
        """In a test's event loop, call ``step`` soon, because there is input or a timer is due."""
        _end(self._alarm)

    def stop(self) -> None:
        """Let ``run`` return soon, because the server is stopping."""
        _end(self._pause)
        _end(self._alarm)

    async def _rest(self) -> None:
        """Wait until the cron has something to do."""
        seconds = self._seconds_of_rest()
        if seconds > 0 and not self._server.stopping:
            loop = self._server.loop
            self._alarm = loop.create_future()
            timer = None if seconds == inf else loop.call_later(seconds, self.wake)
            await self._alarm
            if timer is not None:
                timer.cancel()

    def step(self) -> None:
        """Do all periodic work that is due: expiry, deadlines, files, replication, output limits, idle clients, eviction."""
        if self.paused:
            return
        server = self._server
        now = server.clock.tick()
        server.keyspace.now = now
        server.stats.sample(int(server.loop.time() * 1000))
        if server.active_expiry.step():
            server.background_jobs.run_soon(server.active_expiry.step)
        if server.keyspace.idempotent and not server.loading:
            server.keyspace.expire_idempotent()
        if server.keyspace.behind:
            server.background_jobs.run_when_idle(server.keyspace.account_some)
        if not server.loading and server.keyspace.cold.begin_round(server.loop.time()):
            server.background_jobs.run_when_idle(server.keyspace.cold.step)
        server.blocking.expire_overdue()
        if 0 < server.pause.until <= now:
            server.pause.reschedule()
        server.persistence.cron()
        server.snapshots.cron()
        server.replication.cron()
        server.ending.finish_if_ready()
        for connection in [*server.clients.congested, *server.clients.over_soft_limit]:
            connection.check_output_limit(now)
        server.clients.close_idle(now)
        server.virtual_time.skip_if_idle()
        server.eviction.cron()
        server.client_eviction.enforce_limit()
        server.exhaustion.probe(server.loop.time())
        if server.handles_signals:  # the process is the server's own
            # A PEL is one object, but may reach a million entries before ten thousand new objects start a collection.
            # A collection now visits the PEL while it is small, and later ones skip it.
            gc.collect(1)
            stats = server.stats
            if not self._allocator_tuned and stats.net_input + stats.net_output > _SMALL:
                self._allocator_tuned = _tune_allocator()

    def _seconds_of_rest(self) -> float:
        """Return the seconds for which a server in a shared loop has no work without new input; 0 if that is unknown.

        Expiry times follow the server's clock. If that clock does not follow the loop's time, the cron checks it once a
        second, because a test may move it.
        """
        server = self._server
        keyspace, persistence, config = server.keyspace, server.persistence, server.config
        aof = persistence.aof
        seen = (*server.stats.sums()[:2], server.stats.connections_received)
        had_input, self._last_input = seen != self._last_input, seen
        if (
            had_input
            or server.loading
            or self.paused
            or server.virtual_time.skips_alone
            or server.clients.congested
            or server.clients.over_soft_limit
            or server.background_jobs.are_left
            or server.replication.is_in_use
            or server.sentinel is not None
            or server.snapshots.in_progress
            or server.snapshots.scheduled
            or persistence.rewrite.in_progress
            or server.disk_error is not None
            or (aof is not None and (aof.unsynced or aof.last_error is not None))
            or keyspace.behind
            or keyspace.idempotent
            or config.maxmemory
            or config.timeout
            or (config.save and keyspace.dirty)
        ):
            return 0
        dues = [
            server.active_expiry.next_due() if server.active_expiry.enabled else None,
            server.blocking.next_deadline(),
        ]
        due = min((each for each in dues if each is not None), default=None)
        # The search for old chunks of streams runs in rounds of the loop's time.
        rest = inf if due is None else max(0.0, (due - server.clock.tick() + 1) / 1000)
        if due is not None and server.clock.is_frozen:
            rest = inf
        if keyspace.cold.has_young:
            rest = min(rest, keyspace.cold.round)
        return rest if isinstance(server.clock, LoopClock) or rest == inf else min(rest, 1.0)


def _end(wait: asyncio.Future[None] | None) -> None:
    if wait is not None and not wait.done():
        wait.set_result(None)


def _tune_allocator() -> bool:
    """Tune malloc so that big replies cause no page faults; return False if that is not possible now.

    The modules for it take a third of a megabyte, so the server loads them only after enough traffic for a big message.
    """
    try:
        mallopt = system.HERE.function_of_c("mallopt")
    except (ImportError, OSError):
        return False  # no file descriptor is free
    if mallopt is not None:
        for parameter in (-1, -3):  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD
            mallopt(parameter, 256 << 20)
    return True
