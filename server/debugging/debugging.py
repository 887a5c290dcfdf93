"""Intercept commands for DEBUG RECORD and DEBUG FAULT: wrap the dispatcher and the replies that end a wait.

While a recording or a fault is active, ``Server.update_checks`` sets ``server.interceptor``. Every command then takes all
checks, so that no fast path, batch handler or bulk queueing bypasses it. Only a command that arrives alone, as in most
tests, is recorded without all checks (``run_single``). Otherwise ``server.interceptor`` is None, and other code tests only
that.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from ...commands.runtime.client import Client
from ...commands.runtime.state import PLAIN, POSTPONED
from ..execution.blocking import Waiter
from ..net.connection import Connection
from ..server import Server
from .recorder import Recorder

if TYPE_CHECKING:
    from ..execution.fast_path import RunSingle
    from .faults import Faults
    from .snapshots import DataSnapshots


class Debugging:
    """The recorder, the faults and the snapshots of one server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.recorder = Recorder(server)
        # The faults; None before the first use, because their modules take 4 ms of a first test.
        self.faults_if_used: Faults | None = None

    @cached_property
    def snapshots(self) -> DataSnapshots:
        """The snapshots of DEBUG SNAPSHOT; created at the first use, because few tests take one."""
        from .snapshots import DataSnapshots

        return DataSnapshots(self._server)

    @property
    def faults(self) -> Faults:
        """The active faults of the server (DEBUG FAULT)."""
        if self.faults_if_used is None:
            from .faults import Faults

            self.faults_if_used = Faults(self._server)
        return self.faults_if_used

    @property
    def has_faults(self) -> bool:
        """Whether any fault of DEBUG FAULT is active."""
        return self.faults_if_used is not None and bool(self.faults_if_used.active)

    @property
    def is_on(self) -> bool:
        """Whether a recording or a fault is active, so that commands must be intercepted."""
        return bool(self.recorder.recordings) or self.has_faults

    def refuses(self, client: Connection) -> bool:
        """Whether a fault (CONNECTIONS refuse) hits a new connection, which must then be closed."""
        return self.has_faults and self.faults.refuses(client)

    @property
    def run_single(self) -> RunSingle | None:
        """The function that runs a command that arrives alone; None while faults are active."""
        return None if self.has_faults else self._run_single

    def _run_single(self, server: Server, client: Client, argv: list[bytes]) -> bytes | None:
        """Record a command, and run it as ``fast_path.run_one`` does."""
        # Through `process` a recorded GET takes 8.4 instead of 6.6 us.
        entry = server.dispatcher.table.get(argv[0])
        if (
            entry is None
            or entry.runs_script  # its write commands are recorded, too
            or self._passes_unseen(client, argv)
            or not entry.minimum <= len(argv) <= entry.maximum
        ):
            return server.dispatcher.run_alone(client, argv)
        arrival = self.recorder.arrival(client, argv)
        client.last_command = entry.name
        reply = server.calls.call(client, entry, argv)
        if client.state is not POSTPONED:
            self.recorder.add(client, arrival, reply)
        if reply is not None and client.state is PLAIN and not server.keyspace.ready:
            server.calls.propagate(client)
            return reply
        return server.calls.end_alone(client, argv, reply)

    def process(self, client: Client, argv: list[bytes], out: list[bytes]) -> bytes | None:
        """Run a command, record it and apply faults; used instead of ``Dispatcher.process``.

        ``out``: the unsent replies to earlier commands of its batch.
        Return the bytes to send, None for none.
        """
        if self._passes_unseen(client, argv) or not isinstance(client, Connection):
            return self._server.dispatcher.process(client, argv)
        arrival = self.recorder.begin(client, argv)
        if self.has_faults:
            fault, reply = self.faults.process(client, argv, out)
            arrival.fault = 0 if fault is None else fault.id
        else:
            reply = self._server.dispatcher.process(client, argv)
        if client.state is not POSTPONED:
            self.recorder.add(client, arrival, reply)
        return reply

    def scripted(
        self, caller: Client, script: list[bytes], client: Client, argv: list[bytes], reply: bytes
    ) -> None:
        """Record a write command that a script ran.

        Args:
            caller: the client that runs the script.
            script: the words of its EVAL or FCALL.
            client: the client of the script, with the database that it has selected.
        """
        self.recorder.add_scripted(caller, script, client.db.index, argv, reply)

    def wake(self, waiter: Waiter, run: Callable[[], None]) -> None:
        """Call ``run``, which re-runs a blocked command whose key was signalled, unless a fault delays or replaces it."""
        assert isinstance(waiter.client, Connection)  # only connections can wait
        if self.faults_if_used is None:
            run()
        else:
            self.faults_if_used.wake(waiter.client, waiter, run)

    def answer(self, waiter: Waiter, reply: bytes) -> bytes | None:
        """Record the reply that ends the wait of a blocked client, and apply faults to it.

        Return the bytes to send; None: send nothing now.
        """
        assert isinstance(waiter.client, Connection)
        faults = self.faults_if_used
        if faults is None:
            self.recorder.answer(waiter.client, reply, 0)
            return reply
        fault, given, sent = faults.answer(waiter.client, waiter, reply)
        self.recorder.answer(waiter.client, given, 0 if fault is None else fault.id)
        return sent

    def _passes_unseen(self, client: Client, argv: list[bytes]) -> bool:
        """Return True if a command is never intercepted: DEBUG itself, a control connection, replication."""
        return (
            client.trusted
            or client.replica is not None
            or argv[0].upper() in {b"DEBUG", b"REPLCONF", b"PSYNC", b"SYNC"}
        )

    def forget(self, client: Client) -> None:
        """Forget a disconnected client; its recorded commands stay."""
        self.recorder.forget(client)
        if self.faults_if_used is not None and isinstance(client, Connection):
            self.faults_if_used.forget(client)

    def reset(self) -> None:
        """End all faults and recordings; snapshots stay, because tests restore them after a reset."""
        if self.faults_if_used is not None:
            self.faults_if_used.clear()
        self.recorder.clear()
