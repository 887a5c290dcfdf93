"""The commands that faults delay, each with its own time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ..clock import Clock

if TYPE_CHECKING:
    from .fault_spec import FaultSpec

    class Timed(Protocol):
        """Something that has an event loop and a clock: a server or a proxy."""

        @property
        def loop(self) -> asyncio.AbstractEventLoop:
            """The event loop of the server or proxy."""

        @property
        def clock(self) -> Clock:
            """The clock of the server or proxy."""


@dataclass(slots=True)
class _Wait:
    spec: FaultSpec
    until: int  # in milliseconds of the server's clock; 0: the delay is in real time
    timer: asyncio.TimerHandle
    end: Callable[[], None]


class Delays:
    """The delays that faults have begun in one server or proxy, at most one for each client."""

    def __init__(self, server: Timed) -> None:
        self._server = server
        self._waits: dict[Any, _Wait] = {}

    def begin(self, client: object, spec: FaultSpec, end: Callable[[], None]) -> bool:
        """Delay a client's command as a fault asks, then call ``end``.

        Return False, without a call, if the fault has no delay.
        """
        milliseconds = spec.delay or spec.clock_delay
        if not milliseconds:
            return False
        server = self._server
        if spec.delay:
            timer = server.loop.call_later(milliseconds / 1000, self._end, client)
            self._waits[client] = _Wait(spec, 0, timer, end)
        else:
            timer = server.loop.call_later(milliseconds / 1000, self.reschedule)
            self._waits[client] = _Wait(spec, server.clock.tick() + milliseconds, timer, end)
        return True

    def reschedule(self) -> None:
        """After a clock change, end the delays that are over by the server's clock and set the timers of the others."""
        now = self._server.clock.tick()
        for client, wait in list(self._waits.items()):
            if not wait.until:
                continue
            if wait.until <= now:
                self._end(client)
            else:
                wait.timer.cancel()
                wait.timer = self._server.loop.call_later((wait.until - now) / 1000, self.reschedule)

    def next_time(self) -> int | None:
        """Return when the next delay ends, in milliseconds of the server's clock; None if none depends on that clock."""
        return min((wait.until for wait in self._waits.values() if wait.until), default=None)

    def release(self, spec: FaultSpec) -> None:
        """End the delays of one fault now."""
        for client, wait in list(self._waits.items()):
            if wait.spec is spec:
                self._end(client)

    def forget(self, client: object) -> None:
        """Cancel a delay without calling ``end``, because the client or its command is gone."""
        wait = self._waits.pop(client, None)
        if wait is not None:
            wait.timer.cancel()

    def _end(self, client: object) -> None:
        wait = self._waits.pop(client)
        wait.timer.cancel()
        wait.end()
