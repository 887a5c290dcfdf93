"""Fair time: a clock that does not count time in which workers wait for a processor."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

_LOOK_SECONDS: Final = 0.1
_LEAST: Final = 1 / 8  # of real time always counts, so that a worker that is always busy is judged, too
_PROC: Final = Path("/proc")


class FairTime:
    """Counts the seconds in which the audit and its workers had a processor when they needed one.

    On a busy machine, a worker waits in the run queue, and a second of real time proves less about it. Two measures correct
    for that: how late the audit itself wakes up, and on Linux, how long each thread has waited for a processor. Other
    systems have only the first.

    ``processes``: returns the IDs of the workers' processes; their children are included.
    """

    def __init__(self, processes: Callable[[], Iterable[int]]) -> None:
        self._processes = processes
        self._now = 0.0
        self._last = self._looked = time.monotonic()
        self._queued: dict[int, int] = {}

    @property
    def now(self) -> float:
        """The fair seconds so far."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Sleep for ``seconds``, and count the fair part of the time since the last ``sleep`` or ``skip``."""
        time.sleep(seconds)
        now = time.monotonic()
        passed = now - self._last
        self._last = now
        fair = min(passed, 2 * seconds)  # a check takes at most as long as the sleep after it
        if now - self._looked >= _LOOK_SECONDS:
            self._looked = now
            fair -= self._waited()
        self._now += max(fair, passed * _LEAST)

    def skip(self) -> None:
        """Leave the time since the last ``sleep`` out of the count."""
        self._last = time.monotonic()

    def _waited(self) -> float:
        """Return how many seconds the workers' threads have waited for a processor since the last call."""
        before = self._queued
        self._queued = {}
        for process in self._processes():
            _add_queued(process, self._queued)
        return sum(value - before.get(thread, 0) for thread, value in self._queued.items()) / 1e9


def _add_queued(process: int, found: dict[int, int]) -> None:
    """Add how many nanoseconds each thread of a process and its children has waited for a processor."""
    with contextlib.suppress(OSError):  # the process has ended, or this is not Linux
        for thread in (_PROC / str(process) / "task").iterdir():
            found[int(thread.name)] = int((thread / "schedstat").read_text().split()[1])
            for child in (thread / "children").read_text().split():
                _add_queued(int(child), found)
