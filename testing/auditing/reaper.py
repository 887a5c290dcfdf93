"""Kills the workers of an audit that was killed itself: then no signal handler runs, but a pipe is closed."""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import sys
import threading
from typing import Final

_PROGRAM: Final = """\
import os, signal, sys
groups = set()
for line in sys.stdin:
    (groups.add if line[0] == "+" else groups.discard)(int(line[1:]))
for each in groups:
    try:
        os.killpg(each, signal.SIGKILL)
    except OSError:
        pass
"""
_END_SECONDS: Final = 30


class Reaper:
    """A helper process that reads the IDs of process groups, and kills these groups when its input ends.

    It has a session of its own, so that Ctrl-C does not reach it. A parent-death signal would need code between fork and
    exec, and would reach only the first process of a group.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the helper, before the first process that it is to watch: its start takes longer than that of a shell."""
        with self._lock:
            if self._process is not None:
                return
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-I", "-S", "-c", _PROGRAM],
                stdin=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
            atexit.register(self._close)

    def watch(self, group: int) -> None:
        """Let a process group be killed when this process ends."""
        self._say(b"+%d\n" % group)

    def forget(self, group: int) -> None:
        """Stop watching a group that has ended: its number may be reused."""
        self._say(b"-%d\n" % group)

    def _say(self, line: bytes) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        with self._lock, contextlib.suppress(BrokenPipeError):  # the helper was killed
            self._process.stdin.write(line)

    def _close(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_SECONDS)


REAPER: Final = Reaper()
HAS_GROUPS: Final = hasattr(os, "killpg")
