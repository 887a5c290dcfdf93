"""Clients in WAIT and WAITAOF, which acknowledgements of replicas release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...protocol import replies

if TYPE_CHECKING:
    from ...commands.runtime.client import Client
    from .state import Replication


@dataclass(slots=True)
class _Wait:
    offset: int  # of the last write of the client
    replicas: int  # how many must have it
    local: int | None  # WAITAOF: 1 if it is on our disk, and they must have it on theirs; None: WAIT


class Waits:
    """Clients that wait for replicas; ``server/execution/blocking`` times them out."""

    def __init__(self, replication: Replication) -> None:
        self._replication = replication
        self._waits: dict[Client, _Wait] = {}

    def add(self, client: Client, argv: list[bytes], timeout: int, replicas: int, local: int | None) -> None:
        """Block a client until replicas have its writes (``timeout``: ms, 0 for no limit)."""
        server = self._replication.server
        wait = _Wait(client.write_offset, replicas, local)
        reply = self._reply(wait)
        server.blocking.block(client, (), timeout, argv, on_missing=False, on_timeout=reply)
        self._waits[client] = wait
        self._replication.replicas.ask_for_acks()

    def count(self, offset: int, *, on_disk: bool) -> int:
        """Count the replicas that have the stream up to an offset."""
        replicas = self._replication.replicas
        return replicas.count_on_disk(offset) if on_disk else replicas.count_acknowledged(offset)

    def look_again(self) -> None:
        """Release the clients whose condition holds after an acknowledgement."""
        if not self._waits:
            return
        blocking = self._replication.server.blocking
        for client, wait in list(self._waits.items()):
            waiter = blocking.waiters.get(client)
            if waiter is None:  # timed out, unblocked or gone
                del self._waits[client]
                continue
            waiter.on_timeout = self._reply(wait)
            if self.count(wait.offset, on_disk=wait.local is not None) >= wait.replicas:
                del self._waits[client]
                blocking.unblock(client)

    def _reply(self, wait: _Wait) -> bytes:
        count = replies.integer(self.count(wait.offset, on_disk=wait.local is not None))
        return count if wait.local is None else replies.array([replies.integer(wait.local), count])
