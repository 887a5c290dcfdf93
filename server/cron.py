"""What a server does every tenth of a second."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Final

from ..commands.runtime.state import BLOCKED
from ..storage import system

if TYPE_CHECKING:
    from .server import Server

# Bytes. glibc has buffers of up to this size beside each other, and keeps as much of what is free.
_SMALL: Final = 128 << 10


def step(server: Server) -> None:
    """Do what is due; called ten times a second."""
    if server.cron_paused:
        return
    now = server.clock.tick()
    server.keyspace.now = now
    server.stats.sample(int(server.loop.time() * 1000))
    if server.active_expiry.step():
        server.background_jobs.run_soon(server.active_expiry.step)
    if server.keyspace.idempotent and not server.loading:
        server.keyspace.expire_idempotent()
    if server.keyspace.behind:
        server.background_jobs.run_when_idle(server.keyspace.settle_some)
    if not server.loading and server.keyspace.cold.look(server.loop.time()):
        server.background_jobs.run_when_idle(server.keyspace.cold.step)
    server.persistence.cron()
    server.snapshots.cron()
    server.replication.cron()
    for connection in list(server.congested):
        connection.check_output_limit(now)
    _close_idle_clients(server, now)
    server.eviction.cron()
    server.client_eviction.look()
    server.exhaustion.look(server.loop.time())
    if server.handles_signals:  # the process is the server's own
        # A PEL is one object, but may have a million entries before ten thousand new objects start a collection.
        # A collection now visits it while it is small, and not again later.
        gc.collect(1)
        stats = server.stats
        if not server.allocator_tuned and stats.net_input + stats.net_output > _SMALL:
            server.allocator_tuned = _tune_allocator()


def _tune_allocator() -> bool:
    """Avoid page faults for each big reply; return False if that cannot be done now.

    The modules for it take a third of a megabyte, so a server has them once there may have been a big request or reply.
    """
    try:
        mallopt = system.HERE.function_of_c("mallopt")
    except (ImportError, OSError):
        return False  # no file descriptor is free
    if mallopt is not None:
        for parameter in (-1, -3):  # M_TRIM_THRESHOLD, M_MMAP_THRESHOLD
            mallopt(parameter, 256 << 20)
    return True


def _close_idle_clients(server: Server, now: int) -> None:
    timeout = server.config.timeout
    if not timeout:
        return
    for client in list(server.clients.values()):
        idle = now - client.last_interaction > timeout * 1000
        is_quiet = client.is_subscriber or client.monitor or client.is_replica or client.trusted
        if idle and client.state is not BLOCKED and not is_quiet:
            server.log.verbose("Closing idle client")
            client.close(after_reply=False)
