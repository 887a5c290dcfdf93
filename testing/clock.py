"""The time of a test server."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Self


class Clock:
    """The clock of one test server, in Unix milliseconds; it runs until it is frozen."""

    def __init__(self, command: Callable[..., Any]) -> None:
        self._command = command

    def advance(
        self,
        by: timedelta | None = None,
        /,
        *,
        milliseconds: float = 0,
        seconds: float = 0,
        minutes: float = 0,
        hours: float = 0,
        days: float = 0,
    ) -> int:
        """Advance the server's time by ``by`` or by units, and return the new time in Unix milliseconds.

        Due keys expire and due blocked clients time out immediately.
        """
        total = milliseconds + 1000 * (seconds + 60 * (minutes + 60 * (hours + 24 * days)))
        if by is not None:
            if not isinstance(by, timedelta):
                raise TypeError(f"advance takes a timedelta, or its unit by name: {by!r}")
            total += by / timedelta(milliseconds=1)
        return self._debug_clock(b"ADVANCE", b"%d" % round(total))

    def skip(self) -> int:
        """Advance to the next time at which something is due, and return it in Unix milliseconds.

        Something is due at the timeout of a blocked command, at the time when a pending entry has been idle for long
        enough
        (XREADGROUP CLAIM), at the end of CLIENT PAUSE or of a ``clock_delay=``, and at the expiry of a key or a
        field. If
        nothing is due, the time does not change.
        """
        return self._debug_clock(b"SKIP")

    def auto_skip(self) -> AutoSkip:
        """From now on, ``skip`` whenever all clients wait: each is blocked, or has sent nothing for half a second.

        Returns:
            An object that ends this with ``stop`` or at the end of a ``with`` block. A reset ends it, too.
        """
        self._debug_clock(b"AUTO-SKIP", b"yes")
        return AutoSkip(self._debug_clock)

    def freeze(self, at: datetime | float | None = None) -> int:
        """Stop the clock, and return its time in Unix milliseconds.

        Args:
            at: where to stop: a datetime (a naive one is local time) or Unix milliseconds; None: at the present time.
        """
        if isinstance(at, datetime):
            at = (at.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)
        return self._debug_clock(b"FREEZE", *([] if at is None else [b"%d" % at]))

    def resume(self) -> int:
        """Let a frozen clock run on from its frozen time; return that time in Unix milliseconds."""
        return self._debug_clock(b"RESUME")

    @property
    def now(self) -> int:
        """The server's time in Unix milliseconds."""
        return self._debug_clock(b"NOW")

    def _debug_clock(self, *words: bytes) -> int:
        return int(self._command(b"DEBUG", b"CLOCK", *words))


class AutoSkip:
    """Ends automatic skipping; ``Clock.auto_skip`` returns it."""

    def __init__(self, debug_clock: Callable[..., int]) -> None:
        self._debug_clock = debug_clock

    def stop(self) -> None:
        """End automatic skipping: the clock runs in real time."""
        self._debug_clock(b"AUTO-SKIP", b"no")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.stop()


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
