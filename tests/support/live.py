"""Running Rillet servers looked at from inside: wait for a state, reach into the thread, read the AOF."""

import errno
import os
import re
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from support.aof import aof_files, read_commands
from support.until import until as eventually
from support.wire import Wire

import rillet.testing
from rillet.server.server import Server

DEADLINE = 60.0


class LiveServer(rillet.testing.Server):
    """A server in a thread: raw connections to it, its objects, its log, its AOF."""

    _default_transport = "tcp"  # in production's loop

    def wire(self, protocol: int = 2) -> Wire:
        return Wire(self.port, protocol, timeout=DEADLINE)

    @property
    def inside(self) -> Server:
        assert self._server is not None
        return self._server

    def run_inside(self, function: Callable[[], Any]) -> Any:
        """Call a function in the server's own thread, between two turns of its loop; gives its result."""
        done: Future[Any] = Future()

        def call() -> None:
            try:
                done.set_result(function())
            except BaseException as error:
                done.set_exception(error)
                raise

        self.inside.loop.call_soon_threadsafe(call)
        return done.result(DEADLINE)

    def break_disk(self, operation: str, number: int = errno.ENOSPC) -> Callable[[], None]:
        """Let an operation on files fail; return what mends it."""
        files = self.inside.persistence.files
        real = getattr(files, operation)

        def fail(*_: Any) -> None:
            raise OSError(number, os.strerror(number))

        self.run_inside(lambda: setattr(files, operation, fail))
        return lambda: self.run_inside(lambda: setattr(files, operation, real))

    def info(self, field: str) -> str:
        with self.wire() as wire:
            text = self.call(wire, "INFO", "everything").decode()
        return next(line.split(":", 1)[1] for line in text.splitlines() if line.startswith(f"{field}:"))

    @staticmethod
    def call(wire: Wire, *words: bytes | str | int) -> Any:
        return wire.call(*words).plain()

    def wait_for_blocked(self, count: int) -> None:
        eventually(lambda: len(self.inside.blocking.waiters) == count)

    def block(self, wire: Wire, *words: bytes | str | int) -> None:
        """Send a command that waits, and wait until it does."""
        before = len(self.inside.blocking.waiters)
        wire.send(*words)
        self.wait_for_blocked(before + 1)

    @property
    def folder(self) -> Path:
        return Path(self.inside.config.dir)

    def aof(self) -> list[list[bytes]]:
        """Every command in the append-only file so far."""
        data = b"".join(
            file.read_bytes() for file in aof_files(self.folder / "appendonlydir") if file.suffix != ".rdb"
        )
        return read_commands(data)


class Gate:
    """Takes the place of one file operation of a server: calls wait until it is opened, and are counted."""

    def __init__(self, server: LiveServer, name: str) -> None:
        files = server.inside.persistence.files
        self.real = getattr(files, name)
        self.open = threading.Event()
        self.calls = 0
        server.run_inside(lambda: setattr(files, name, self))

    def __call__(self, *arguments: Any) -> Any:
        self.calls += 1
        assert self.open.wait(DEADLINE)
        return self.real(*arguments)


def words(text: str) -> list[list[bytes]]:
    """Commands written one a line."""
    return [line.encode().split() for line in text.strip().splitlines()]


def wait_for_input(wire: Wire, number: bytes, size: int) -> None:
    """Wait until so many bytes of the client with this ID have come, or it is gone."""

    def have_come() -> bool:
        line = wire.call("CLIENT", "LIST", "ID", number).value
        return not line or int(re.search(rb"tot-net-in=(\d+)", line)[1]) >= size

    eventually(have_come)
