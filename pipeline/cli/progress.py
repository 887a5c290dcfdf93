"""Report on the terminal the current step, its progress, and how long it took."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO

    from pyspark.sql import SparkSession

_EVERY_SECONDS: Final = 0.3
_CLEAR: Final = "\r\x1b[2K"


class Progress:
    """Counted steps: one line each when done; on a terminal, a line that updates during the step.

    Args:
        steps: the number of steps.
        out: the output; default: the error stream.
    """

    def __init__(self, steps: int, out: TextIO | None = None) -> None:
        self._steps = steps
        self._out = sys.stderr if out is None else out
        self._done = 0
        self.spark: SparkSession | None = None
        self._noted = ""

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Run one step, during a ``with`` block; then print its title, the text from ``note``, and its duration."""
        self._done += 1
        head = f"[{self._done}/{self._steps}] {title}"
        self._noted = ""
        begun = time.monotonic()
        ended = threading.Event()
        watcher = threading.Thread(target=self._move, args=(head, begun, ended), daemon=True)
        if self._out.isatty():
            watcher.start()
        how = "failed"
        try:
            yield
            how = self._noted
        finally:
            ended.set()
            if watcher.is_alive():
                watcher.join()
            result = f": {how}" if how else ""
            self.say(f"{head}{result} ({time.monotonic() - begun:.1f} s)")

    def note(self, words: str) -> None:
        """Set the text that is printed behind the title of the current step."""
        self._noted = words

    def say(self, line: str) -> None:
        """Print a line that belongs to no step."""
        self._out.write(f"{_CLEAR if self._out.isatty() else ''}{line}\n")
        self._out.flush()

    def _move(self, head: str, begun: float, ended: threading.Event) -> None:
        while not ended.wait(_EVERY_SECONDS):
            self._out.write(f"{_CLEAR}{head} … {self._tasks()}{time.monotonic() - begun:.0f} s")
            self._out.flush()

    def _tasks(self) -> str:
        """Return how many tasks of Spark's active stages are done."""
        if self.spark is None:
            return ""
        tracker = self.spark.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        there = [stage for stage in stages if stage is not None]
        if not there:
            return ""
        return f"{sum(s.numCompletedTasks for s in there)} of {sum(s.numTasks for s in there)} tasks, "
