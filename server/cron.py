"""What a server does every tenth of a second."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

from ..commands.runtime.state import BLOCKED

if TYPE_CHECKING:
    from .server import Server


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
