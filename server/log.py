"""The log, in Redis' line format: ``pid:role dd Mon yyyy hh:mm:ss.mmm * text``."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable
from typing import Final

from .clock import Clock

_LEVELS: Final = {"debug": 0, "verbose": 1, "notice": 2, "warning": 3, "nothing": 4}
_MARKS: Final = ".-*#"
_CONTROL: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
_CONTROL.update({9: "\\t", 10: "\\n", 13: "\\r", 0x2028: "\\u2028", 0x2029: "\\u2029"})
_DETAILS: Final = {code: text for code, text in _CONTROL.items() if code != 10}


class Log:
    """Writes lines to standard output or to a file, without buffering.

    As in Redis, the file is opened for each line, so that it can be rotated. Control characters are escaped, so that
    names and errors from outside can neither forge a line nor control a terminal.

    Args:
        clock: the source of timestamps.
        level: ``debug verbose notice warning nothing``.
        path: the log file; empty for standard output.
        quiet: drop everything (servers inside a test process).
    """

    def __init__(self, clock: Clock, level: str = "notice", path: str = "", *, quiet: bool = False) -> None:
        self._clock = clock
        self.level = level
        self.path = path
        self.quiet = quiet
        self.role = "M"
        self.listener: Callable[[str], object] | None = None  # receives every line, quiet or not

    def debug(self, text: str) -> None:
        """Log a line at level debug: only a developer of the server needs it."""
        self._write(0, text)

    def verbose(self, text: str) -> None:
        """Log a line at level verbose: one of many details that are rarely useful."""
        self._write(1, text)

    def notice(self, text: str) -> None:
        """Log a line at level notice: an operator should see it."""
        self._write(2, text)

    def warning(self, text: str, details: str = "") -> None:
        """Log a line at level warning (an operator must see it), then the lines of ``details``, a traceback."""
        self._write(3, text, details)

    def banner(self, title: str, port: int) -> None:
        """Print a banner to standard output; if the log is quiet or a file, log the process ID instead."""
        if self.quiet or self.path:
            self.notice(f"PID: {os.getpid()}")
        else:
            sys.stdout.write(f"\n  {title}\n  Port: {port}\n  PID: {os.getpid()}\n\n")
            sys.stdout.flush()

    def _write(self, level: int, text: str, details: str = "") -> None:
        if level < _LEVELS[self.level] or (self.quiet and self.listener is None):
            return
        seconds = self._clock.unix_seconds()
        stamp = f"{time.strftime('%d %b %Y %H:%M:%S', time.localtime(seconds))}.{int(seconds % 1 * 1000):03d}"
        line = f"{os.getpid()}:{self.role} {stamp} {_MARKS[level]} {text.translate(_CONTROL)}\n"
        if details:
            line += details.rstrip("\n").translate(_DETAILS) + "\n"
        if self.listener is not None:
            self.listener(line)
        if self.quiet:
            return
        # The reader may be gone or the disk full: the server keeps running.
        with contextlib.suppress(OSError):
            self._emit(line)

    def _emit(self, line: str) -> None:
        if self.path:
            # Importing pathlib only for this would delay the moment from which the process handles signals.
            with open(self.path, "a", encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123
                file.write(line)
        else:
            sys.stdout.write(line)
            sys.stdout.flush()
