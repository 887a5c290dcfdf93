"""An event loop whose time is virtual: a timeout costs nothing, and no pause of the machine ends it early."""

import asyncio
from contextlib import closing
from typing import Any


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop whose time moves at once to the next timer when there is no input: what looptime makes of one."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        wait = self._selector.select  # type: ignore[attr-defined]

        def select(timeout: float | None = None) -> Any:
            events = wait(None if timeout is None else min(timeout, 0.001))
            if not events and timeout:
                self._now += timeout
            return events

        self._selector.select = select  # type: ignore[attr-defined]

    def time(self) -> float:
        return self._now


def run_virtually(coroutine: Any) -> Any:
    """As `asyncio.run`, which would take pytest-asyncio's loop away."""
    with closing(VirtualLoop()) as loop:
        return loop.run_until_complete(coroutine)
