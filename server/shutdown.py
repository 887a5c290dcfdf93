"""Decide about a requested shutdown (SHUTDOWN, SIGTERM): complete, delay, abort or refuse it.

A shutdown that would lose data is refused: while the first append-only file is being written, or if the last snapshot
cannot be written. A shutdown is delayed while replicas lag. Writes then wait, and the shutdown continues when each
replica has the whole stream, or after ``shutdown-timeout``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..commands.runtime.client import Client
from ..commands.runtime.state import BLOCKED
from ..protocol.errors import ReplyError
from .supervisor import notify

if TYPE_CHECKING:
    from .server import Server


class Ending:
    """The shutdown of one server."""

    # The reply to a refused SHUTDOWN.
    refusal: Final = ReplyError(b"ERR Errors trying to SHUTDOWN. Check logs.")

    def __init__(self, server: Server) -> None:
        self._server = server
        # The deadline of a delayed shutdown, in milliseconds of the server's clock; 0: none is delayed.
        self.until = 0
        self._announced = False
        self._save: bool | None = None
        self._force = self._completes = False
        # The clients whose SHUTDOWN is delayed; they get a reply only if it is refused.
        self.clients: list[Client] = []

    @property
    def is_put_off(self) -> bool:
        """Whether a shutdown is delayed because it waits for replicas."""
        return self.until > 0

    def ask(
        self, *, save: bool | None, force: bool = False, now: bool = False, completes: bool = False
    ) -> bool:
        """Request the shutdown of the server, and carry it out unless it is refused or delayed.

        Return True if the server stops; False if the shutdown is refused (the log says why) or delayed.

        Args:
            save: whether to write a last snapshot; None: only if there are save points.
            force: shut down even if data is lost.
            now: do not wait for replicas.
            completes: if the first append-only file is being written, finish it here instead of refusing.
        """
        if self.is_put_off:
            return False
        self.announce()
        self._save, self._force, self._completes = save, force, completes
        server = self._server
        timeout = server.config.shutdown_timeout
        if now or not timeout or not server.replication.replicas.lagging:
            return self._finish()
        self.until = server.clock.tick() + timeout * 1000
        server.signals.ending = False
        server.log.notice("Waiting for replicas before shutting down.")
        server.pause.hold_writes(self)
        server.replication.replicas.ask_for_acks()
        server.cron.wake()
        return False

    def complete(self) -> None:
        """Write all data that must be kept and shut down now, for an owner that does not ask again (``rillet.testing``)."""
        if not self._server.stopping:
            self.until = 0
            self.ask(save=None, force=True, now=True, completes=True)

    def announce(self) -> None:
        """Log that the shutdown was requested, and notify the supervisor; a second call does nothing."""
        server = self._server
        server.signals.ending = True
        if not self._announced:
            self._announced = True
            notify(server.supervisor, server.log, "STOPPING=1\n")
            server.log.warning("User requested shutdown...")

    def hold(self, client: Client) -> None:
        """Block a client until the delayed SHUTDOWN that it sent is refused, aborted or carried out."""
        client.wait(BLOCKED)
        self.clients.append(client)

    def forget(self, client: Client) -> None:
        """Forget a disconnected client; its shutdown continues."""
        if client in self.clients:
            self.clients.remove(client)

    def finish_if_ready(self) -> None:
        """Carry out a delayed shutdown if no replica lags or ``shutdown-timeout`` is over."""
        if self.is_put_off and (
            self._server.clock.tick() >= self.until or not self._server.replication.replicas.lagging
        ):
            self._finish()

    def abort(self) -> bool:
        """Abort a delayed shutdown (SHUTDOWN ABORT); return False if there is none."""
        if not self.is_put_off:
            return False
        self._server.log.notice("Shutdown manually aborted.")
        self._stay()
        return True

    # In detail

    def _finish(self) -> bool:
        server = self._server
        replicas = server.replication.replicas
        lagging = replicas.lagging
        for each in lagging:
            behind = server.replication.offset - max(each.acknowledged, 0)
            server.log.notice(
                f"Lagging replica {each.name} reported offset {behind} behind master, lag={replicas.lag(each)}, "
                f"state={each.state}."
            )
        if replicas.connected:
            count = len(replicas.connected)
            server.log.notice(f"{count - len(lagging)} of {count} replicas are in sync when shutting down.")
        if server.has_all_data and not self._keeps_all():
            server.log.warning("Errors trying to shut down the server. Check the logs for more information.")
            self._stay()
            return False
        server.stop()
        return True

    def _keeps_all(self) -> bool:
        """Write the data that the shutdown would lose; return False if it must be refused."""
        server = self._server
        persistence = server.persistence
        if persistence.begins and persistence.rewrite.in_progress and not self._completes:
            if not self._force:
                server.log.warning("Writing initial AOF, can't exit")
                return False
            server.log.warning("Writing initial AOF. Exit anyway.")
        elif persistence.begins and not persistence.write_first_base() and not self._force:
            return False
        return server.snapshots.save_at_end(wanted=self._save, force=self._force)

    def _stay(self) -> None:
        server = self._server
        server.signals.ending = self._announced = False
        self.until = 0
        server.pause.release_writes(self)
        clients, self.clients = self.clients, []
        for client in clients:
            client.end_wait()
            client.answer(self.refusal.encoded)
