"""The replies of one round of the event loop, which leave together at its end.

A write wakes the process that waits for it, which costs more than most commands: on a virtual machine it exits to the
host. A server that writes each reply separately wakes its clients once per reply. A server that writes the replies of a
round in a row finds the clients awake. Redis does the same: it writes before it waits for events.

With an append-only file, one system call writes all changes of the round before its replies leave. Under
``appendfsync always`` the replies also wait for the fsync (``server/persistence/aof``).

A single client gains nothing from batching; with a few clients, each works while the others are served. So replies leave
at once while few clients are connected, or if the last round had at most two replies. Held replies leave early when their
millisecond is over, and before a client runs a batch that may take long. During a single long command they wait, as
everything else does.
"""

from __future__ import annotations

from collections import deque
from itertools import chain
from typing import TYPE_CHECKING, Final

from .connection import Connection

if TYPE_CHECKING:
    from ..server import Server

ALWAYS: Final = 1 << 62
_FEW: Final = 32
_PAIR: Final = 2  # replies; a round with so few gains nothing from batching
UNSCHEDULED: Final = -1


class Replies:
    """Holds the replies of one server's clients until this round of the event loop ends.

    To *hold* a reply is to keep it, to *release* replies is to send what is held, and to *flush* is to write the effects of
    the round first. Replies are *dropped* if nobody waits for them or nothing may confirm their effects.

    ``Connection.data_received`` and ``Connection.write`` inline the beginning of ``hold_last`` and ``hold``.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        # The replies with their connections, in the order in which they were created.
        self.held: list[tuple[Connection, bytes]] = []
        # How many more replies may be sent without waiting; nothing is held meanwhile. When it reaches 0, the size of
        # the next round decides again. Always 0 with an append-only file.
        self.at_once = _FEW
        # The millisecond of the server's clock in which the first was held; -1 while no flush is scheduled.
        self.since = UNSCHEDULED
        self.unsynced: deque[tuple[Connection, bytes]] = deque()  # replies that wait for a running fsync
        self._closing: set[Connection] = set()
        self._sizes: dict[Connection, int] = {}  # bytes that ``hold`` keeps
        self._is_plain = True  # all held replies came through ``hold_last``, from open connections
        self._released = 0  # replies that left before the round ended
        self._few = 0  # ``at_once`` with an append-only file, which must be written first

    def hold(self, connection: Connection, data: bytes) -> None:
        """Hold data for a client until this round of the event loop ends; later replies of the round are held, too."""
        self.flush_later()
        self.at_once = 0
        self._is_plain = False
        self.held.append((connection, data))
        self._sizes[connection] = self._sizes.get(connection, 0) + len(data)

    def hold_last(self, connection: Connection, reply: bytes) -> None:
        """Hold the reply that ends a batch, or send it if that is allowed now; send replies of an earlier millisecond."""
        if self._few and not self.held and self._may_leave():
            self._few -= 1
            connection.transport.write(reply)  # type: ignore[union-attr] # it has just received
            return
        self.release_old()
        self.flush_later()
        self.held.append((connection, reply))
        self.since = self._server.keyspace.now

    def _may_leave(self) -> bool:
        """Write the pending effects; return True if a reply may be sent before the round ends."""
        server = self._server
        return (
            server.persistence.aof is not None
            and server.config.appendfsync != "always"
            and server.persistence.write_round()
        )

    def is_held(self, connection: Connection) -> bool:
        """Return True if any reply for this connection is held or waits for an fsync."""
        return any(each is connection for each, _ in chain(self.held, self.unsynced))

    def unsent_bytes(self, connection: Connection) -> int:
        """Return the bytes that ``hold`` keeps for this connection: pushes and long replies."""
        return self._sizes.get(connection, 0)

    def held_bytes(self, connection: Connection) -> int:
        """Return all bytes that are held for this connection or wait for an fsync; slow if many replies wait."""
        return sum(len(data) for each, data in chain(self.unsynced, self.held) if each is connection)

    def close(self, connection: Connection) -> None:
        """Close a connection after its held replies are sent."""
        if self.is_held(connection):
            self._closing.add(connection)
        elif connection.transport is not None:
            connection.transport.close()

    def drop(self, connection: Connection) -> None:
        """Drop the held replies of a client that is closed, or has left."""
        self._is_plain = False
        self._sizes.pop(connection, None)
        self._closing.discard(connection)

    # The end of a round

    def flush_later(self) -> None:
        """Schedule ``flush`` for the end of this round of the event loop, unless it is scheduled."""
        if self.since == UNSCHEDULED:
            self._server.loop.call_soon(self._end_round)
            self.since = self._server.keyspace.now  # after the call: if that fails, the next reply schedules

    def _end_round(self) -> None:
        self.since = UNSCHEDULED
        server = self._server
        is_pair = self._released + len(self.held) <= _PAIR
        try:
            self.flush()
        except BaseException:
            if self.held:
                self.flush_later()  # because there may be no later reply to do so
            raise
        self._released = 0
        if server.persistence.aof is None:
            are_few = is_pair or len(server.clients) <= server.tuning.few_clients
            self.at_once, self._few = _FEW if are_few else 0, 0
        else:  # one write of the file serves all replies of a round
            self.at_once, self._few = 0, _FEW if is_pair else 0

    def begin_round(self) -> None:
        """Let replies leave at once, for a single client that calls from a thread other than the loop's."""
        if self.since == UNSCHEDULED:
            self.at_once, self._few = (_FEW, 0) if self._server.persistence.aof is None else (0, _FEW)

    def flush(self) -> None:
        """Write the effects of this round to the append-only file, then send the replies; with ``always`` after an fsync."""
        persistence = self._server.persistence
        if persistence.aof is None or persistence.write_round():
            self.release()

    def release_early(self) -> None:
        """Send the held replies now; without effect if there is an append-only file, which must be written first."""
        if self.held and self._server.persistence.aof is None:
            self.release()

    def release_old(self) -> None:
        """Send the held replies if their millisecond is over; without effect if there is an append-only file."""
        now = self._server.keyspace.now
        if self.held and self.since not in (now, UNSCHEDULED):
            self.release_early()
            self.since = now

    def release(self) -> None:
        """Send the held replies. Their effects are written already, or there is no append-only file."""
        held = self.held if self._is_plain else _joined(self.held)
        self._released += len(self.held)
        self.held = []
        if not self._is_plain:
            self._is_plain = True
            self._sizes.clear()
        rest = iter(held)
        try:
            for connection, data in rest:
                connection.transport.write(data)  # type: ignore[union-attr] # it was there for its request
        except BaseException:
            self.held[:0] = rest
            self.flush_later()
            connection.close(after_reply=False)  # as the loop does if a read fails: a reply is missing
            raise
        if self._closing:
            self._close_sent()

    def _close_sent(self) -> None:
        for connection in [each for each in self._closing if not self.is_held(each)]:
            self._closing.discard(connection)
            self.close(connection)

    # An fsync

    def hold_for_fsync(self) -> None:
        """Let the held replies wait for the fsync that begins now; later replies wait for another one."""
        self.unsynced = deque(self.held if self._is_plain else _joined(self.held))
        self.held = []
        self._sizes.clear()
        self._is_plain = True

    def release_synced(self) -> None:
        """Send the replies that waited for an fsync."""
        try:
            while self.unsynced:
                connection, data = self.unsynced.popleft()
                if connection.transport is not None and not connection.transport.is_closing():
                    connection.transport.write(data)
        except BaseException:
            self._server.loop.call_soon(self.release_synced)
            connection.close(after_reply=False)  # as in ``release``
            raise
        if self._closing:
            self._close_sent()

    def drop_all(self) -> None:
        """Drop all replies, because their effects could not be written."""
        self.held.clear()
        self.unsynced.clear()


def _joined(held: list[tuple[Connection, bytes]]) -> list[tuple[Connection, bytes]]:
    """Join the replies of each open connection, and order the connections by their first reply, the latest first.

    So a client whose command sent messages to others, or woke them, gets its reply before they get theirs. Redis keeps the
    same order.
    """
    pieces: dict[Connection, list[bytes]] = {}
    for connection, data in held:
        pieces.setdefault(connection, []).append(data)
    return [
        (connection, data[0] if len(data) == 1 else b"".join(data))
        for connection, data in reversed(pieces.items())
        if connection.transport is not None and not connection.transport.is_closing()
    ]
