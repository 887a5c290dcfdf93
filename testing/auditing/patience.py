"""Time that is fair: it stands still for those who wait for a processor."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_LOOK_SECONDS: Final = 0.1
_LEAST: Final = 1 / 8  # a worker that always has something to run is judged in the end, too
_PROC: Final = Path("/proc")


class FairTime:
    """Counts seconds in which the audit and its workers had the processor when they wanted it.

    On a busy machine a second of the wall clock is less than a second for a worker that waits in the run queue, and says
    nothing about it. Two things show that: the audit itself wakes up late, and Linux counts the time that each
    thread has waited for a processor. Elsewhere the first one alone is used.

    Args:
        processes: gives the IDs of the workers' processes; their children are counted, too.
    """

    def __init__(self, processes: Callable[[], Iterable[int]]) -> None:
        self._processes = processes
        self._now = 0.0
        self._last = self._looked = time.monotonic()
        self._queued: dict[int, int] = {}

    @property
    def now(self) -> float:
        """Seconds so far."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Sleep, and count what was fair of the time since the last sleep."""
        time.sleep(seconds)
        now = time.monotonic()
        passed = now - self._last
        self._last = now
        fair = min(passed, 2 * seconds)  # a look takes no longer than the sleep behind it
        if now - self._looked >= _LOOK_SECONDS:
            self._looked = now
            fair -= self._waited()
        self._now += max(fair, passed * _LEAST)

    def skip(self) -> None:
        """Do not count the time since the last sleep."""
        self._last = time.monotonic()

    def _waited(self) -> float:
        """Return for how long threads of the workers have waited for a processor since the last look, in seconds."""
        before = self._queued
        self._queued = {}
        for process in self._processes():
            _add_queued(process, self._queued)
        return sum(value - before.get(thread, 0) for thread, value in self._queued.items()) / 1e9


def _add_queued(process: int, found: dict[int, int]) -> None:
    """Add the nanoseconds that each thread of a process and of its children has waited for a processor."""
    with contextlib.suppress(OSError):  # it has ended, or this is no Linux
        for thread in (_PROC / str(process) / "task").iterdir():
            found[int(thread.name)] = int((thread / "schedstat").read_text().split()[1])
            for child in (thread / "children").read_text().split():
                _add_queued(int(child), found)
