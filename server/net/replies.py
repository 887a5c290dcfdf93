"""The replies of a turn of the event loop, which leave together at its end.

A write wakes the process that waits for it, and that costs more than most commands: on a virtual machine it leaves the
guest. A server that writes each reply by itself wakes its clients once for each; one that writes the replies of a turn
in a row finds them awake. Redis does the same: it writes before it waits for events.

With an append-only file one system call writes all that the turn changed before its replies leave, and under
``appendfsync always`` they wait for the fsync, too (``server/persistence/aof``).

A client that is alone gains nothing by waiting, so its replies leave at once. Nor does a reply wait for another client's
long work: those that are held leave when a millisecond is over, and before a client runs a batch that may take long.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ..server import Server
    from .connection import Connection

ALWAYS: Final = 1 << 62
_FEW: Final = 32
_UNSCHEDULED: Final = -1


class Replies:
    """Holds the replies of one server's clients until the turn ends.

    ``Connection.data_received`` and ``Connection.write`` have copies of the beginning of ``hold_last`` and ``hold``.

    Attributes:
        held: connections with replies in their ``outbox``, in the order of the first.
        at_once: how many may be sent without waiting, as the last turn had a single one; nothing is held then. Once they are
            used up the next turn is looked at. Always 0 with an append-only file.
        since: the millisecond of the server's clock in which the first was held; -1 while no flush is scheduled.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self.held: list[Connection] = []
        self.at_once = _FEW
        self.since = _UNSCHEDULED
        self._aside: dict[Connection, list[bytes]] = {}  # what waits for a running fsync
        self._closing: set[Connection] = set()
        self._released = 0  # connections whose replies left before the turn ended
        self._few = 0  # ``at_once`` with an append-only file, where the effects are written first

    def hold(self, connection: Connection, data: bytes) -> None:
        """Keep something for a client until the turn ends; a command may still be running."""
        self.schedule()
        outbox = connection.outbox
        if not outbox:
            self.held.append(connection)
        outbox.append(data)

    def hold_last(self, connection: Connection, reply: bytes) -> None:
        """Keep the reply that ends a batch, or send it if that is allowed: what was held for a millisecond leaves."""
        if self._few and not self.held and self._may_leave():
            self._few -= 1
            connection.transport.write(reply)  # type: ignore[union-attr] # it has just received
            return
        self.release_early()
        self.hold(connection, reply)
        self.since = self._server.keyspace.now

    def _may_leave(self) -> bool:
        """Write what a flush would; return whether a reply may leave before the turn ends."""
        server = self._server
        return (
            server.persistence.aof is not None
            and server.config.appendfsync != "always"
            and server.persistence.write_turn()
        )

    def is_held(self, connection: Connection) -> bool:
        """Whether replies of this connection wait."""
        return bool(connection.outbox) or connection in self._aside

    def held_bytes(self, connection: Connection) -> int:
        """Return the size of what waits for this connection."""
        return sum(map(len, connection.outbox)) + sum(map(len, self._aside.get(connection, ())))

    def close_when_sent(self, connection: Connection) -> None:
        """Close a connection once its held replies are sent."""
        self._closing.add(connection)

    def forget(self, connection: Connection) -> None:
        """Discard what waits for a connection that is lost."""
        connection.outbox.clear()
        self._aside.pop(connection, None)
        self._closing.discard(connection)

    # The end of a turn

    def schedule(self) -> None:
        """Schedule a flush at the end of this turn of the loop."""
        if self.since == _UNSCHEDULED:
            self._server.loop.call_soon(self._end_turn)
            self.since = self._server.keyspace.now  # where the call fails the next one schedules

    def _end_turn(self) -> None:
        self.since = _UNSCHEDULED
        few = _FEW if self._released + len(self.held) <= 1 else 0
        self.flush()
        self._released = 0
        if self._server.persistence.aof is None:
            self.at_once, self._few = few, 0
        else:
            self.at_once, self._few = 0, few

    def flush(self) -> None:
        """Write what the turn changed, then send the replies, under ``always`` after an fsync."""
        persistence = self._server.persistence
        if persistence.aof is None or persistence.write_turn():
            self.release()

    def release_early(self) -> None:
        """Send what is held now, unless it waits for the append-only file."""
        if self.held and self._server.persistence.aof is None:
            self.release()

    def release(self) -> None:
        """Send what is held; its effects are written."""
        held, self.held = self.held, []
        self._released += len(held)
        rest = iter(held)
        for connection in rest:
            outbox = connection.outbox
            try:
                _send(connection, outbox)
            except BaseException:
                self.held[:0] = rest
                outbox.clear()
                self.schedule()
                connection.close(after_reply=False)  # as the loop does where a read fails: a reply is missing
                raise
            outbox.clear()
        if self._closing:
            self._close_sent()

    def _close_sent(self) -> None:
        for connection in [each for each in self._closing if not self.is_held(each)]:
            self._closing.discard(connection)
            if connection.transport is not None:
                connection.transport.close()

    # An fsync

    @property
    def wait_for_fsync(self) -> bool:
        """Whether replies wait for an fsync that is under way."""
        return bool(self._aside)

    def set_aside(self) -> None:
        """Let what is held wait for an fsync; later replies belong to effects that it does not cover."""
        held, self.held = self.held, []
        for connection in held:
            self._aside[connection], connection.outbox = connection.outbox, []

    def release_aside(self) -> None:
        """Send what waited for an fsync."""
        while self._aside:
            connection = next(iter(self._aside))
            try:
                _send(connection, self._aside.pop(connection))
            except BaseException:
                self._server.loop.call_soon(self.release_aside)
                connection.close(after_reply=False)
                raise
        if self._closing:
            self._close_sent()

    def drop(self) -> None:
        """Discard everything: the effects could not be written."""
        for connection in self.held:
            connection.outbox.clear()
        self.held.clear()
        self._aside.clear()


def _send(connection: Connection, waiting: list[bytes]) -> None:
    transport = connection.transport
    if waiting and transport is not None and not transport.is_closing():
        transport.write(waiting[0] if len(waiting) == 1 else b"".join(waiting))
