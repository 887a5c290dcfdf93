"""An event loop that lets other threads run the server's code, one thread at a time."""

from __future__ import annotations

import asyncio
import contextlib
import selectors
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_LENT_SECONDS: Final = 0.001
_MONOTONIC: Final = getattr(time, "CLOCK_MONOTONIC", None)


class _Selector(selectors.DefaultSelector):
    """Releases the turn while it waits."""

    loop: TurnLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        turn = self.loop.turn
        turn.release()
        try:
            return super().select(timeout)
        finally:
            turn.acquire()


class TurnLoop(asyncio.SelectorEventLoop):
    """A loop that holds a lock except while it waits for sockets and timers.

    It is based on asyncio's loop, because uvloop has no hook between its wait and its callbacks.

    Attributes:
        turn: held by the thread that runs the server's code.
        has_new: something was scheduled; the thread that scheduled it wakes the loop.
        is_lent: the loop's own thread is in the middle of a slow script, and lets other threads run commands.
    """

    def __init__(self) -> None:
        self.turn = threading.Lock()
        self.turn.acquire()
        self.has_new = self.is_lent = False
        self._handed: deque[Callable[[], None]] = deque()
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)

    def call_soon(self, *args: Any, **more: Any) -> asyncio.Handle:  # type: ignore[override]
        """Implement ``BaseEventLoop.call_soon``."""
        self.has_new = True
        return super().call_soon(*args, **more)

    def call_at(self, *args: Any, **more: Any) -> asyncio.TimerHandle:  # type: ignore[override]
        """Implement ``BaseEventLoop.call_at``."""
        self.has_new = True
        return super().call_at(*args, **more)

    def time(self) -> float:
        """Implement ``BaseEventLoop.time``, even if a library that freezes the time has replaced ``time.monotonic``."""
        return time.clock_gettime(_MONOTONIC) if _MONOTONIC is not None else super().time()

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
        """Implement ``BaseEventLoop.close``. A thread that waits for the turn lock then sees that the loop is closed."""
        super().close()
        with contextlib.suppress(RuntimeError):  # a second call
            self.turn.release()

    def _check_thread(self) -> None:
        """Accept any thread, as it holds the turn; asyncio's debug mode calls this."""


def _nothing() -> None:
    pass
