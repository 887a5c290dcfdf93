"""FAILOVER: hand the role of the master to a replica without losing a write.

Writes of clients are postponed until a replica has acknowledged the whole stream. Then this server becomes a replica of
that replica, and asks it with ``PSYNC … FAILOVER`` to become the master. Nothing blocks the event loop: it handles
acknowledgements, the timeout and the link to the new master as events.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .replica import Replica
    from .state import Replication

# The states as INFO names them.
NONE: Final = "no-failover"
WAITING: Final = "waiting-for-sync"
IN_PROGRESS: Final = "failover-in-progress"


class Failover:
    """The FAILOVER of one server: it hands its role as the master to a replica."""

    def __init__(self, replication: Replication) -> None:
        self._replication = replication
        self._server = replication.server
        # NONE, WAITING for a replica to have the whole stream, or IN_PROGRESS: a replica becomes the master.
        self.state = NONE
        self._target: tuple[bytes, int] | None = None
        self._forced = False
        self._limits_all = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def active(self) -> bool:
        """Whether a failover is in progress, in state WAITING or IN_PROGRESS."""
        return self.state != NONE

    def start(
        self, target: tuple[bytes, int] | None, timeout: int | None, *, forced: bool, limits_all: bool = False
    ) -> None:
        """Postpone writes until a replica has the whole stream, then hand over.

        Args:
            target: host and port of the replica; None for the first that has the whole stream.
            timeout: milliseconds after which the failover is aborted; None for no limit.
            forced: hand over after the timeout, even if the target lacks some of the stream.
            limits_all: the timeout also limits how long the replica takes to become the master.
        """
        server = self._server
        self.state, self._target, self._forced = WAITING, target, forced
        self._limits_all = limits_all
        server.log.notice(f"FAILOVER requested to {_name(target) if target else 'any replica'}.")
        if timeout is not None:
            self._timer = server.loop.call_later(timeout / 1000, self._time_out)
        server.pause.hold_writes(self)
        server.loop.call_soon(self._begin)

    def _begin(self) -> None:
        """Hand over at once if a replica is known to have the whole stream: asking for acknowledgements would add to it."""
        self.hand_over_if_synced()
        if self.state == WAITING:
            self._replication.replicas.ask_for_acks()

    def hand_over_if_synced(self) -> None:
        """Hand over if the target, or any replica without one, has the whole stream; called when a replica acknowledges."""
        if self.state != WAITING:
            return
        for replica in self._replication.replicas.online:
            place = replica.address, replica.port
            if replica.acknowledged == self._replication.offset and self._target in {None, place}:
                self._server.log.notice(f"Failover target {_name(place)} is synced, failing over.")
                self._hand_over(place)
                return

    def find(self, target: tuple[bytes, int]) -> Replica | None:
        """Return the connected replica with this host and port; None if there is none."""
        connected = self._replication.replicas.connected.values()
        return next((each for each in connected if (each.address, each.port) == target), None)

    def _time_out(self) -> None:
        self._timer = None
        if not self._forced:
            caught_up = self.state == IN_PROGRESS
            self.abort(f"Replica never {'took over' if caught_up else 'caught up'} before timeout")
            return
        assert self._target is not None
        self._server.log.notice(f"FAILOVER to {_name(self._target)} time out exceeded, failing over.")
        self._hand_over(self._target)

    def _hand_over(self, target: tuple[bytes, int]) -> None:
        if not self._limits_all:
            self._cancel_timer()
        self.state, self._target = IN_PROGRESS, target
        # This is still the turn in which the offsets agreed, so nothing comes between.
        self._replication.follow(target[0].decode("utf-8", "surrogateescape"), target[1])

    def finish(self) -> None:
        """End the failover with success: the target has become our master."""
        if self.active:
            self._clear()

    def abort(self, reason: str) -> None:
        """End the failover, log the reason and release the writes; this server remains the master or becomes it again."""
        target = f" to {_name(self._target)}" if self._target else ""
        self._server.log.notice(f"FAILOVER{target} aborted: {reason}")
        was_replica = self.state == IN_PROGRESS
        self.state = NONE
        if was_replica:
            self._replication.lead()
        self._clear()

    def _clear(self) -> None:
        self.stop()
        self._server.pause.release_writes(self)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def stop(self) -> None:
        """Forget a failover in progress, because the server stops or is reset."""
        self._cancel_timer()
        self.state, self._target = NONE, None
        self._forced = self._limits_all = False


def _name(target: tuple[bytes, int]) -> str:
    return f"{target[0].decode('utf-8', 'backslashreplace')}:{target[1]}"
