"""Fair turns: a client that sends without pause runs a slice of its commands, then others have their turn.

A connection that has more to run than fits into its slice waits in a queue. One turn of the event loop serves the queue
for about the length of one slice, in the order in which the connections came, and then looks at the sockets again.
"""

from __future__ import annotations

from collections import deque
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from ..server import Server

NEVER: Final = 1 << 62
SLICE: Final = 2_000_000
LONG_COMMAND: Final = 40_000
"""Nanoseconds. Only after a command that took as long does the dispatcher ask whether the slice is over: between two such
questions there are at most 128 shorter ones."""


class TakesTurns(Protocol):
    """A connection that has something to run."""

    def take_turn(self) -> None:
        """Run a slice of it."""


Waiting = TypeVar("Waiting", bound=TakesTurns)


class Turns(Generic[Waiting]):
    """The connections of one server that have something to run.

    Attributes:
        slice: how long one of them may run at a time, in nanoseconds. A command is never interrupted.
        waiting: the connections, in the order of their turns.
    """

    def __init__(self, server: Server) -> None:
        self.slice = SLICE
        self.waiting: deque[Waiting] = deque()
        self._server = server
        self._is_scheduled = False

    def add(self, connection: Waiting) -> None:
        """Give a connection a turn after those that wait already; it must not be among them."""
        self.waiting.append(connection)
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._server.loop.call_soon(self._run)
            self._is_scheduled = True  # where the call fails the next one schedules

    def _run(self) -> None:
        """Serve each connection at most once, for about one slice altogether."""
        self._is_scheduled = False
        until = perf_counter_ns() + self.slice
        try:
            for _ in range(len(self.waiting)):
                self.waiting.popleft().take_turn()
                if perf_counter_ns() > until:
                    break
        finally:
            if self.waiting:
                self._schedule()
