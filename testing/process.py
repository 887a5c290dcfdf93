"""A server in its own process, as seen from the process of the test."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from .log import ServerLog

# Generous: a busy machine, like one that runs tests in parallel, may need long for a new process.
START_SECONDS: Final = 120
STOP_SECONDS: Final = 60
_READY: Final = "READY "  # testing/child.py prints it


class StartError(RuntimeError):
    """A server did not start, for any reason; the text says why, with the server's log."""


class StopError(RuntimeError):
    """A server in a thread did not stop in time; the text says what its thread is doing."""


class InWith(ABC):
    """Something that starts when a ``with`` block begins, and stops when it ends."""

    @abstractmethod
    def start(self) -> object:
        """Start, and wait until clients are served."""

    @abstractmethod
    def _leave(self) -> None:
        """Stop everything."""

    @abstractmethod
    def _forget_faults(self) -> None:
        """Do not let faults with ``expect_hits`` raise: the error of the block matters more."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._forget_faults()
        self._leave()


class ServerProcess:
    """A running ``testing/child.py``; it ends when this process ends.

    Args:
        flags: the words of a command line, ``--port`` …
        folder: the folder that the child removes if it outlives this process; None: nothing.
        log: receives the output of the child.

    Raises StartError: the child ended, or was not ready in two minutes.
    """

    def __init__(self, flags: list[str], folder: str | None, log: ServerLog) -> None:
        self._log = log
        self._logged = log.count
        self.popen = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            [sys.executable, "-m", f"{__package__}.child", str(os.getpid()), folder or "", *flags],
            stdin=subprocess.PIPE,  # it closes when this process ends
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="backslashreplace",
        )
        self.port = self._wait_until_ready()
        self._drainer = threading.Thread(target=self._drain, name="rillet log", daemon=True)
        self._drainer.start()

    def stop(self) -> None:
        """Terminate the child, or kill it if that takes too long: a script may never end."""
        self.popen.terminate()
        try:
            self.popen.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.wait()
        self._drainer.join()
        self._close()

    def _wait_until_ready(self) -> int:
        assert self.popen.stdout is not None
        deadline = threading.Timer(START_SECONDS, self.popen.kill)
        deadline.start()
        try:
            for line in self.popen.stdout:
                if line.startswith(_READY):
                    return int(line.removeprefix(_READY))
                self._log.feed(line)
        finally:
            deadline.cancel()
        self.popen.wait()
        self._close()
        raise StartError(
            self._log.text(self._logged)
            or f"It ended with status {self.popen.returncode}, and its log is empty"
        )

    def _drain(self) -> None:
        """Read the log to its end, so that a full pipe never blocks the server."""
        assert self.popen.stdout is not None
        for line in self.popen.stdout:
            self._log.feed(line)

    def _close(self) -> None:
        for pipe in (self.popen.stdin, self.popen.stdout):
            assert pipe is not None
            pipe.close()
