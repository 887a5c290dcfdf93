"""Commands that a fault delays: they wait as in CLIENT PAUSE, each for its own time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...commands.runtime.state import POSTPONED

if TYPE_CHECKING:
    import asyncio

    from ..net.connection import Connection
    from ..server import Server
    from .fault_spec import FaultSpec


@dataclass(slots=True)
class _Wait:
    spec: FaultSpec
    until: int  # by the server's clock; 0: by the real time
    timer: asyncio.TimerHandle


class Delays:
    """The clients of one server whose command a fault delays."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._waits: dict[Connection, _Wait] = {}

    def begin(self, client: Connection, spec: FaultSpec) -> bool:
        """Postpone a client; return False if the fault delays nothing."""
        milliseconds = spec.delay or spec.clock_delay
        if not milliseconds:
            return False
        server = self._server
        client.wait(POSTPONED, self)
        if spec.delay:
            timer = server.loop.call_later(milliseconds / 1000, self._end, client)
            self._waits[client] = _Wait(spec, 0, timer)
        else:
            timer = server.loop.call_later(milliseconds / 1000, self.look)
            self._waits[client] = _Wait(spec, server.clock.tick() + milliseconds, timer)
        return True

    def look(self) -> None:
        """End the waits that are over by the server's clock; a clock that stands still ends none."""
        now = self._server.clock.tick()
        for client, wait in list(self._waits.items()):
            if not wait.until:
                continue
            if wait.until <= now:
                self._end(client)
            else:
                wait.timer.cancel()
                wait.timer = self._server.loop.call_later((wait.until - now) / 1000, self.look)

    def next_time(self) -> int | None:
        """Return when the next wait by the server's clock is over."""
        return min((wait.until for wait in self._waits.values() if wait.until), default=None)

    def release(self, spec: FaultSpec) -> None:
        """End the waits of a fault."""
        for client, wait in list(self._waits.items()):
            if wait.spec is spec:
                self._end(client)

    def forget(self, client: Connection) -> None:
        """Remove a client whose connection is gone."""
        wait = self._waits.pop(client, None)
        if wait is not None:
            wait.timer.cancel()

    def _end(self, client: Connection) -> None:
        self.forget(client)
        client.end_wait()
        client.resume()
