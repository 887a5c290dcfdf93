"""The program of ``Server(process=True)``: a server that ends when its parent does.

``python -m rillet.testing.child PARENT FOLDER [--directive value …]``: PARENT is a process ID. FOLDER is removed if the
parent has ended by the time the server stops; empty means none. Standard input is a pipe that the parent holds open.
Standard output is the log, with a line ``READY <port>`` once the server serves clients.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import threading
from typing import Final

from ..server.config.file import ConfigFileError, parse_arguments
from ..server.process import server_of_this_process
from ..server.server import Server
from ..storage import system
from .folders import hold

if sys.platform == "linux":
    import fcntl


READY: Final = "READY "
_LAST_SECONDS: Final = 3


class Parent:
    """Stops a server when the parent process has ended.

    The end of the pipe shows that on every system, however the parent ended. A process that the parent forked may hold the
    pipe open, so on Linux the parent itself is watched as well. During a slow script the loop does not run; then the pipe
    raises a signal (SIGIO).
    """

    def __init__(self, server: Server, process: int) -> None:
        self._server = server
        self._process = process
        self._watched = [0]
        self.gone = False

    def watch(self) -> None:
        """Begin to watch; call it once the server has its loop."""
        if not system.HERE.watches_pipes:
            threading.Thread(target=self._read, daemon=True).start()
            return
        if sys.platform == "linux":
            # A sandbox refuses it, or the parent has ended, and so has the pipe.
            with contextlib.suppress(OSError):
                self._watched.append(os.pidfd_open(self._process))
            signal.signal(signal.SIGIO, lambda *_: self._end())
            fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
            fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC)
        for fd in self._watched:
            self._server.loop.add_reader(fd, self._end)

    def _read(self) -> None:
        os.read(0, 1)
        self._end()

    def _end(self) -> None:
        if self.gone:
            return
        self.gone = True
        system.HERE.end_within(_LAST_SECONDS)
        self._server.loop.call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        if system.HERE.watches_pipes:
            for fd in self._watched:
                self._server.loop.remove_reader(fd)
        self._server.ending.complete()


def main() -> int:
    """Run a server until it is stopped or the parent ends; return the exit status."""
    process, folder, *flags = sys.argv[1:]
    try:
        config = parse_arguments(flags)
    except ConfigFileError as error:
        print(error)  # noqa: T201 - the parent reads it
        return 1
    if folder:
        with contextlib.suppress(OSError):  # the parent has already ended
            hold(folder)
    server = server_of_this_process(config)
    if config.logfile:
        server.log.listener = _write
    server.signals.completes = True
    parent = Parent(server, int(process))

    def on_ready() -> None:
        parent.watch()
        _write(f"{READY}{config.port}\n")

    status = server.run(on_ready)
    if parent.gone and folder:
        shutil.rmtree(folder, ignore_errors=True)
    return status


def _write(text: str) -> None:
    with contextlib.suppress(OSError):  # the parent has ended
        sys.stdout.write(text)
        sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
