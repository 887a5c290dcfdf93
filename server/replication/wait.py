"""Clients that are blocked in WAIT and WAITAOF until replicas acknowledge their writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol import replies

if TYPE_CHECKING:
    from ...commands.runtime.client import Client
    from ..execution.blocking import Waiter
    from .state import Replication


class _Wait:
    __slots__ = ("local", "offset", "replicas", "synced")

    def __init__(self, offset: int, replicas: int, local: int | None, synced: bool) -> None:
        self.offset = offset  # of the last write of the client
        self.replicas = replicas  # how many must have it
        self.local = (
            local  # WAITAOF: 1 if it must be on our disk, and they must have it on theirs; None: WAIT
        )
        self.synced = synced  # whether it is on our disk


class Waits:
    """The clients that wait for replicas. ``server/execution/blocking`` ends their waits on timeout."""

    def __init__(self, replication: Replication) -> None:
        self._replication = replication
        self._waits: dict[Waiter, _Wait] = {}
        self._tidied = 0  # how many were left after the last removal

    def add(
        self,
        client: Client,
        argv: list[bytes],
        timeout: int,
        replicas: int,
        local: int | None,
        *,
        synced: bool = False,
    ) -> None:
        """Block a client in WAIT or WAITAOF until enough replicas have its writes.

        Args:
            timeout: milliseconds; 0 for no limit.
            replicas: how many are enough.
            local: WAITAOF: 1 if our own file must have the writes, too, else 0; None for WAIT.
            synced: our own file has them.
        """
        server = self._replication.server
        wait = _Wait(client.write_offset, replicas, local, synced)
        reply = self._reply(wait)
        server.blocking.block(client, (), timeout, argv, on_timeout=reply)
        if len(self._waits) >= 2 * self._tidied + server.tuning.waits:
            # Remove clients that timed out or left: without replicas nothing else does.
            self._waits = {waiter: wait for waiter, wait in self._waits.items() if self._still_waits(waiter)}
            self._tidied = len(self._waits)
        self._waits[server.blocking.waiters[client]] = wait
        self._replication.replicas.ask_for_acks()

    def count(self, offset: int, *, on_disk: bool) -> int:
        """Return how many online replicas have acknowledged the stream up to ``offset``.

        ``on_disk``: in their append-only files.
        """
        online = self._replication.replicas.online
        return sum((each.on_disk if on_disk else each.acknowledged) >= offset for each in online)

    def clear(self) -> None:
        """Forget all waiting clients, because they are disconnected."""
        self._waits.clear()
        self._tidied = 0

    def recheck(self) -> None:
        """Unblock clients whose writes enough replicas have by now, after an ACK or with our first base."""
        if not self._waits:
            return
        blocking = self._replication.server.blocking
        for waiter, wait in list(self._waits.items()):
            if not self._still_waits(waiter):
                del self._waits[waiter]
                continue
            if wait.local and not wait.synced:
                wait.synced = self._replication.server.persistence.bring_to_disk()
            waiter.on_timeout = self._reply(wait)
            if (
                wait.synced >= (wait.local or 0)
                and self.count(wait.offset, on_disk=wait.local is not None) >= wait.replicas
            ):
                del self._waits[waiter]
                blocking.unblock(waiter.client)

    def _still_waits(self, waiter: Waiter) -> bool:
        """Return True if a client still waits: it has not timed out, left, or blocked in another command since."""
        return self._replication.server.blocking.waiters.get(waiter.client) is waiter

    def _reply(self, wait: _Wait) -> bytes:
        count = replies.integer(self.count(wait.offset, on_disk=wait.local is not None))
        return count if wait.local is None else replies.array([replies.integer(int(wait.synced)), count])
