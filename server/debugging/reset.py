"""DEBUG RESET: return to the state after the start, in one round of the event loop.

A part that only keeps records is replaced by a new one. A part that others refer to has a method ``reset`` (or ``stop``).
``tests/server/debugging/test_state.py`` lists the state that survives, and fails for state that it does not list.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from ...commands.connection.session import leave_modes
from ...commands.runtime.client import Client
from ...commands.runtime.state import PLAIN
from ...commands.runtime.users import User
from ...protocol.errors import ReplyError
from ...storage.folder_lock import FolderInUseError
from ...storage.loading import AofError
from ..execution.checks import LOADING
from ..net.connection import Connection
from ..net.sockets_across_resets import Dormant

if TYPE_CHECKING:
    from ..server import Server


_STEPS: Final = 64  # of lazyfree, each of up to 256 objects


class Reset:
    """Remembers the configuration and users of one server after its start; restores these and empties everything else."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._users: dict[bytes, User] = {}
        self._values: dict[str, Any] = {}

    def remember(self) -> None:
        """Remember the configuration and the users; called at the end of the start."""
        self._values = vars(self._server.config).copy()
        self._users = self._server.users.copy()

    def run(self, client: Client, kept: Mapping[bytes, int]) -> None:
        """Reset everything but the client that requested it.

        Raises ReplyError: the server is loading, and nothing is reset; or the configuration or the append-only file
        could not be restored, and all else is reset.

        Args:
            client: the client that requested the reset; it keeps its connection.
            kept: addresses of clients whose sockets stay open for new clients, each with the number of bytes of the
                new client's greeting. A socket with a command or data in transit is closed anyway.
        """
        server = self._server
        if server.persistence.loading:
            raise ReplyError(LOADING)
        server.replication.reset()
        self._disconnect_all_but(client, kept)
        self._stop_work()
        self._remove_data()
        if server.scripting_if_used is not None:
            server.scripting_if_used.reset()
        if server.debugging_if_used is not None:
            server.debugging_if_used.reset()
        server.make_records()
        server.clock.reset()
        server.virtual_time.reset()
        server.started = server.keyspace.now = server.clock.now
        server.snapshots.reset()
        refused = server.config.restore(self._values)
        self._restore_users(client)
        server.eviction.reset()
        refused += self._open_files()
        server.active_expiry.enabled = True
        server.cron.paused = server.loading = False
        server.stats.reset()
        server.stats.peak_memory = server.stats.peak_memory_time = 0
        server.stats.denied = dict.fromkeys(server.stats.denied, 0)
        server.clients.update_observers()
        server.update_checks()
        client.update_state()
        server.replication.start()
        server.cluster.take_role()
        self._propagate()
        if refused:
            raise ReplyError(f"ERR DEBUG RESET could not restore {', '.join(refused)}".encode())

    def _disconnect_all_but(self, client: Client, kept: Mapping[bytes, int]) -> None:
        server, clients = self._server, self._server.clients
        for socket in [each for each in clients.dormant if each.address not in kept]:
            socket.wake()
        for control in [each for each in clients.controls if each is not client and each.address in kept]:
            clients.end_control(control)
        for other in list(clients.values()):
            if other is not client:
                connection = cast("Connection", other)  # the master's link is already gone
                if connection.address in kept and _may_be_kept(connection):
                    Dormant(connection, kept[connection.address])
                else:
                    # After the reply, a client library that checks its connection must not find it open.
                    connection.cut()
                clients.forget(connection)
        for channel in list(server.listeners.shaking_hands):
            channel.abort()
        leave_modes(client)
        client.deferred.clear()
        client.replica = None
        client.write_offset = 0

    def _stop_work(self) -> None:
        """Stop everything that waits for a time, for other clients, or to run in the background."""
        server = self._server
        server.blocking.stop()
        server.pause.reset()
        if server.migrations_if_used is not None:
            server.migrations_if_used.stop()
        server.turns.waiting.clear()
        server.background_jobs.stop()

    def _remove_data(self) -> None:
        """Remove all data. Free the little data of a usual test here, because waking the loop for that would take longer."""
        keyspace, lazyfree = self._server.keyspace, self._server.keyspace.lazyfree
        on_queued, lazyfree.on_queued = lazyfree.on_queued, _wait
        try:
            keyspace.reset()
        finally:
            lazyfree.on_queued = on_queued
        for _ in range(_STEPS):
            if not lazyfree.step():
                return
        self._server.background_jobs.run_soon(lazyfree.step)

    def _restore_users(self, client: Client) -> None:
        users = self._server.users
        users.restore(self._users)
        if users.get(client.user.name) is not client.user:
            client.user = users.default
            client.authenticated = client.trusted or client.user.is_open

    def _open_files(self) -> list[str]:
        """Return to the append-only file of the start; if that fails, return the reason."""
        server = self._server
        if not server.config.appendonly and not server.config.save:
            server.folder.release()
        try:
            server.persistence.reset()
        except (OSError, AofError, FolderInUseError) as error:
            return [f"the append-only file: {error}"]
        return []

    def _propagate(self) -> None:
        """Empty the data in the append-only file; there are no replicas now, and later ones must not count these commands."""
        propagation = self._server.propagation
        propagation.forget()
        propagation.add(0, [b"FLUSHALL"])
        propagation.add(0, [b"FUNCTION", b"FLUSH"])
        propagation.flush()
        self._server.replication.forget_commands()


def _wait() -> None:
    """Leave what is queued in the queue."""


def _may_be_kept(connection: Connection) -> bool:
    """Return True if a connection is idle in both directions and uses the plain transport of a socket."""
    transport = connection.transport
    return (
        connection.state is PLAIN
        and connection.is_reading
        and connection.replica is None
        and not connection.backlog
        and not connection.query_buffer
        and connection.parser.error is None
        and transport is not None
        and not hasattr(transport, "is_faulty")
        and hasattr(transport, "set_protocol")  # TLS has not
        and not transport.is_closing()
        and not transport.get_write_buffer_size()
        and not connection.server.replies.is_held(connection)
    )
