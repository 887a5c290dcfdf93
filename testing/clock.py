"""The time of a test server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class Clock:
    """The time of one test server, in Unix milliseconds; it runs until it is frozen.

    Args:
        command: runs one command on the server; returns its reply.
    """

    def __init__(self, command: Callable[..., Any]) -> None:
        self._command = command

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
        return self._debug_clock(b"ADVANCE", b"%d" % round(total))

    def freeze(self, at: int | None = None) -> int:
        """Stop the clock, at ``at`` (milliseconds) or at the present time."""
        return self._debug_clock(b"FREEZE", *([] if at is None else [b"%d" % at]))

    def resume(self) -> int:
        """Let a frozen clock continue from its time."""
        return self._debug_clock(b"RESUME")

    @property
    def now(self) -> int:
        """Return the server's time."""
        return self._debug_clock(b"NOW")

    def _debug_clock(self, *words: bytes) -> int:
        return int(self._command(b"DEBUG", b"CLOCK", *words))
