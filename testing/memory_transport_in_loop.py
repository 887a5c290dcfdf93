"""Connect redis-py to a server in the same event loop, without sockets.

The server runs a command while the client sends it, and the reply is there when the client begins to read. A task that
polls cannot stop others: each command gives tasks that are ready a turn. If none is ready, the loop looks for timers and
sockets after 32 commands, because the server then holds a reply to the end of the round (``Replies.at_once``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final, cast

from .clients import PORTS
from .clients_across_resets import joined, may_be_refused

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis.asyncio

    from ..server.server import Server

# Unread bytes above which the writer pauses, and down to which it resumes. One ``data_received`` gets at most the first
# number.
_HIGH: Final = 64 << 10
_LOW: Final = 16 << 10
_PIECE: Final = 256_000
# The bytes that a socket would buffer: the other end can read them even after an abort.
_IN_FLIGHT: Final = _HIGH
# Tasks in their eager first step (from Python 3.12 on): the task that began one waits for it, but is not in the loop's queue.
_EAGER: Final[Collection[object]] = getattr(asyncio.tasks, "_eager_tasks", ())


class End(asyncio.Transport):
    """The transport at one end of a connection. Written bytes arrive at the other end at once if it takes them.

    Otherwise they arrive in a later loop iteration: because the other end pauses, others wait before them, they are many, or
    the other protocol is running. As with a socket, if too many wait, the writer's protocol is paused.
    """

    other: End  # the other end

    def __init__(
        self, protocol: asyncio.Protocol, sockname: tuple[str, int], peername: tuple[str, int]
    ) -> None:
        super().__init__({"sockname": sockname, "peername": peername})
        self.loop = asyncio.get_running_loop()
        self.protocol = protocol  # the protocol of this end
        self.arrived = bytearray()  # bytes that the other end wrote and the protocol has not received yet
        self._is_reading = True
        self._is_scheduled = False
        self._is_receiving = False
        self.is_writer_paused = False  # the protocol at the other end was told to pause writing
        self.ended = False  # this end is closed; ``connection_lost`` may still be due
        self.is_lost = False  # ``connection_lost`` was called
        self._had_eof = False

    # Reading

    def is_reading(self) -> bool:
        """Implement ``asyncio.ReadTransport.is_reading``."""
        return self._is_reading and not self.ended

    def pause_reading(self) -> None:
        """Implement ``asyncio.ReadTransport.pause_reading``: buffer arriving bytes."""
        self._is_reading = False

    def resume_reading(self) -> None:
        """Implement ``asyncio.ReadTransport.resume_reading``: deliver the buffered bytes, too."""
        self._is_reading = True
        self.schedule()

    def schedule(self) -> None:
        """Deliver the arrived bytes, or the end of the connection, to the protocol in the next loop iteration."""
        if not self._is_scheduled and self.is_reading() and (self.arrived or self.other.ended):
            self._is_scheduled = True
            self.loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        self._is_scheduled = False
        if not self.is_reading():
            return
        try:
            if self.arrived:
                data = bytes(self.arrived[:_PIECE])
                del self.arrived[:_PIECE]
                self.receive(data)
                if self.is_writer_paused and len(self.arrived) <= _LOW:
                    self.is_writer_paused = False
                    if not self.other.is_lost:
                        self.other.protocol.resume_writing()
                self.schedule()
            elif not self._had_eof:
                self._had_eof = True
                if not self.protocol.eof_received():
                    self.close()
        except BaseException:
            self.abort()
            raise

    def takes_at_once(self, size: int) -> bool:
        """Return True if the other end may call ``receive`` with this number of bytes."""
        return self._is_reading and not (self.arrived or self._is_receiving) and size <= _PIECE

    def receive(self, data: bytes) -> None:
        """Pass bytes to the protocol; if it fails, report that as a loop does, and lose the connection."""
        self._is_receiving = True
        try:
            self.protocol.data_received(data)
        except BaseException as error:
            self.abort()
            if not isinstance(error, Exception):
                raise
            failed = {"message": "Exception in data_received", "exception": error, "transport": self}
            self.loop.call_exception_handler(failed)
        finally:
            self._is_receiving = False

    # Writing

    @property
    def is_open(self) -> bool:
        """Whether a write neither fails nor has to wait for the other end."""
        return not (self.ended or self.other.ended or self.other.is_writer_paused)

    @property
    def is_anything_ready(self) -> bool:
        """Whether a callback or a task of the loop is ready to run; True in a loop that does not say (uvloop)."""
        return bool(getattr(self.loop, "_ready", True) or _EAGER)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes; if the other end is closed, lose the connection after delivering the bytes that have arrived."""
        if self.ended:
            return
        other = self.other
        if other.ended:
            self.lose_soon()
            return
        if other.takes_at_once(len(data)):
            other.receive(bytes(data))
            return
        other.arrived += data
        if len(other.arrived) > _HIGH and not other.is_writer_paused:
            other.is_writer_paused = True
            self.protocol.pause_writing()
        other.schedule()

    def get_write_buffer_size(self) -> int:
        """Return how many bytes the other end has not read."""
        return len(self.other.arrived)

    def can_write_eof(self) -> bool:
        """Return False: both directions end together."""
        return False

    # The end

    def is_closing(self) -> bool:
        """Implement ``asyncio.BaseTransport.is_closing``."""
        return self.ended

    def close(self) -> None:
        """Close; the other end can still read everything that was written."""
        self._end(None)

    def abort(self) -> None:
        """Close; the other end can still read as many bytes as a socket would have buffered."""
        del self.other.arrived[_IN_FLIGHT:]
        self._end(None)

    def _end(self, error: Exception | None) -> None:
        if not self.ended:
            self.ended = True
            self.loop.call_soon(self._lose, error)
            if self.is_writer_paused and self.arrived:
                self.other.lose_soon()  # even if it does not read: a socket could not send the waiting bytes
            else:
                self.other.schedule()
            self.arrived.clear()

    def lose_soon(self) -> None:
        """Deliver the bytes that have arrived.

        Then end the connection with an error, like a socket that cannot send.
        """
        self.schedule()
        self.loop.call_soon(self._end, ConnectionResetError("The other end is closed"))

    def _lose(self, error: Exception | None) -> None:
        self.is_lost = True
        self.protocol.connection_lost(error)

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the protocol of this end."""
        return self.protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Replace the protocol of this end."""
        self.protocol = cast("asyncio.Protocol", protocol)


def connect(
    meet: Callable[[], asyncio.Protocol], host: str, port: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect a new client in memory, and return its reader and writer.

    Args:
        meet: creates the server's protocol for the connection.
        host, port: the address at which the server would listen.
    """
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(loop=loop)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    own = "127.0.0.1", next(PORTS)
    client = End(protocol, own, (host, port))
    server = End(meet(), (host, port), own)
    client.other, server.other = server, client
    protocol.connection_made(client)
    cast("asyncio.Protocol", server.get_protocol()).connection_made(server)
    return reader, asyncio.StreamWriter(client, protocol, reader, loop)


def connection_class_of(find: Callable[[], Server | None]) -> type[redis.asyncio.Connection]:
    """Return a redis-py connection class that connects to one server: in memory if possible, otherwise by TCP.

    Args:
        find: returns the server that runs now; None if only a socket can reach it.
    """
    from redis import ResponseError
    from redis.asyncio import Connection

    class InMemoryConnection(Connection):
        """A connection to a server in the same event loop. It survives a reset, as ``clients_across_resets.KeptConnection`` does."""

        greeting: list[bytes] | None = None  # the commands that it sent while it connected; None by TCP
        is_asleep = False  # the server was reset; it has kept the transport, but no session
        _is_connecting = False

        @property
        def _open_end(self) -> End | None:
            """The transport in memory if a write neither fails nor has to wait."""
            end = None if self._writer is None else self._writer.transport
            return end if isinstance(end, End) and end.is_open else None

        async def connect(self) -> None:
            """Connect; a sleeping connection repeats its greeting instead."""
            if self.is_asleep:
                self.is_asleep = False
                if self._open_end is not None:
                    await self._greet()
                    return
                await self.disconnect(nowait=True)
            elif self._writer is not None:
                return
            self._is_connecting = True
            try:
                await super().connect()  # type: ignore[no-untyped-call]
            finally:
                self._is_connecting = False

        async def _connect(self) -> None:
            server = find()
            if server is None:
                self.greeting = None
                await super()._connect()  # type: ignore[no-untyped-call]
                return
            _, meet = server.listeners.doors[0]
            self.greeting = []
            self._reader, self._writer = connect(meet, self.host, self.port)

        async def _greet(self) -> None:
            if hasattr(self, "_reset_himport_state"):  # from redis-py 8 on
                self._reset_himport_state()
            greeting = self.greeting or []
            try:
                parser: Any = self._parser
                parser.on_connect(self)  # forgets what is left of earlier replies
                if greeting:
                    await self.send_packed_command(b"".join(greeting), check_health=False)
                for sent in greeting:
                    try:
                        await self.read_response()
                    except ResponseError:
                        if not may_be_refused(sent):
                            raise
            except BaseException:
                await self.disconnect(nowait=True)
                raise

        async def send_packed_command(self, command: Any, check_health: bool = True) -> None:
            """Send a command, and give other tasks a turn; with a ``socket_timeout``, redis-py may use a task for it.

            A turn of the loop takes 5 of the 28 us of a GET, so it is left out if no task is ready (2026-11-30).
            """
            end = self._open_end
            if end is None or (check_health and self.health_check_interval):
                await super().send_packed_command(command, check_health)
                return
            # By TCP, asyncio refuses it; here, two threads might run the server at the same time.
            if end.loop is not asyncio.get_running_loop():
                raise RuntimeError(f"{self!r} is attached to a different loop")
            data = joined(command)
            if self._is_connecting and self.greeting is not None:
                self.greeting.append(data)
            end.write(data)
            if not end.is_anything_ready:
                return
            try:
                await asyncio.sleep(0)
            except BaseException:
                await self.disconnect(nowait=True)  # otherwise another command would get the reply
                raise

        @property
        def in_reset(self) -> tuple[bytes, bytes]:
            """The arguments of ``DEBUG RESET KEEP`` for this connection."""
            assert self._writer is not None
            assert self.greeting is not None
            host, port = self._writer.get_extra_info("sockname")
            return b"%b:%d" % (host.encode(), port), b"%d" % sum(map(len, self.greeting))

        @property
        def may_sleep(self) -> bool:
            """Whether it can be kept: it has nothing unread, and everything that a new connection would do is known."""
            reader: Any = self._reader
            return (
                self._open_end is not None
                and self.greeting is not None
                and not reader._buffer  # noqa: SLF001 - asyncio has no other way
                and not (self.redis_connect_func or self.credential_provider or self.health_check_interval)
                and not (self._connect_callbacks or self.retry._retries)  # noqa: SLF001
            )

    return InMemoryConnection
