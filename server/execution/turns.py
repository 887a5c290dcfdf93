"""Fairness: a busy client runs commands for a slice of time (its turn), then other clients run theirs.

A connection whose commands exceed its slice waits in a queue. One round of the event loop serves the queue
for about one slice, in the order of arrival, and then reads the sockets again.
"""

from __future__ import annotations

from collections import deque
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final

from ...commands.runtime.client import Client

if TYPE_CHECKING:
    from ..server import Server

NEVER: Final = 1 << 62
SLICE: Final = 2_000_000
PARSED: Final = 64 << 10
"""Bytes of requests that are parsed at a time."""
PARSED_UNDER_LIMIT: Final = 16 << 10
"""The same under ``client-output-buffer-limit normal``: Redis reads this many before it sends the replies."""
LONG_COMMAND: Final = 40_000
"""Nanoseconds. The dispatcher checks whether the slice is over only after a command that took this long, so at most 128
shorter commands run between two checks."""


class Turns:
    """One server's queue of connections that have commands waiting to run."""

    def __init__(self, server: Server) -> None:
        self.slice = SLICE  # nanoseconds that a connection may run at a time. A command is never interrupted.
        self.waiting: deque[Client] = deque()  # the queue; the first runs next
        self._server = server
        self._is_scheduled = False

    def add(self, connection: Client) -> None:
        """Put a connection at the end of the queue; it must not be in it."""
        self.waiting.append(connection)
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._server.loop.call_soon(self._run)
            self._is_scheduled = True  # after the call: if that fails, the next `add` schedules

    def _run(self) -> None:
        """Serve each connection at most once, for about one slice in total."""
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
