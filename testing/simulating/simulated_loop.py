"""simloop's event loop without the trace of its own scheduling.

``simloop.SimLoop`` records each callback that is scheduled, run or cancelled, with its name and host, so that two runs can
be compared, and each message that is sent or delivered. The story of a failure shows only messages that the network loses or
holds up, and a seed takes a seventh less time without the rest (2026-11-30).
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from simloop import SimLoop
from simloop._loop import SimulationDeadlockError

from .story import LOST_OR_HELD

if TYPE_CHECKING:
    from contextvars import Context


class SimulatedLoop(SimLoop):
    """A loop that runs callbacks in the order of a ``SimLoop`` of the same seed; its trace has lost messages only."""

    _now: float

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._draw: Callable[[int], int] = self._policy._rng.randrange  # noqa: SLF001 - as simloop's SeededPolicy
        net: Any = self._net
        record = net._trace  # noqa: SLF001

        def record_trouble(verb: str, packet: object) -> None:
            if verb in LOST_OR_HELD:
                record(verb, packet)

        net._trace = record_trouble  # noqa: SLF001

    def time(self) -> float:
        """Return the time, in seconds, on the clock of the current task's host."""
        offset: float = self._net._offset_now() if self._net._clock_offsets else 0.0  # noqa: SLF001
        return self._now + offset

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """Implement ``asyncio.AbstractEventLoop.call_soon``."""
        self._check_closed()
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append((self._next_seq, "", handle, callback))
        self._next_seq += 1
        return handle

    def _call_at_true(
        self, when: float, shown: float, callback: Callable[..., object], args: Any, context: Context | None
    ) -> asyncio.TimerHandle:
        self._check_closed()
        timer = asyncio.TimerHandle(shown, callback, args, self, context)
        heapq.heappush(self._timers, (when, self._next_seq, "", timer, callback))
        self._next_seq += 1
        return timer

    def _step(self) -> None:
        ready = self._ready
        if not ready:
            self._advance_clock()
        handle = ready.pop(self._draw(len(ready)))[2]
        if not handle.cancelled():
            handle._run()  # noqa: SLF001

    def _advance_clock(self) -> None:
        timers = self._timers
        while timers and timers[0][3].cancelled():
            heapq.heappop(timers)
        if not timers:
            raise SimulationDeadlockError("nothing left to run: no ready callbacks and no pending timers")
        self._now = now = max(self._now, timers[0][0])
        while timers and timers[0][0] <= now:
            _, *entry = heapq.heappop(timers)
            if not entry[2].cancelled():
                self._ready.append(tuple(entry))
