"""A Rillet server in the event loop of a test."""

from __future__ import annotations

import asyncio
import functools
import os
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import quote

import hiredis

from ..commands.runtime.client import Client
from ..commands.runtime.state import PLAIN
from ..server.clock import Clock as ServerClock
from ..server.clock import LoopClock, clock_for
from ..server.config.file import parse_arguments
from ..server.event_loop import has_sockets
from ..server.execution.turns import NEVER
from ..server.server import Server as RilletServer
from ..storage.gc_pause import gc_paused
from .clients import client_like, close, for_client, need_redis
from .clock import Clock
from .control import ControlError
from .faults import HasFaults
from .folders import TemporaryFolder
from .forks import let_go_in_forks
from .log import ServerLog
from .memory_transport_in_loop import connection_class_of
from .process import StartError
from .seeds import Seed, run_commands, seed_file
from .server import check_transport, data_of, flags_of
from .snapshot import Snapshot, SnapshotStore
from .spies import POLL_SECONDS, HasSpies

if TYPE_CHECKING:
    import redis.asyncio


_DEFAULT_PORT: Final = 6379
# Features that need threads, processes or kinds of sockets that not every event loop has.
_REFUSED: Final = {
    "replicaof": "a replica", "slaveof": "a replica", "cluster_enabled": "a node of a cluster",
    "unixsocket": "a Unix socket", "tls_port": "TLS", "daemonize": "a process of its own",
}  # fmt: skip


class LoopServer(HasSpies, HasFaults):
    """A Rillet server in the running event loop, for ``async with``: no thread, no process.

    It runs in asyncio and uvloop, and in loops with virtual time (looptime) or a simulated network (simloop, simloom): a
    loop needs only timers and ``create_server(factory, host, port)``. If the loop's time is virtual, the server's clock
    starts at 2026-01-01 and follows it. Disk work (fsync, BGSAVE) runs in line.

    Except for the lifecycle and ``wait_until_idle``, every method works as in ``rillet.testing.Server`` and returns without
    waiting, because it calls the server's code directly. Call methods only in the loop's thread.

    Args:
        host: the address to listen on. In a loop without sockets, it becomes the address that the loop assigns.
        port: 0 picks a free port, or 6379 in a loop without sockets. ``restart`` keeps it.
        seed: as in ``rillet.testing.Server``.
        transport: ``memory`` or ``tcp``. With ``memory``, clients from ``client`` use no socket in the server's loop. See
            docs/testing/transports.md.
        directives: as in ``rillet.testing.Server``.

    Attributes:
        log: the last lines of the server's log; they also go to the logger ``rillet``.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        seed: Seed | None = None,
        transport: str = "memory",
        **directives: object,
    ) -> None:
        super().__init__()
        check_transport(transport)
        for name, what in _REFUSED.items():
            if directives.get(name) not in {None, 0, "", "no"}:
                raise ValueError(f"A LoopServer cannot be or have {what} ({name}): use rillet.testing.Server")
        self.host = host
        self.port = port
        self.clock = Clock(self._command)
        self.log = ServerLog()
        self._seed = seed
        self._transport = transport
        self._directives = directives
        self._folder: TemporaryFolder | None = None
        self._owner = 0  # the ID of the process that started it
        self._server: RilletServer | None = None
        self._server_clock: ServerClock | None = None
        self._task: asyncio.Task[None] | None = None
        self._own_client: Client | None = None
        self._planted: Snapshot | None = None
        self._snapshots: SnapshotStore | None = None
        self._clients: list[redis.asyncio.Redis] = []
        self._thread = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._naming: Callable[[bytes], bytes] | None = None

    # Lifecycle

    async def start(self) -> Self:
        """Start the server, and return once it serves clients.

        Raises:
            StartError: the server did not start, for any reason; the text is its own error or its log.
        """
        if self.running:
            return self
        self._owner = os.getpid()
        loop = asyncio.get_running_loop()
        if "dir" not in self._directives and self._folder is None:
            self._folder = TemporaryFolder()
        path = None if self._folder is None else self._folder.path
        simulated = not has_sockets(loop)
        if simulated and not self.port:
            self.port = _DEFAULT_PORT
        logged = self.log.count
        try:
            config = parse_arguments(
                flags_of(self._directives, "127.0.0.1", self.port, path, protected_mode=False)
            )
        except Exception as error:
            self._remove_folder()
            raise StartError(str(error)) from error
        if self._server_clock is None:
            self._server_clock = clock_for(loop)
        server = RilletServer(config, clock=self._server_clock, quiet=not config.logfile, shares_loop=True)
        let_go_in_forks(server)
        server.log.listener = self.log.feed
        server.listeners.naming = self._naming
        if isinstance(self._server_clock, LoopClock):
            # The duration of a command is real time; in virtual time the order must not depend on it.
            server.turns.slice = NEVER
            server.slow_nanoseconds = NEVER
        ready = loop.create_future()
        self._thread = threading.get_ident()
        self._loop = loop
        task = loop.create_task(server.serve(lambda: ready.set_result(None)), name="rillet")
        try:
            with gc_paused():  # a first start imports many modules
                await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            task.cancel()
            raise
        if not ready.done():
            ready.cancel()
            self._remove_folder()
            failure = None if task.cancelled() else task.exception()
            raise StartError(self.log.text(logged) or str(failure or "It ended at once")) from failure
        self._server, self._task = server, task
        self._own_client = own = Client(server)
        own.trusted = own.authenticated = True
        self.port = config.port
        if simulated:
            [*_, (*_, address)] = await loop.getaddrinfo(self.host, self.port)
            self.host = str(address[0])
        self._snapshots = SnapshotStore(self._command)
        if self._seed is not None and self._planted is None:
            self._plant(self._seed)
        self._watch_again()
        return self

    async def stop(self) -> None:
        """Shut down cleanly, close the clients from ``client``, and remove the temporary folder.

        In a fork, only drop the references to the server.
        """
        try:
            if not self._is_inherited:
                self.check_faults()
        finally:
            self._planted = None
            clients, self._clients = self._clients, []
            for client in clients if not self._is_inherited else ():
                await close(client)
            try:
                await self._halt()
            finally:
                self._remove_folder()

    async def restart(self, *, crash: bool = False) -> None:
        """Restart on the same port, with the same files and the same clock.

        Args:
            crash: end like a machine that loses power. Held replies are not sent, and the append-only file loses
                everything that was not synced: up to one second with ``appendfsync everysec``.
        """
        if crash:
            await self.crash()
        else:
            await self._halt()
        await self.start()
        await _disconnect(self._clients)

    async def crash(self) -> None:
        """End like a machine that loses power (see ``restart``); ``start`` restarts the server."""
        server = self._inside
        aof = server.persistence.aof
        self._release_snapshots()
        server.die()
        await self._halt()
        if aof is not None:
            aof.lose_unsynced()

    async def _halt(self) -> None:
        if self._is_inherited:
            self._server = self._task = self._own_client = self._snapshots = self._folder = None
            return
        self._release_snapshots()
        server, task = self._server, self._task
        self._server = self._task = self._own_client = None
        if server is not None and task is not None:
            server.ending.complete()
            await asyncio.wait({task})
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error

    def _release_snapshots(self) -> None:
        if self._snapshots is not None:
            self._snapshots.end()
            self._snapshots = None

    def _remove_folder(self) -> None:
        if self._folder is not None:
            self._folder.remove()
            self._folder = None

    @property
    def _is_inherited(self) -> bool:
        """Whether this process is a fork of the one that started the server, and so has only a copy of it."""
        return self._owner not in {0, os.getpid()}

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._forget_faults()
        await self.stop()

    @property
    def running(self) -> bool:
        """Whether the server is running; False after a command has shut it down."""
        server, task = self._server, self._task
        if self._is_inherited:
            return False
        return server is not None and task is not None and not server.stopping and not task.done()

    # For tests

    @property
    def url(self) -> str:
        """``redis://…`` with the password, for any client library."""
        password = self._directives.get("requirepass")
        credentials = f":{quote(str(password), safe='')}@" if password else ""
        return f"redis://{credentials}{self.host}:{self.port}/0"

    def client(
        self, *, like: Callable[..., redis.asyncio.Redis] | None = None, **options: Any
    ) -> redis.asyncio.Redis:
        """Return a new ``redis.asyncio`` client; ``stop`` closes it if it is still open.

        It connects in memory, unless ``transport`` is ``tcp``, the loop simulates a network or is not the server's loop.
        With ``like``, as in ``rillet.testing.Server.async_client``, it connects as the application's client does.
        """
        need_redis()
        import redis.asyncio

        if like is not None:
            made = client_like(like, self.url, options, is_async=True)
        else:
            if self._transport == "memory":
                options = {"connection_class": self._connection_class} | options
            made = redis.asyncio.Redis.from_url(
                self.url.removesuffix("/0"), **for_client(redis.asyncio.Redis, options)
            )
        self._clients.append(made)
        return made

    @functools.cached_property
    def _connection_class(self) -> type[redis.asyncio.Connection]:
        return connection_class_of(self._find)

    def _find(self) -> RilletServer | None:
        """Return the server object; None in another loop, and in a loop that simulates a network."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop or not has_sockets(loop):
            return None
        inside = self._server
        if inside is None or not inside.listeners.doors:
            raise ConnectionRefusedError(f"Nothing listens on {self.host}:{self.port}")
        return inside

    async_client = client

    def reset(self) -> Awaitable[None]:
        """Restore the initial state, with only the seed's data and no connections. It sends one ``DEBUG RESET``.

        Returns:
            An awaitable that drops closed connections from the clients of ``client``, so that these reconnect. Idle
            connections in memory stay open for a new session.

        Raises:
            hiredis.ReplyError: something could not be reset; the text says what.
        """
        kept: list[Any] = []
        closing = []
        for client in self._clients:
            idle = getattr(client.connection_pool, "_available_connections", None)
            if idle is not None and all(getattr(each, "may_sleep", False) for each in idle):
                kept += idle
            else:
                closing.append(client)
        for connection in kept:
            connection.is_asleep = True
        words = [word for connection in kept for word in connection.in_reset]
        self._command(b"DEBUG", b"RESET", *((b"KEEP", *words) if words else ()))
        if self._planted is not None:
            self.restore(self._planted)
        self._watch_again()
        if closing:
            return asyncio.ensure_future(_disconnect(closing))
        done = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    def snapshot(self) -> Snapshot:
        """Return an immutable copy of all data and functions."""
        return self._store.take()

    def restore(self, snapshot: Snapshot) -> None:
        """Replace all data and functions by a snapshot of this server or another one."""
        self._store.restore(snapshot)

    async def wait_until_idle(self, stream: str, group: str, timeout: float = 5.0) -> None:  # type: ignore[override] # noqa: ASYNC109
        """Wait until a group has delivered and acknowledged every entry; ``timeout`` is in seconds of the loop's time.

        Raises:
            TimeoutError: the text lists the pending and the undelivered entries.
        """
        for _ in self._until_idle(stream, group, timeout, asyncio.get_running_loop().time):
            await asyncio.sleep(POLL_SECONDS)

    # Inside

    def _plant(self, seed: Seed) -> None:
        file = seed_file(seed, data_of)
        if file is None:
            run_commands(seed, self)
            self._planted = self.snapshot()
            return
        try:
            self._planted = self._store.load(file)
        except Exception as error:
            raise StartError(f"The seed {seed} cannot be loaded: {error}") from error
        self.restore(self._planted)

    def run_all(self, commands: Sequence[Sequence[bytes]]) -> list[Any]:
        """Run several commands immediately; return their replies, with errors as exceptions."""
        return [self._run(words) for words in commands]

    @property
    def _store(self) -> SnapshotStore:
        if self._snapshots is None:
            raise ControlError("The server is not running")
        return self._snapshots

    @property
    def _inside(self) -> RilletServer:
        if self._server is None or not self.running:
            raise ControlError("The server is not running")
        return self._server

    def _command(self, *words: bytes) -> Any:
        """Run one command immediately; raise error replies."""
        reply = self._run(words)
        if isinstance(reply, hiredis.ReplyError):
            raise reply
        return reply

    def _run(self, words: Sequence[bytes]) -> Any:
        server, client = self._inside, self._own_client
        assert client is not None
        if threading.get_ident() != self._thread:
            raise ControlError("A LoopServer takes calls only in the thread of its event loop")
        out: list[bytes] = []
        server.keyspace.now = server.clock.tick()
        server.dispatcher.run(client, [list(words)], out, perf_counter_ns())
        server.finish_unit()
        server.cron.wake()
        if not out or client.state is not PLAIN:
            client.end_wait()
            raise ControlError(f"{words[0].decode()} waits for something: send it with server.client()")
        reader = hiredis.Reader()
        reader.feed(out[-1])
        return reader.gets()


async def _disconnect(clients: Iterable[redis.asyncio.Redis]) -> None:
    """Drop the connections that the server has closed from the pools of clients."""
    for client in clients:
        await client.connection_pool.disconnect(inuse_connections=False)
