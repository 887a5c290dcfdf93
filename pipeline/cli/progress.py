"""Report on the terminal the current step, and how long it took. The progress within a step is Spark's own bar."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, TextIO

_CLEAR: Final = "\r\x1b[2K"


class Progress:
    """Counted steps: one line each when done; a terminal shows the title before.

    ``out``: the output; default: the error stream.
    """

    def __init__(self, steps: int, out: TextIO | None = None) -> None:
        self._steps = steps
        self._out = sys.stderr if out is None else out
        self._done = 0
        self._noted = ""

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Run one step, during a ``with`` block; then print its title, the text from ``note``, and its duration."""
        self._done += 1
        head = f"[{self._done}/{self._steps}] {title}"
        self._noted = ""
        begun = time.monotonic()
        if self._out.isatty():
            self._out.write(f"{head} …")
            self._out.flush()
        how = "failed"
        try:
            yield
            how = self._noted
        finally:
            result = f": {how}" if how else ""
            self.say(f"{head}{result} ({time.monotonic() - begun:.1f} s)")

    def note(self, words: str) -> None:
        """Set the text that is printed after the title of the current step."""
        self._noted = words

    def say(self, line: str) -> None:
        """Print a line on the terminal that belongs to no step."""
        self._out.write(f"{_CLEAR if self._out.isatty() else ''}{line}\n")
        self._out.flush()
