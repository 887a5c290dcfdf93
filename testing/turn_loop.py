"""An event loop that lets other threads run the server's code, one thread at a time."""

from __future__ import annotations

import asyncio
import contextlib
import selectors
import threading
import time
from asyncio import selector_events
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

if TYPE_CHECKING:
    import select

    _Events = list[tuple[selectors.SelectorKey, int]]

_LENT_SECONDS: Final = 0.001
_MAX_EVENTS: Final = 64  # of a round
# Not under gevent.
_HAS_EPOLL: Final = issubclass(selectors.DefaultSelector, getattr(selectors, "EpollSelector", ()))
_MONOTONIC: Final = getattr(time, "CLOCK_MONOTONIC", None)


class _Selector(selectors.DefaultSelector):
    """Releases the turn while it waits, and runs the callbacks of sockets that have input itself.

    asyncio would put them into a queue and make another round first, which costs a client by TCP 3 us a command.
    """

    loop: TurnLoop

    # the standard selector's: its epoll object, and what is registered by its descriptors
    _selector: select.epoll
    _fd_to_key: Mapping[int, selectors.SelectorKey]

    def select(self, timeout: float | None = None) -> _Events:
        """Wait for events; return those that are left for asyncio."""
        loop = self.loop
        until = None if timeout is None else loop.time() + timeout
        if timeout == 0:  # callbacks wait, and come first
            return self._look()
        while True:
            loop.has_new = False
            left = self._serve(timeout)
            if left or loop.has_new or loop._ready:  # noqa: SLF001
                return left
            if until is not None:
                timeout = until - loop.time()
                if timeout <= 0:
                    return left

    def _serve(self, timeout: float | None) -> _Events:
        """Wait, and run the callbacks of sockets that have input; return the other events."""
        turn = self.loop.turn
        turn.release()
        try:
            found = self._poll(timeout)
        finally:
            turn.acquire()
        is_done = True
        for descriptor, events in found:
            # Another thread, or a callback just before, may have removed or replaced it.
            key = self._fd_to_key.get(descriptor)
            if events == selectors.EVENT_READ and key is not None and key.data[0] is not None:
                key.data[0]._run()  # noqa: SLF001
            else:
                is_done = False
        return [] if is_done else self._look()  # which finds again what is left

    def _poll(self, timeout: float | None) -> list[tuple[int, int]]:
        # EPOLLIN is EVENT_READ. The lists that the standard selector makes cost a client 2 us a command.
        if _HAS_EPOLL:
            return self._selector.poll(timeout, _MAX_EVENTS)
        return [(key.fd, events) for key, events in super().select(timeout)]

    def _look(self) -> _Events:
        turn = self.loop.turn
        turn.release()
        try:
            found = super().select(0)
        finally:
            turn.acquire()
        # For a key that another thread has just replaced asyncio would remove the new callback.
        return [each for each in found if self._fd_to_key.get(each[0].fd) is each[0]]


class _Wire(selector_events._SelectorSocketTransport):  # type: ignore[misc, name-defined]  # noqa: SLF001
    """The transport of a socket: reads and writes of usual sizes take less time than asyncio's."""

    # Of a read; the allocator maps and unmaps asyncio's 256 KiB for each read, which takes 4 us.
    max_size = 1 << 16

    def write(self, data: bytes) -> None:
        """Implement ``asyncio.WriteTransport.write``."""
        if self._buffer or self._conn_lost or not data:
            super().write(data)
            return
        try:
            sent = self._sock.send(data)
        except OSError:
            super().write(data)  # which handles it
        else:
            if sent < len(data):
                super().write(data[sent:])


LOOPS: Final[WeakSet[TurnLoop]] = WeakSet()


class TurnLoop(asyncio.SelectorEventLoop):
    """An event loop that holds a lock, the turn, except while it waits for sockets and timers.

    It is based on asyncio's loop, because uvloop has no hook between its wait and its callbacks.

    Attributes:
        turn: held by the thread that runs the server's code.
        has_new: something was scheduled, or the loop is to stop; the thread that scheduled it wakes the loop.
        caller: the identifier of the other thread that runs the server's code.
        collects: whether the garbage collector was enabled before ``caller`` disabled it.
        hung_up: connections in memory that their clients have closed, and the server has not.
        is_lent: the loop's own thread is in the middle of a slow script, and lets other threads run commands.
    """

    # asyncio's: the callbacks of the next round, and the connections by their descriptors
    _ready: deque[asyncio.Handle]
    _transports: Mapping[int, asyncio.Transport]
    _thread_id: int | None  # of the thread that runs it

    def __init__(self) -> None:
        self.turn = threading.Lock()
        self.turn.acquire()
        self.has_new = self.is_lent = self.collects = False
        self.caller: int | None = None
        self.hung_up: dict[Any, None] = {}
        self._handed: deque[Callable[[], None]] = deque()
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)
        LOOPS.add(self)

    def _make_socket_transport(
        self, sock: Any, protocol: Any, waiter: Any = None, *, extra: Any = None, server: Any = None
    ) -> Any:
        del server  # asyncio's server would count its clients, and leave sockets open that come after its end
        return _Wire(self, sock, protocol, waiter, extra)

    def call_soon(self, *args: Any, **more: Any) -> asyncio.Handle:  # type: ignore[override]
        """Implement ``BaseEventLoop.call_soon``."""
        self.has_new = True
        return super().call_soon(*args, **more)

    def call_at(self, *args: Any, **more: Any) -> asyncio.TimerHandle:  # type: ignore[override]
        """Implement ``BaseEventLoop.call_at``."""
        self.has_new = True
        return super().call_at(*args, **more)

    def stop(self) -> None:
        """Implement ``BaseEventLoop.stop``."""
        self.has_new = True
        super().stop()

    def time(self) -> float:
        """Implement ``BaseEventLoop.time``, even if a library that freezes the time has replaced ``time.monotonic``."""
        return time.clock_gettime(_MONOTONIC) if _MONOTONIC is not None else super().time()

    def is_run_by(self, thread: int) -> bool:
        """Return True if a thread is in the middle of the server's code, or is the loop's own."""
        return thread in (self.caller, self._thread_id)

    def wake(self) -> None:
        """Wake the loop, so that it runs what another thread has scheduled."""
        with contextlib.suppress(RuntimeError):  # closed
            self.call_soon_threadsafe(_nothing)

    def hand_over(self, act: Callable[[], None]) -> None:
        """Run a function in the loop's own thread: in its next iteration, or when a slow script there calls ``lend``."""
        self._handed.append(act)
        self.call_soon(self._act)

    def _act(self) -> None:
        while self._handed:
            self._handed.popleft()()

    def lend(self) -> None:
        """Release the turn lock for a moment in the middle of a slow script, so that other threads can run commands."""
        self._act()
        self.is_lent = True
        self.turn.release()
        try:
            time.sleep(_LENT_SECONDS)
        finally:
            self.turn.acquire()
            self.is_lent = False

    def close(self) -> None:
        """Implement ``BaseEventLoop.close``. Connections end, and a thread that waits for the turn lock sees it."""
        if self.is_closed():
            return
        for transport in list(self._transports.values()):
            transport.abort()  # it closes its socket in the next round
        self.call_soon(self.stop)
        self.run_forever()
        super().close()
        self.turn.release()

    def _check_thread(self) -> None:
        """Accept any thread, as it holds the turn; asyncio's debug mode calls this."""


def _nothing() -> None:
    pass
