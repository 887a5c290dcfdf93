"""Rillet's own executable in a process that is forked from one which has loaded its modules already.

The tests start a server some thousand times. Loading the modules takes 0.4 seconds of processor time, a fork 0.03.
"""

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import wait
from pathlib import Path

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(
    ["rillet.__main__", "rillet.server.process", "rillet.server.supervisor", "uvloop"]
)
_lock = threading.Lock()  # to start a process looks after the others, too


def _run(words: Sequence[str], environment: Mapping[str, str], folder: str, log: str) -> None:
    """Be the process: what its parent would have given to a new program."""
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    os.chdir(folder)
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    sys.argv = list(words)
    from rillet.__main__ import main

    sys.exit(main())


class ForkedServer:
    """``rillet`` with some arguments; has what the tests use of ``subprocess.Popen``."""

    def __init__(self, words: Sequence[str], log: Path) -> None:
        arguments = words, dict(os.environ), os.getcwd(), str(log)  # noqa: PTH109 - a text, as in os.environ
        self._process = _FORKS.Process(target=_run, args=arguments, daemon=True)
        with _lock:
            self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        with _lock:
            self.returncode = self._process.exitcode
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        wait([self._process.sentinel], timeout)
        if self.poll() is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired("rillet", timeout)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has just ended: the fork server knows first
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)
