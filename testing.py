"""Rillet in tests: servers that start in milliseconds, on a free port, with a movable clock.

::

    import rillet.testing

    with rillet.testing.Server(appendonly=True) as server:
        client = server.client()              # redis-py; any client can use server.url
        client.xadd("mystream", {"f": "v"})
        server.clock.advance(hours=1)         # idle times, expiry, BLOCK timeouts and auto IDs follow
        server.restart()                      # the data of the AOF is loaded again

A server runs in a thread of this process (``process=True``: in a process of its own), several at once, and leaves no
files. With pytest the fixtures ``rillet_server``, ``rillet`` and ``rillet_async`` are there without an import.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

if TYPE_CHECKING:
    from types import TracebackType

    import redis
    import redis.asyncio

    from .server.clock import Clock as ServerClock
    from .server.server import Server as RilletServer

__all__ = ["AsyncServer", "Clock", "Server", "StartError"]

_START_SECONDS = 30


class StartError(RuntimeError):
    """The server did not start; the text holds its log."""


class Clock:
    """The time of one test server, in Unix milliseconds; it runs until it is frozen."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def advance(
        self,
        *,
        milliseconds: float = 0,
        seconds: float = 0,
        minutes: float = 0,
        hours: float = 0,
        days: float = 0,
    ) -> int:
        """Move the server's time and return it; keys expire, blocked clients time out immediately."""
        total = milliseconds + 1000 * (seconds + 60 * (minutes + 60 * (hours + 24 * days)))
        return self._server._debug_clock(b"ADVANCE", b"%d" % round(total))  # noqa: SLF001 - its other half

    def freeze(self, at: int | None = None) -> int:
        """Stop the clock, at ``at`` (milliseconds) or at the present time."""
        return self._server._debug_clock(b"FREEZE", *([] if at is None else [b"%d" % at]))  # noqa: SLF001 - as above

    def resume(self) -> int:
        """Let a frozen clock continue from its time."""
        return self._server._debug_clock(b"RESUME")  # noqa: SLF001 - as above

    @property
    def now(self) -> int:
        """Return the server's time."""
        return self._server._debug_clock(b"NOW")  # noqa: SLF001 - as above


class Server:
    """A Rillet server for a test.

    Args:
        port: 0 picks a free one; kept over ``restart``.
        process: run in a process of its own instead of a thread.
        directives: any redis.conf directive with underscores, e.g. ``appendonly=True``, ``requirepass="x"``.
            Without ``dir`` the server works in a temporary folder that is removed at the end.
    """

    def __init__(self, *, port: int = 0, process: bool = False, **directives: object) -> None:
        self.host = "127.0.0.1"
        self.port = port
        self.clock = Clock(self)
        self._process_mode = process
        self._directives = directives
        self._folder: str | None = None
        self._thread: threading.Thread | None = None
        self._server: RilletServer | None = None
        self._server_clock: ServerClock | None = None
        self._process: subprocess.Popen[str] | None = None
        self._drainer: threading.Thread
        self._initial: dict[bytes, bytes] = {}

    # Lifecycle

    def start(self) -> Server:
        """Start and wait until clients are served.

        Raises:
            StartError: with the server's own words.
        """
        if self.running:
            return self
        if "dir" not in self._directives and self._folder is None:
            self._folder = tempfile.mkdtemp(prefix="rillet-")
        if self._process_mode:
            self._start_process()
        else:
            self._start_thread()
        self._initial = self._configuration()
        return self

    def stop(self) -> None:
        """Stop in order and remove the temporary folder."""
        self._halt()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def restart(self) -> None:
        """Restart on the same port with the same files (in a thread also with the same clock)."""
        self._halt()
        self.start()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        """Whether it is running."""
        return self._thread is not None or self._process is not None

    # For tests

    @property
    def url(self) -> str:
        """``redis://…`` with the password, for any client library."""
        password = self._directives.get("requirepass")
        credentials = f":{quote(str(password), safe='')}@" if password else ""
        return f"redis://{credentials}{self.host}:{self.port}/0"

    def client(self, **options: Any) -> redis.Redis:
        """Return a new redis-py client; ``options`` are redis-py's (``protocol=3``, ``db=1``, …)."""
        import redis

        # A database in the URL would override `db`.
        return redis.Redis.from_url(self.url.removesuffix("/0"), **options)

    def async_client(self, **options: Any) -> redis.asyncio.Redis:
        """Return a new ``redis.asyncio`` client."""
        import redis.asyncio

        return redis.asyncio.Redis.from_url(self.url.removesuffix("/0"), **options)

    def reset(self) -> None:
        """Reset it: no keys, the present time, the configuration of its start.

        What DEBUG SET-ACTIVE-EXPIRE and PAUSE-CRON switched off is on again.
        """
        self._command(b"DEBUG", b"CLOCK", b"RESET")
        self._command(b"DEBUG", b"SET-ACTIVE-EXPIRE", b"1")
        self._command(b"DEBUG", b"PAUSE-CRON", b"0")
        self._command(b"FLUSHALL")
        self._command(b"CLIENT", b"UNPAUSE")
        self._command(b"CONFIG", b"RESETSTAT")
        present = self._configuration()
        for name, value in self._initial.items():
            if present[name] != value:
                self._command(b"CONFIG", b"SET", name, value)

    # The two ways to run

    def _flags(self) -> list[str]:
        directives: dict[str, object] = {"save": "", "enable_debug_command": "local", "bind": self.host}
        directives |= {"port": self.port, "dir": self._folder} | self._directives
        flags: list[str] = []
        for name, value in directives.items():
            words = [str(word) for word in value] if isinstance(value, (list, tuple)) else [_text(value)]
            flags += [f"--{name.replace('_', '-')}", *words]
        return flags

    def _start_thread(self) -> None:
        from .server.config.file import parse_arguments
        from .server.server import Server as RilletServer

        ready: Future[None] = Future()
        lines: list[str] = []

        def life() -> None:
            try:
                server = RilletServer(parse_arguments(self._flags()), clock=self._server_clock, quiet=True)
                self._server_clock = server.clock
                server.log.listener = lines.append
                self._server = server
                server.run(on_ready=lambda: ready.set_result(None))
            except BaseException as error:  # noqa: BLE001 - handed to the thread that waits for the start
                if not ready.done():
                    ready.set_exception(error)
            finally:
                if not ready.done():
                    ready.set_exception(StartError("".join(lines)))

        self._thread = threading.Thread(target=life, name="rillet", daemon=True)
        self._thread.start()
        try:
            ready.result(_START_SECONDS)
        except BaseException:
            self._thread = None
            raise
        assert self._server is not None
        self.port = self._server.config.port

    def _start_process(self) -> None:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            [sys.executable, "-m", "rillet", *self._flags()],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        seen: list[str] = []
        for line in process.stdout:
            seen.append(line)
            if found := re.search(r"mode=standalone, port=(\d+)", line):
                self.port = int(found[1])
            if "Ready to accept connections" in line:
                break
        else:
            process.wait()
            process.stdout.close()
            raise StartError("".join(seen))
        self._drainer = threading.Thread(target=_drain, args=(process.stdout,), daemon=True)
        self._drainer.start()
        self._process = process

    def _halt(self) -> None:
        if self._thread is not None and self._server is not None:
            server = self._server
            with contextlib.suppress(RuntimeError):  # the loop is closed already: SHUTDOWN was sent
                server.loop.call_soon_threadsafe(server.stop)
            self._thread.join()
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._drainer.join()
        self._thread = self._server = self._process = None

    # Commands without a client library

    def _debug_clock(self, *words: bytes) -> int:
        return int(self._command(b"DEBUG", b"CLOCK", *words))

    def _configuration(self) -> dict[bytes, bytes]:
        words = self._command(b"CONFIG", b"GET", b"*")
        return dict(zip(words[::2], words[1::2], strict=True))

    def _command(self, *words: bytes) -> Any:
        """Run one command on a separate connection; raises error replies."""
        import hiredis

        reader = hiredis.Reader()
        password = self._directives.get("requirepass")
        with socket.create_connection((self.host, self.port), timeout=_START_SECONDS) as sock:
            commands = [(b"AUTH", str(password).encode()), words] if password else [words]
            sock.sendall(b"".join(_encode(*each) for each in commands))
            for _ in commands:
                while (reply := reader.gets()) is False:
                    reader.feed(sock.recv(65536))
        if isinstance(reply, Exception):
            raise reply
        return reply


class AsyncServer(Server):
    """A server for ``async with``; ``client`` returns a ``redis.asyncio`` client."""

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)

    def client(self, **options: Any) -> redis.asyncio.Redis:  # type: ignore[override]
        """Return a new ``redis.asyncio`` client; close it with ``await client.aclose()``."""
        return self.async_client(**options)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _encode(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


def _drain(stream: Any) -> None:
    """Read a server's log to its end, so that a full pipe never blocks the server."""
    with stream:
        for _ in stream:
            pass
