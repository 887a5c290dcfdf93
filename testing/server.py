"""A Rillet server for a test, in a thread or a process."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import subprocess
import sys
import threading
import time
import traceback
import weakref
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import quote

from ..storage.files import replace_file
from ..storage.gc_pause import gc_paused
from .clients import client_like, for_client, need_redis
from .clients_across_resets import KeptClient, connection_class, taken
from .clock import Clock
from .control import Control, ControlError
from .faults import HasFaults
from .folders import TemporaryFolder
from .forks import let_go_in_forks
from .log import ServerLog
from .process import START_SECONDS, STOP_SECONDS, InWith, ServerProcess, StartError, StopError
from .snapshot import SnapshotStore
from .spies import HasSpies

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import TracebackType

    import redis
    import redis.asyncio

    from ..server.clock import Clock as ServerClock
    from ..server.server import Server as RilletServer
    from .seeds import Seed
    from .snapshot import Snapshot

_LOOK_SECONDS: Final = 0.05
_TRANSPORTS: Final = ("tcp", "memory")


class Server(HasSpies, HasFaults, InWith):
    """A Rillet server for a test.

    Args:
        port: the port to listen on; 0 picks a free one. ``restart`` keeps it.
        process: run in its own process instead of a thread.
        seed: the data at the start and after each ``reset``: the path of a dump file (RDB), of an append-only
            folder or of a file of commands, or a dict of keys and values. See docs/testing/snapshots.md.
        transport: ``memory`` or ``tcp``. With ``memory``, clients from ``client`` use no socket, and the calling thread
            runs the server's code. None: ``memory``, but ``tcp`` with ``process=True``, for an ``AsyncServer`` and for
            the nodes of a cluster or of Sentinel. See docs/testing/transports.md.
        directives: any redis.conf directive with underscores, e.g. ``appendonly=True``, ``requirepass="x"``.
            Without ``dir``, the server works in a temporary folder that ``stop`` removes.

    In a fork of the process that started it, the object still reaches the server (clients, ``clock``, ``fault`` …), but
    ``stop`` only drops the object's references: the server and its files belong to the parent.

    Attributes:
        log: the last lines of the server's log; they also go to the logger ``rillet``.
    """

    _default_transport = "memory"  # unless it runs in a process of its own

    def __init__(
        self,
        *,
        port: int = 0,
        process: bool = False,
        seed: Seed | None = None,
        transport: str | None = None,
        **directives: object,
    ) -> None:
        if transport is None:
            transport = "tcp" if process else self._default_transport
        check_transport(transport)
        if transport == "memory" and process:
            raise ValueError("A server in a process of its own has no transport in memory")
        super().__init__()
        self._pid = os.getpid()
        self._transport = transport
        self.host = "127.0.0.1"
        self.port = port
        self.clock = Clock(self._command)
        self.log = ServerLog()
        self._process_mode = process
        self._directives = directives
        self._folder: TemporaryFolder | None = None
        self._owner = 0  # the ID of the process that started it
        self._thread: threading.Thread | None = None
        self._server: RilletServer | None = None
        self._server_clock: ServerClock | None = None
        self._process: ServerProcess | None = None
        self._control: Control | None = None
        self._controlling = threading.Lock()  # any thread may be the first to control the server
        self._seed = seed
        self._planted: Snapshot | None = None
        self._snapshots: SnapshotStore | None = None
        self._pools: weakref.WeakSet[redis.ConnectionPool] = weakref.WeakSet()  # of ``client``
        self._kept: dict[str, KeptClient] = {}  # between tests, by their options

    # Lifecycle

    def start(self) -> Server:
        """Start the server and wait until it serves clients.

        Raises:
            StartError: the server did not start, for any reason; the text is its own error or its log.
        """
        if self.running:
            return self
        self._halt()  # it may have ended by itself
        self._owner = os.getpid()
        found = self._folder
        try:
            self._start()
        except BaseException as error:
            with contextlib.suppress(StopError):  # the reason why it did not start matters more
                self._halt()
            if found is None:
                self._remove_folder()
            if isinstance(error, StartError) or not isinstance(error, Exception):
                raise
            raise StartError(str(error)) from error
        return self

    def stop(self) -> None:
        """Shut down cleanly and remove the temporary folder. In a fork, only drop the references to the server.

        Raises:
            StopError: the server's thread does not end; it is left running.
            AssertionError: an active fault with ``expect_hits`` hit nothing; the server has stopped.
        """
        with contextlib.ExitStack() as stack:
            stack.callback(self._remove_folder)
            stack.callback(self._halt)
            stack.callback(self._forget_clients)
            self._planted = None
            if not self._is_inherited:
                self.check_faults()

    def _forget_clients(self) -> None:
        for kept in self._kept.values():
            kept.client.close()
        self._kept.clear()

    def restart(self) -> None:
        """Restart on the same port with the same files (in a thread also with the same clock).

        Raises:
            StopError: this process is a fork of the one that started the server.
        """
        self._check_owner()
        self._halt()
        self.start()

    def _leave(self) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        """Whether the server is running; False after a command has shut it down."""
        process, thread, server = self._process, self._thread, self._server
        if self._is_inherited:
            return self._is_reached()
        if process is not None:
            if self._control is not None and self._control.server_has_ended():
                self._await_end(process)
            return process.popen.poll() is None
        if thread is not None and server is not None and server.stopping:
            thread.join(STOP_SECONDS)
        return thread is not None and thread.is_alive()

    @property
    def _is_inherited(self) -> bool:
        """Whether this process is a fork of the one that started the server."""
        return self._owner not in {0, os.getpid()}

    def _is_reached(self) -> bool:
        try:
            self._connect(hidden=False).close()
        except ControlError:
            return False
        return True

    def _check_owner(self) -> None:
        if self._is_inherited:
            raise StopError(
                f"The server at port {self.port} belongs to process {self._owner}, not to its fork"
            )

    def _await_end(self, process: ServerProcess) -> None:
        """Wait until the process ends; it closed the control connection. Return early if it accepts another one."""
        deadline = time.monotonic() + STOP_SECONDS
        while time.monotonic() < deadline:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.popen.wait(_LOOK_SECONDS)
                return
            with (
                contextlib.suppress(ControlError),
                contextlib.closing(Control(self.host, self.port, None, hidden=False)) as another,
            ):
                if not another.server_has_ended():
                    return

    # For tests

    @property
    def url(self) -> str:
        """``redis://…`` with the password, for any client library."""
        password = self._directives.get("requirepass")
        credentials = f":{quote(str(password), safe='')}@" if password else ""
        return f"redis://{credentials}{self.host}:{self.port}/0"

    def client(self, *, like: Callable[..., redis.Redis] | None = None, **options: Any) -> redis.Redis:
        """Return a new redis-py client.

        Without ``like``, it has the defaults of ``redis.Redis.from_url``: it does not retry, so a lost reply is an error.

        Args:
            like: how the application creates its client: ``redis.Redis``, a subclass, or a function. It is called with
                ``host``, ``port``, ``db`` and the password; the client has all of its defaults, including retries.
            options: redis-py's options (``protocol=3``, ``db=1``, …).

        Raises:
            ImportError: redis-py is not installed; the text says what to install.
        """
        need_redis()
        import redis

        if like is not None:
            return client_like(like, self.url, options, is_async=False)
        if not options.keys() & {"connection_class", "ssl", "unix_socket_path"}:
            options = {"connection_class": self._connection_class} | options
        # A database in the URL would override `db`.
        made = redis.Redis.from_url(self.url.removesuffix("/0"), **for_client(redis.Redis, options))
        self._pools.add(made.connection_pool)
        return made

    @functools.cached_property
    def _connection_class(self) -> type[redis.Connection]:
        if self._transport == "tcp":
            return connection_class()
        from .memory_transport import connection_class_of

        return connection_class_of(self._find)

    def _find(self) -> RilletServer | None:
        """Return the server object; None in a fork of this process."""
        if os.getpid() != self._pid:
            return None
        if self._server is None:
            raise ConnectionRefusedError(111, "Connection refused")
        return self._server

    @contextlib.contextmanager
    def client_of_test(self, **options: Any) -> Iterator[redis.Redis]:
        """Lend a test a client from ``client``; keep it for the next test unless this one changes it.

        Reset the server first. A client created with ``like`` serves one test only.
        """
        if "like" in options:
            with contextlib.closing(self.client(**options)) as own:
                yield own
            return
        key = repr(sorted(options.items()))
        kept = self._kept.pop(key, None) or KeptClient(self.client(**options))
        try:
            yield kept.client
        finally:
            if kept.is_as_new():
                self._kept[key] = kept
            else:
                kept.client.close()

    def async_client(
        self, *, like: Callable[..., redis.asyncio.Redis] | None = None, **options: Any
    ) -> redis.asyncio.Redis:
        """Return a new ``redis.asyncio`` client. Same as ``client``, but ``like`` creates a ``redis.asyncio.Redis``."""
        need_redis()
        import redis.asyncio

        if like is not None:
            return client_like(like, self.url, options, is_async=True)
        return redis.asyncio.Redis.from_url(
            self.url.removesuffix("/0"), **for_client(redis.asyncio.Redis, options)
        )

    def reset(self) -> None:
        """Restore the initial state, with only the seed's data and no connections. It sends one ``DEBUG RESET``.

        Raises:
            ControlError: the server has ended, or cannot be reached.
            hiredis.ReplyError: something could not be reset; the text says what.
        """
        watched = self.watched
        if watched is None:
            self._run_reset()
        else:
            watched.started(self._run_reset(*watched.in_reset))
        if self._planted is not None:
            self.restore(self._planted)

    def _run_reset(self, *options: bytes) -> Any:
        control = self._control
        if control is None or not control.is_open:
            control = self._controller()
        with taken(self._pools) as kept:
            options += (b"KEEP", *kept) if kept else ()
            try:
                # Do not probe the server first: that costs as much as a reset, and a second reset does no harm.
                return control.reset(*options)
            except ControlError:
                if not control.is_open:  # the server took too long
                    raise
                return self._controller().reset(*options)

    def snapshot(self) -> Snapshot:
        """Return an immutable copy of all data and functions."""
        return self._store.take()

    def restore(self, snapshot: Snapshot) -> None:
        """Replace all data and functions by a snapshot of this server or another one.

        Raises:
            SnapshotError: the server that kept it ended without a clean shutdown.
            hiredis.ReplyError: the server is a replica, or its append-only file cannot be written.
        """
        self._store.restore(snapshot)

    def save_seed(self, path: str | os.PathLike[str]) -> None:
        """Write all data and functions to a dump file for ``Server(seed=path)``; a failure leaves no partial file."""
        replace_file(Path(path), self.snapshot().rdb(), 0o644)

    # The two ways to run

    def _start(self) -> None:
        if "dir" not in self._directives and self._folder is None:
            self._folder = TemporaryFolder()
        if self._process_mode:
            self._process = ServerProcess(self._flags(), self._path, self.log)
            self.port = self._process.port
        else:
            self._start_thread()
        self._controller()
        self._snapshots = SnapshotStore(self._command)
        if self._seed is not None and self._planted is None:
            self._plant(self._seed)
        self._watch_again()

    def _plant(self, seed: Seed) -> None:
        from .seeds import run_commands, seed_file

        file = seed_file(seed, data_of)
        if file is None:
            control = self._connect()
            try:
                run_commands(seed, control)
            finally:
                control.close()
            self._planted = self.snapshot()
            return
        try:
            self._planted = self._store.load(file)
        except Exception as error:
            raise StartError(f"The seed {seed} cannot be loaded: {error}") from error
        self.restore(self._planted)

    def _remove_folder(self) -> None:
        if self._folder is not None:
            self._folder.remove()
            self._folder = None

    @property
    def _path(self) -> str | None:
        return None if self._folder is None else self._folder.path

    def _flags(self) -> list[str]:
        return flags_of(self._directives, self.host, self.port, self._path)

    @gc_paused()  # garbage collection took a seventh of a first test
    def _start_thread(self) -> None:
        from ..server.config.file import parse_arguments
        from ..server.server import Server as RilletServer

        ready: Future[None] = Future()
        logged = self.log.count

        def life() -> None:
            try:
                config = parse_arguments(self._flags())
                server = RilletServer(config, clock=self._server_clock, quiet=not config.logfile)
                self._server_clock = server.clock
                server.log.listener = self.log.feed
                self._server = server
                let_go_in_forks(server)
                self._prepare(server)
                server.run(lambda: self._arrive(server, ready), self._loop_factory())
            except BaseException as error:  # noqa: BLE001 - handed to the thread that waits for the start
                if not ready.done():
                    ready.set_exception(error)
            finally:
                if not ready.done():
                    ready.set_exception(
                        StartError(self.log.text(logged) or "It did not start, and its log is empty")
                    )

        self._thread = threading.Thread(target=life, name="rillet", daemon=True)
        self._thread.start()
        try:
            ready.result(START_SECONDS)
        except TimeoutError:
            ready.cancel()  # a server that comes later ends at once
            words = self.log.text(logged)
            raise StartError(f"It was not ready in {START_SECONDS:g} seconds:\n{words}") from None
        assert self._server is not None
        self.port = self._server.config.port

    def _loop_factory(self) -> Callable[[], asyncio.AbstractEventLoop]:
        if self._transport == "tcp":
            from ..server.event_loop import new_event_loop

            return new_event_loop
        from .turn_loop import TurnLoop

        return TurnLoop

    def _prepare(self, server: RilletServer) -> None:
        """Prepare a server before it runs; called in the server's thread."""

    def _arrive(self, server: RilletServer, ready: Future[None]) -> None:
        """Let ``start`` return, now that the server serves clients; end the server if ``start`` has given up.

        Called in the server's thread.
        """
        if ready.set_running_or_notify_cancel():
            ready.set_result(None)
        else:
            server.stop()

    def _halt(self) -> None:
        """End the server if this process started it, and drop all references to it."""
        if self._is_inherited:
            self._thread = self._server = self._process = self._control = self._snapshots = None
            self._folder = None
            self._owner = 0
        else:
            self._end()

    def _end(self) -> None:
        if self._snapshots is not None:
            self._snapshots.end()
            self._snapshots = None
        self._release_control()
        thread, process, server = self._thread, self._process, self._server
        self._thread = self._server = self._process = None
        if thread is not None:
            if server is not None and hasattr(server, "loop"):
                with contextlib.suppress(RuntimeError):  # the loop is closed already: SHUTDOWN was sent
                    server.loop.call_soon_threadsafe(server.ending.complete)
            thread.join(STOP_SECONDS)
            if thread.is_alive():
                self._end_script()
                thread.join(STOP_SECONDS)
            if thread.is_alive():
                raise StopError(f"The server at port {self.port} does not stop. {_place_of(thread)}")
        if process is not None:
            process.stop()

    def _end_script(self) -> None:
        """Send SHUTDOWN NOSAVE: nothing else ends a script that has already written."""
        with contextlib.suppress(ControlError), contextlib.closing(self._connect()) as control:
            control.run(b"SHUTDOWN", b"NOSAVE")

    # Commands without a client library

    def _controller(self) -> Control:
        """Return the control connection; open a new one if the server has closed it."""
        if not self._is_inherited and not self.running:
            raise ControlError("The server is not running")
        with self._controlling:
            if self._control is None or not self._control.is_open or self._control.is_closed:
                self._release_control()
                self._control = self._connect()
            return self._control

    def _connect(self, *, hidden: bool = True) -> Control:
        try:
            return self._control_of(hidden=hidden)
        except ControlError as error:
            if not isinstance(error.__cause__, ConnectionError):
                raise
            # A Sentinel that changes the role of this server kills its clients, perhaps before DEBUG CONTROL exempts this one.
            return self._control_of(hidden=hidden)

    def _control_of(self, *, hidden: bool) -> Control:
        password = self._directives.get("requirepass")
        in_memory = self._transport == "memory" and self._server is not None and os.getpid() == self._pid
        return Control(
            f"{self.host}:{self.port}" if in_memory else self.host,
            self.port,
            str(password) if password else None,
            hidden=hidden,
            connect=self._dial if in_memory else None,
            state=self._state,
        )

    def _dial(self, seconds: float) -> Any:
        """Connect to the server in memory."""
        from .memory_transport import dial

        if self._server is None:
            raise ConnectionRefusedError(111, "Connection refused")
        return dial(self._server, seconds)

    def _state(self) -> str:
        """Describe what an unresponsive server is doing."""
        return _place_of(self._thread) if self._thread is not None else f"Its log:\n{self.log.text()}"

    @property
    def _store(self) -> SnapshotStore:
        if self._snapshots is None:
            raise ControlError("The server is not running")
        return self._snapshots

    def _release_control(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None

    def _command(self, *words: bytes) -> Any:
        """Run one command on the control connection; raise error replies."""
        return self._controller().run(*words)


class AsyncServer(Server):
    """A server for ``async with``; ``client`` returns a ``redis.asyncio`` client."""

    _default_transport = "tcp"  # of the clients, too

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_inherited:
            self.stop()  # the loop's threads do not exist in the fork
        else:
            await asyncio.to_thread(self.stop)

    def client(  # type: ignore[override]
        self, *, like: Callable[..., redis.asyncio.Redis] | None = None, **options: Any
    ) -> redis.asyncio.Redis:
        """Return a new ``redis.asyncio`` client; close it with ``await client.aclose()``."""
        return self.async_client(like=like, **options)


def check_transport(transport: str) -> None:
    """Raise ValueError unless ``transport`` is ``memory`` or ``tcp``."""
    if transport not in _TRANSPORTS:
        raise ValueError(f"transport must be one of {', '.join(_TRANSPORTS)}: {transport!r}")


def data_of(folder: str, appendfilename: str) -> bytes:
    """Return the data of an append-only file as an RDB file.

    Args:
        folder: the parent folder of ``appenddirname``.
        appendfilename: the directive of this name, with which the file was written.
    """
    with Server(dir=folder, appendonly=True, appendfilename=appendfilename) as server:
        return server.snapshot().rdb()


def flags_of(
    directives: Mapping[str, object], host: str, port: int, folder: str | None, **defaults: object
) -> list[str]:
    """Return directives as the words of a command line (``--name value …``), with the defaults of test servers.

    Args:
        directives: override everything else.
        host: the address to listen on.
        port: the port to listen on.
        folder: the server's ``dir``.
        defaults: override the defaults of test servers.
    """
    every: dict[str, object] = {"save": "", "enable_debug_command": "local", "bind": host}
    every |= {"port": port, "dir": folder} | defaults | dict(directives)
    flags: list[str] = []
    for name, value in every.items():
        words = [str(word) for word in value] if isinstance(value, (list, tuple)) else [_text(value)]
        flags += [f"--{name.replace('_', '-')}", *words]
    return flags


def _place_of(thread: threading.Thread) -> str:
    """Return where a thread is, with a traceback."""
    frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001 - documented, in spite of its name
    return (
        "Its thread has ended." if frame is None else f"It is at:\n{''.join(traceback.format_stack(frame))}"
    )


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
