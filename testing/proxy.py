"""A proxy between a test and a real server, in a thread or in the test's event loop."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, Self, TextIO, TypeVar

from ..console.recorded import command_of
from ..server.debugging.commands.recording import fields_of
from ..server.debugging.recorder import Recorded
from ..server.event_loop import new_event_loop
from .clients import client_like, for_client, need_redis
from .control import Control, ControlError
from .faults import HasFaults
from .log import logger
from .process import START_SECONDS, STOP_SECONDS, InWith, StartError
from .proxying.listener import Listener
from .proxying.upstream import parse_url
from .spies import HasSpies

if TYPE_CHECKING:
    import redis
    import redis.asyncio


T = TypeVar("T")

_REFUSED: Final = {
    "cluster": "A proxy has one address, and the nodes of a cluster send clients to others: put one in front of a single "
    "server, and use rillet.testing.Cluster for a cluster",
    "sentinel": "A proxy stands in front of a server, not of a sentinel, whose answers lead past it",
}


class _HasListener(HasSpies, HasFaults):
    """The part of a proxy that does not depend on where it runs."""

    _keeps_ids = False  # whether clients keep the proxy's IDs once they know the server's

    def __init__(self, url: str, *, port: int = 0, host: str = "127.0.0.1") -> None:
        super().__init__()
        self._upstream = parse_url(url)
        self._listener: Listener | None = None
        self._control: Control | None = None
        self._controlling = threading.Lock()
        self.host = host
        self.port = port

    @property
    def url(self) -> str:
        """``redis://…`` of the proxy, with the user, password and database of the server's URL."""
        return self._upstream.url(self.host, self.port)

    def client(self, *, like: Callable[..., redis.Redis] | None = None, **options: Any) -> redis.Redis:
        """Return a new redis-py client that connects through the proxy; see ``Server.client``.

        Args:
            like: how the application creates its client: a class or a function.
            options: redis-py's options (``protocol=3``, …).

        Raises:
            ImportError: redis-py is not installed.
        """
        need_redis()
        import redis

        if like is not None:
            return client_like(like, self.url, options, is_async=False)
        return redis.Redis.from_url(self._client_url(options), **for_client(redis.Redis, options))

    def async_client(
        self, *, like: Callable[..., redis.asyncio.Redis] | None = None, **options: Any
    ) -> redis.asyncio.Redis:
        """Return a new ``redis.asyncio`` client that connects through the proxy."""
        need_redis()
        import redis.asyncio

        if like is not None:
            return client_like(like, self.url, options, is_async=True)
        return redis.asyncio.Redis.from_url(
            self._client_url(options), **for_client(redis.asyncio.Redis, options)
        )

    def _client_url(self, options: dict[str, Any]) -> str:
        """Return the URL, without its database if ``db`` is given: it would override ``db``."""
        return self.url.rpartition("/")[0] if "db" in options else self.url

    @property
    def server_name(self) -> str:
        """Where the server is, without a password."""
        return str(self._upstream)

    # What a proxy can and a server cannot

    def record_to(self, file: TextIO) -> None:
        """From now on, write one line per command to a file when its reply arrives: number, time, client, words, reply.

        Keep the file open until the proxy stops. If it cannot be written, that is logged as an error, and commands pass on.
        """

        def begin(listener: Listener) -> None:
            recorder = listener.recorder
            recorder.start(1)

            def write(entry: Recorded) -> None:
                try:
                    file.write(f"{command_of(fields_of(recorder, entry))}\n")
                except OSError as error:
                    recorder.finished = id
                    logger.error("No more is recorded: %s", error)

            recorder.finished = write

        self._run(begin)

    def push(self, *words: object, client: str | int | None = None) -> int:
        """Send clients a RESP3 push, e.g. about maintenance: ``proxy.push("MOVING", 1, 15, "10.0.0.1:6379")``.

        It arrives between two replies, at all RESP3 clients or at those whose name, user, library or ID matches the glob
        ``client``. Return the number of clients.
        """
        data = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        if not data:
            raise ValueError("a push has at least its name")
        glob = None if client is None else str(client).encode()
        return self._run(lambda listener: listener.push(data, glob))

    def partition(self) -> None:
        """Cut the network: connections stay open, but nothing passes in either direction until ``heal``."""
        self._run(Listener.part)

    def heal(self) -> None:
        """Restore the network; bytes that were sent during the partition arrive now."""
        self._run(Listener.heal)

    # Its listener and the server

    def _run(self, what: Callable[[Listener], T]) -> T:
        """Call a function with the listener, in the listener's loop; return its result."""
        raise NotImplementedError

    def _command(self, *words: bytes) -> Any:
        """Run one command: DEBUG on the proxy, any other on the server, over a connection that bypasses the proxy."""
        if words[0] != b"DEBUG":
            return self._controller().run(*words)
        import hiredis

        data = self._run(lambda listener: listener.debug(list(words)))
        reader = hiredis.Reader()
        reader.feed(data)
        reply = reader.gets()
        if isinstance(reply, Exception):
            raise reply
        return reply

    def _controller(self) -> Control:
        with self._controlling:
            if self._control is None or not self._control.is_open or self._control.is_closed:
                self._drop_control()
                self._control = self._connect()
            return self._control

    def _connect(self) -> Control:
        upstream = self._upstream
        control = Control(
            str(upstream),
            0,
            upstream.password,
            username=upstream.username,
            hidden=False,
            connect=upstream.socket,
        )
        if upstream.database:
            control.run(b"SELECT", b"%d" % upstream.database)
        return control

    def _drop_control(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None

    def _check_server(self) -> None:
        """Raise StartError if the server cannot be reached or does not support a proxy (cluster, sentinel)."""
        import hiredis

        try:
            text = self._controller().run(b"INFO", b"server")
        except hiredis.ReplyError:
            return  # the user may not run INFO
        except ControlError as error:
            raise StartError(str(error)) from error
        finally:
            self._drop_control()  # so CLIENT LIST shows a connection of the proxy only once the test asks for something
        found = dict(line.split(":", 1) for line in text.decode().splitlines() if ":" in line)
        refused = _REFUSED.get(str(found.get("redis_mode", found.get("server_mode", ""))))
        if refused is not None:
            raise StartError(refused)


class Proxy(_HasListener, InWith):
    """A proxy in front of a real server, in a thread of this process; it has the faults, spies and recordings of ``Server``.

    ::

        with rillet.testing.Proxy("redis://127.0.0.1:6379") as proxy:
            client = proxy.client()
            with proxy.fault(command="XACK", close="after"):
                …

    Clients log in themselves. The proxy never retries, reorders or invents bytes; when the server closes a connection, so
    does the proxy. See docs/testing/proxy.md.

    Args:
        url: the server's ``redis://``, ``rediss://`` or ``unix://`` URL, with the user and password to log in with.
        port: the proxy's port; 0 picks a free one.
        host: the address to listen on; the default accepts only connections from this machine.
        answers_debug: whether the proxy answers ``DEBUG FAULT`` and ``DEBUG RECORD`` from clients.

    Attributes:
        host: the proxy's address.
        port: the proxy's port.
    """

    def __init__(
        self, url: str, *, port: int = 0, host: str = "127.0.0.1", answers_debug: bool = True
    ) -> None:
        super().__init__(url, port=port, host=host)
        self._answers_debug = answers_debug
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> Self:
        """Start the proxy, and wait until it serves clients.

        Raises:
            StartError: the server cannot be reached, or is a sentinel or a cluster node; or the port is in use.
        """
        if self._thread is not None:
            return self
        try:
            self._check_server()
            self._start_thread()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Close all connections and stop.

        Raises:
            AssertionError: an active fault with ``expect_hits`` hit nothing; the proxy has stopped.
        """
        try:
            self.check_faults()
        finally:
            self._end()

    def _end(self) -> None:
        self._drop_control()
        thread, loop = self._thread, self._loop
        self._thread = self._loop = None
        if thread is not None:
            if loop is not None:
                with contextlib.suppress(RuntimeError):  # it has ended by itself
                    loop.call_soon_threadsafe(loop.stop)
            thread.join(STOP_SECONDS)
        self._listener = None

    def _leave(self) -> None:
        self.stop()

    def _start_thread(self) -> None:
        ready: Future[Listener] = Future()

        def life() -> None:
            loop = new_event_loop()
            listener = Listener(self._upstream, answers_debug=self._answers_debug, keeps_ids=self._keeps_ids)
            try:
                loop.run_until_complete(listener.start(self.host, self.port))
                self._loop = loop
                ready.set_result(listener)
                loop.run_forever()
                loop.run_until_complete(listener.stop())
            except BaseException as error:  # noqa: BLE001 - handed to the thread that waits for the start
                if not ready.done():
                    ready.set_exception(error)
            finally:
                loop.close()

        self._thread = threading.Thread(target=life, name="rillet proxy", daemon=True)
        self._thread.start()
        try:
            self._listener = ready.result(START_SECONDS)
        except OSError as error:
            raise StartError(f"The proxy cannot listen: {error}") from error
        self.port = self._listener.port

    def _run(self, what: Callable[[Listener], T]) -> T:
        listener, loop = self._listener, self._loop
        if listener is None or loop is None:
            raise ControlError("The proxy is not running")
        done: Future[T] = Future()

        def call() -> None:
            try:
                done.set_result(what(listener))
            except BaseException as error:  # noqa: BLE001 - handed to the thread that waits
                done.set_exception(error)

        loop.call_soon_threadsafe(call)
        return done.result(STOP_SECONDS)


class AsyncProxy(_HasListener):
    """A proxy in the test's event loop, for ``async with``; ``client`` returns a ``redis.asyncio`` client.

    Methods that query the server (``stream``, ``age`` …) block the loop until it replies, so the server must not run in it.
    """

    async def __aenter__(self) -> Self:
        try:
            await asyncio.to_thread(self._check_server)
            self._listener = Listener(self._upstream)
            await self._listener.start(self.host, self.port)
        except OSError as error:
            self._drop_control()
            raise StartError(f"The proxy cannot listen: {error}") from error
        except BaseException:
            self._drop_control()
            raise
        self.port = self._listener.port
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.check_faults()
        finally:
            self._drop_control()
            listener, self._listener = self._listener, None
            if listener is not None:
                await listener.stop()

    def client(  # type: ignore[override]
        self, *, like: Callable[..., redis.asyncio.Redis] | None = None, **options: Any
    ) -> redis.asyncio.Redis:
        """Return a new ``redis.asyncio`` client; close it with ``await client.aclose()``."""
        return self.async_client(like=like, **options)

    def _run(self, what: Callable[[Listener], T]) -> T:
        if self._listener is None:
            raise ControlError("The proxy is not running")
        return what(self._listener)
