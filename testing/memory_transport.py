"""Connect redis-py to a server in a thread of this process, without sockets.

The calling thread runs the server's code: it takes the lock of the server's loop (``turn_loop``), passes its
bytes to the server's protocol, and finds the reply in memory; no other thread wakes up. If a command
schedules timers or callbacks, the loop's thread is woken to run them. That thread also runs commands that may
take long or wait for others (scripts, transactions, DEBUG, CONFIG …), so that a timeout or Ctrl-C can reach
the caller. ``memory_transport_in_loop`` connects client and server of one loop.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` wraps these in enumerations, which takes longer than a command
import asyncio
import gc
import os
import signal
import socket
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final, cast

from ..commands.runtime.state import PLAIN
from .clients import PORTS
from .clients_across_resets import connection_class
from .turn_loop import LOOPS

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis

    from ..server.server import Server
    from .turn_loop import TurnLoop

# Unread bytes above which the server stops running a client's commands, and down to which it resumes.
_HIGH: Final = 1 << 20
_LOW: Final = 1 << 18
# Unread bytes that the buffers of a socket would hold, where the server does not see them.
_IN_SOCKET: Final = 1 << 16
_NO_FILE: Final = 1 << 30
_LOOK_SECONDS: Final = 0.0002
_PEEK: Final = int(socket.MSG_PEEK)  # an IntFlag costs 3 us each time
_FOR_THE_LOOP: Final = frozenset(
    b"BGREWRITEAOF BGSAVE CLUSTER CONFIG DEBUG EVAL EVALSHA EVALSHA_RO EVAL_RO FAILOVER FCALL FCALL_RO FUNCTION MIGRATE PSYNC "
    b"REPLICAOF SAVE SCRIPT SHUTDOWN SLAVEOF SYNC".split()
)
# They take less time than a wake-up of the loop, and each test sends them.
_QUICK: Final = ([b"DEBUG", b"RESET"], [b"DEBUG", b"RECORD"])
_MAIN: Final = threading.main_thread().ident
# Signals whose handlers usually raise: Ctrl-C, a time limit, a request to terminate.
_SIGNALS: Final = tuple(
    int(getattr(signal, name)) for name in ("SIGINT", "SIGALRM", "SIGTERM") if hasattr(signal, name)
)


_Handlers = tuple[tuple[int, Any], ...]
_came: Final[list[tuple[int, Any]]] = []  # signals that arrived within the server's code, with their frames
_replaced: _Handlers = ()  # the handlers that were replaced last


def _note(number: int, frame: Any) -> None:
    _came.append((number, frame))


def _hold_signals() -> _Handlers:
    """Replace signal handlers while this thread runs the server's code, where they could raise anywhere.

    Call it only in the main thread. It takes 2 us; the functions of ``signal`` would take 8.
    """
    global _replaced  # noqa: PLW0603 - for a fork by another thread
    handlers: _Handlers = ()
    try:
        for number in _SIGNALS:
            handler = _signal.getsignal(number)
            if type(handler) is not int and handler is not None:
                handlers += ((number, handler),)
                _replaced = handlers
                _signal.signal(number, _note)
    except BaseException:
        _give_back(handlers)
        raise
    return handlers


def _leave_in_fork() -> None:
    """Undo, in a child forked by another thread, what a thread that does not exist there has begun."""
    for number, handler in _replaced:
        if _signal.getsignal(number) is _note:
            _signal.signal(number, handler)
    if any(loop.caller is not None and loop.collects for loop in LOOPS):
        gc.enable()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_in_fork)


def _give_back(handlers: _Handlers) -> None:
    left = handlers
    try:
        while left:
            _signal.signal(*left[0])
            left = left[1:]
    except BaseException:
        _give_back(left[1:])  # a restored handler has raised
        raise


def _release_signals(handlers: _Handlers) -> None:
    """Restore the handlers, and call them for the signals that have arrived."""
    _give_back(handlers)
    if _came:
        came, by_number = _came.copy(), dict(handlers)
        _came.clear()
        for number, frame in came:
            by_number[number](number, frame)


class Channel(asyncio.Transport):
    """The server's end of a connection without a socket: an asyncio transport.

    Args:
        meet: creates the server's protocol for the connection.
        place: the host and port at which the server would listen.
        timeout: how many seconds the client waits for a reply, or for its turn to run the server's code in its own thread;
            None: without a limit.

    Attributes:
        protocol: the server's protocol.
        ended: the connection is closed; no more bytes arrive.
    """

    def __init__(
        self,
        loop: TurnLoop,
        meet: Callable[[], asyncio.Protocol],
        place: tuple[str, int],
        timeout: float | None,
    ) -> None:
        super().__init__({"sockname": place, "peername": ("127.0.0.1", next(PORTS))})
        self.loop = loop
        self.timeout = timeout
        self.ended = False
        self._pid = os.getpid()
        # For the client; views where it has read a part: copying the rest each time took 8 times the cost of TCP for 10 MB.
        self._arrived: deque[bytes | memoryview] = deque()
        self._sent: deque[bytes] = deque()  # bytes that the server has not received yet
        self._written = self._read = 0  # bytes; only one side changes each
        self._is_reading = True
        self._is_delivering = self._is_full = self._is_lost = False
        self._readers = 0
        self._bell = threading.Event()
        self.protocol: Any = None
        self._call(self._begin, meet)

    def _begin(self, meet: Callable[[], asyncio.Protocol]) -> None:
        self.protocol = meet()
        self._replies = self.protocol.server.replies
        self.protocol.connection_made(self)

    # The thread of the client

    def _call(self, method: Callable[[Any], None], argument: Any) -> None:
        """Run the server's code in this thread.

        Raises:
            ConnectionResetError: the server has ended, belongs to the parent of this process, or is in the middle of its code
                in this thread: the caller is a signal handler or a finalizer.
            TimeoutError: others have kept the turn for longer than the timeout.
        """
        loop = self.loop
        if os.getpid() != self._pid:
            raise ConnectionResetError(104, "The server runs in the parent of this process")
        thread = threading.get_ident()
        if loop.turn.locked():
            if loop.is_run_by(thread):  # it would wait for itself
                raise ConnectionResetError(104, "This thread is in the middle of the server's code")
            self._await_turn()
        # Held before the turn is taken: a handler that calls the server would wait for its own thread.
        held = _hold_signals() if thread == _MAIN else ()
        try:
            with loop.turn:  # a `with`, so that no exception of a signal handler can leave it locked
                if loop.is_closed():
                    raise ConnectionResetError(104, "Connection reset by peer")
                loop.collects = gc.isenabled()
                loop.caller = thread
                gc.disable()  # a finalizer of the user's may call the server
                loop.has_new = False
                try:
                    if loop.hung_up:
                        _end_hung_up(loop)
                    method(argument)
                except Exception as error:  # noqa: BLE001 - a bug of the server; asyncio would handle it the same way
                    loop.call_exception_handler({"message": "in data_received", "exception": error})
                finally:
                    loop.caller = None
                    if loop.collects:
                        gc.enable()
                has_new = loop.has_new
            if has_new:
                loop.wake()
        finally:
            if held:
                _release_signals(held)

    def _await_turn(self) -> None:
        """Wait until the turn is free, as long as a socket would wait for the reply; signal handlers may interrupt it."""
        loop = self.loop
        if self.timeout is None:
            with loop.turn:
                return
        until = loop.time() + self.timeout
        while loop.turn.locked():
            if loop.time() > until:
                raise TimeoutError("timed out")
            time.sleep(_LOOK_SECONDS)

    def send(self, data: bytes) -> None:
        """Send the client's bytes to the server; as with a socket, the client notices the end only when it reads."""
        if not self.ended:
            self._call(self._receive, data)

    def _receive(self, data: bytes) -> None:
        loop = self.loop
        self._sent.append(data)
        if loop.is_lent or (
            len(self._sent) == 1
            and getattr(self.protocol, "state", PLAIN) is PLAIN
            and not _may_take_long(data)
        ):
            self._replies.begin_round()
            self.deliver()
        else:
            loop.hand_over(self.deliver)

    def receive(self, size: int, *, keep: bool = False) -> bytes:
        """Wait for bytes from the server, and return at most ``size`` of them; b"" once the connection has ended.

        Args:
            size: the most bytes to return.
            keep: leave them for the next call, as ``MSG_PEEK`` does.

        Raises:
            TimeoutError: nothing arrived within the channel's timeout.
            BlockingIOError: nothing has arrived, and the timeout is 0.
        """
        arrived = self._arrived
        if not arrived and not self._wait(self.timeout):
            return b""
        if keep:
            return bytes(arrived[0][:size])
        data = arrived.popleft()
        if len(data) > size:
            view = memoryview(data)
            arrived.appendleft(view[size:])
            data = view[:size]
        self._read += len(data)
        if self._is_full and self._written - self._read <= _LOW:
            self._is_full = False
            self.loop.call_soon_threadsafe(self._go_on)
        return bytes(data)

    def _wait(self, timeout: float | None) -> bool:
        """Wait for data; return False at the end.

        It does not wait for the turn: a slow command must not delay the timeout. It reads no clock, because libraries that
        freeze the time freeze all of Python's clocks.
        """
        self._readers += 1
        try:
            while not (self._arrived or self.ended):
                self._bell.clear()
                if self._arrived or self.ended:
                    break
                if timeout == 0:
                    raise BlockingIOError(11, "Resource temporarily unavailable")
                if not self._bell.wait(timeout):
                    raise TimeoutError("timed out")
        finally:
            self._readers -= 1
        return bool(self._arrived)

    def can_read(self, timeout: float) -> bool:
        """Return True if data or the end arrives within ``timeout`` seconds."""
        if self._arrived or self.ended or not timeout:
            return bool(self._arrived or self.ended)
        try:
            self._wait(timeout)
        except TimeoutError:
            return False
        return True

    @property
    def has_ended(self) -> bool:
        """Whether the connection is closed and the client has read everything."""
        return self.ended and not self._arrived

    def hang_up(self) -> None:
        """Close the client's side of the connection; the server learns it before it runs a later command from memory.

        The garbage collector may call it in any thread, even within the server's code.
        """
        if not self.ended and os.getpid() == self._pid and not self.loop.is_closed():
            self.loop.hung_up[self] = None
            self.loop.call_soon_threadsafe(self.lose)

    # The server's code, in the thread that has the turn

    def deliver(self) -> None:
        """Pass the client's bytes to the protocol.

        If one of its commands is still running (a slow script lets other threads run), the bytes wait for its end.
        """
        if self._is_delivering:
            return
        self._is_delivering = True
        try:
            while self._sent and self._is_reading and not self.ended:
                self.protocol.data_received(self._sent.popleft())
        except BaseException:
            self.abort()
            raise
        finally:
            self._is_delivering = False

    @property
    def is_all_delivered(self) -> bool:
        """Whether the protocol has received all that the client has sent."""
        return not self._sent

    def lose(self) -> None:
        """Let the protocol know that the client has closed its end."""
        self.loop.hung_up.pop(self, None)
        if not self.ended and not self.protocol.eof_received():
            self.close()
        if self.ended:
            self._report_loss()

    def _report_loss(self) -> None:
        if not self._is_lost:
            self._is_lost = True
            self.protocol.connection_lost(None)

    def _go_on(self) -> None:
        if not self.ended:
            self.protocol.resume_writing()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes to the client; if it does not read, pause its commands, as with a socket whose buffers are full."""
        if self.ended:
            return
        self._arrived.append(bytes(data))
        self._written += len(data)
        if self._readers:
            self._bell.set()
        if not self._is_full and self._written - self._read > _HIGH:
            self._is_full = True
            self.protocol.pause_writing()

    def get_write_buffer_size(self) -> int:
        """Return the number of bytes that the client has not read, and that a socket would not hold."""
        return max(self._written - self._read - _IN_SOCKET, 0)

    def can_write_eof(self) -> bool:
        """Return False: both directions end together."""
        return False

    def is_closing(self) -> bool:
        """Return True if the connection is closed."""
        return self.ended

    def close(self) -> None:
        """Close; the client can still read what was written."""
        if not self.ended:
            self.ended = True
            self.loop.call_soon(self._report_loss)
            if self._readers:
                self._bell.set()

    abort = close

    def is_reading(self) -> bool:
        """Implement ``asyncio.ReadTransport.is_reading``."""
        return self._is_reading and not self.ended

    def pause_reading(self) -> None:
        """Keep the client's bytes instead of delivering them to the server."""
        self._is_reading = False

    def resume_reading(self) -> None:
        """Deliver the client's bytes, including those buffered meanwhile."""
        self._is_reading = True
        self.loop.hand_over(self.deliver)

    def get_protocol(self) -> Any:
        """Return the server's protocol."""
        return self.protocol

    def set_protocol(self, protocol: Any) -> None:
        """Replace the server's protocol."""
        self.protocol = protocol


def _end_hung_up(loop: TurnLoop) -> None:
    """End connections that clients have closed: otherwise a command sent later may still serve the blocked client of one."""
    for channel in list(loop.hung_up):
        if channel.is_all_delivered:
            channel.lose()


def _may_take_long(data: bytes) -> bool:
    """Return True if a command among the bytes may take long or wait for others. A regular expression takes 4 times as long.

    A large request is not searched, which takes 2 ms a megabyte: a wake-up of the loop takes 0.03.
    """
    if len(data) > _IN_SOCKET:
        return True
    words = data.upper().split(b"\r\n")
    if words[2:5:2] in _QUICK:
        del words[:5]
    return not _FOR_THE_LOOP.isdisjoint(words)


class ChannelSocket:
    """The client's end of a connection without a socket: the part of the socket interface that redis-py uses."""

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self.receive = channel.receive
        self._is_open = True

    def sendall(self, data: bytes | bytearray | memoryview) -> None:
        """Send all bytes."""
        self.channel.send(bytes(data))

    def send(self, data: bytes | bytearray | memoryview) -> int:
        """Send all bytes, and return their number."""
        self.channel.send(bytes(data))
        return len(data)

    def recv(self, size: int, flags: int = 0) -> bytes:
        """Receive and return at most ``size`` bytes, b"" at the end; ``MSG_PEEK`` leaves them in the buffer."""
        return self.channel.receive(size, keep=bool(flags & _PEEK))

    def recv_into(self, buffer: Any) -> int:
        """Receive bytes into a buffer, and return their number."""
        data = self.receive(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def settimeout(self, seconds: float | None) -> None:
        """Set how many seconds each call waits: None without a limit, 0 not at all."""
        self.channel.timeout = seconds

    def gettimeout(self) -> float | None:
        """Return how many seconds each call waits; None: without a limit."""
        return self.channel.timeout

    def setblocking(self, flag: bool) -> None:
        """Let calls wait without a limit (True), or not at all (False)."""
        self.channel.timeout = None if flag else 0

    def fileno(self) -> int:
        """Return the highest possible descriptor, which no open file has; -1 once closed."""
        return _NO_FILE if self._is_open else -1

    def setsockopt(self, *_: object) -> None:
        """Do nothing: there is no real socket."""

    def getsockname(self) -> Any:
        """Return the client's address."""
        return self.channel.get_extra_info("peername")

    def getpeername(self) -> Any:
        """Return the address at which the server would listen."""
        return self.channel.get_extra_info("sockname")

    def shutdown(self, _how: int) -> None:
        """Close the client's end of the connection, in both directions."""
        self.channel.hang_up()

    def close(self) -> None:
        """Close the client's end of the connection."""
        self._is_open = False
        self.channel.hang_up()


def dial(inside: Server, timeout: float | None) -> ChannelSocket:
    """Connect to a server in a thread of this process, without a socket.

    ``timeout`` is the connection's, in seconds.

    Raises:
        ConnectionRefusedError: the server is stopping, or has no plain TCP port.
        TimeoutError: the server was busy for too long.
    """
    if inside.stopping or not inside.listeners.doors or not inside.config.port:
        raise ConnectionRefusedError(111, "Connection refused")
    _, meet = inside.listeners.doors[0]
    place = "127.0.0.1", inside.config.port
    return ChannelSocket(Channel(cast("TurnLoop", inside.loop), cast("Any", meet), place, timeout))


def connection_class_of(find: Callable[[], Server | None]) -> type[redis.Connection]:
    """Return a redis-py connection class that connects to one server: in memory if possible, otherwise by TCP.

    Args:
        find: returns the server that runs now; None if only a socket can reach it.
    """
    from redis import ConnectionError, __version__  # noqa: A004

    polls = int(__version__.partition(".")[0]) >= 8

    class ChannelConnection(connection_class()):  # type: ignore[misc]
        """A connection to a server in a thread of this process."""

        def _dial(self) -> Any:
            # A real socket connects at once, even to a busy server; the greeting then waits as long as a reply may take.
            server = find()
            return super()._dial() if server is None else dial(server, self.socket_timeout)

        def can_read(self, timeout: float = 0) -> bool:
            """Same as ``Connection.can_read``; from redis-py 8 on, its hiredis parser would poll the socket's descriptor."""
            sock, reader = self._sock, getattr(self._parser, "_reader", None)
            if not (polls and isinstance(sock, ChannelSocket) and reader is not None):
                return bool(super().can_read(timeout))
            if reader.has_data():
                return True
            if not sock.channel.can_read(timeout):
                return False
            if sock.channel.has_ended:
                raise ConnectionError("Connection closed by server.")
            return True

    return ChannelConnection
