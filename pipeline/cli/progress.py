"""Write to the terminal what is being done, how far it is, and how long it took."""

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
    """Steps that are counted: one line each when done, and on a terminal a line that moves during the step.

    Args:
        steps: how many there will be.
        out: where to; the error stream.
    """

    def __init__(self, steps: int, out: TextIO | None = None) -> None:
        self._steps = steps
        self._out = sys.stderr if out is None else out
        self._done = 0
        self.spark: SparkSession | None = None
        self._noted = ""

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Do one step; the words of ``note`` end its line."""
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
        """What the step found."""
        self._noted = words

    def say(self, line: str) -> None:
        """A line of its own."""
        self._out.write(f"{_CLEAR if self._out.isatty() else ''}{line}\n")
        self._out.flush()

    def _move(self, head: str, begun: float, ended: threading.Event) -> None:
        while not ended.wait(_EVERY_SECONDS):
            self._out.write(f"{_CLEAR}{head} … {self._tasks()}{time.monotonic() - begun:.0f} s")
            self._out.flush()

    def _tasks(self) -> str:
        """Return how many of Spark's tasks are done, of the stages at work."""
        if self.spark is None:
            return ""
        tracker = self.spark.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        there = [stage for stage in stages if stage is not None]
        if not there:
            return ""
        return f"{sum(s.numCompletedTasks for s in there)} of {sum(s.numTasks for s in there)} tasks, "
