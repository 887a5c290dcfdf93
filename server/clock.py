"""The clock is an object: read once per batch, so that one batch and one EXEC see one time.

Nothing else in Rillet reads the system's wall time. A virtual clock moves only on request.
"""

from __future__ import annotations

import time
from time import time_ns


class Clock:
    """Wall time in milliseconds since the epoch, as of the last ``tick``, plus what was added.

    ``now`` is the cached time that commands see; ``offset`` (milliseconds) is what ``advance`` added to the
    system's time. A frozen clock stands still between calls of ``advance``.
    """

    __slots__ = ("_frozen_at", "now", "offset")

    def __init__(self) -> None:
        self.offset = 0
        self._frozen_at: int | None = None
        self.now = 0
        self.tick()

    def tick(self) -> int:
        """Read the time again and return it."""
        self.now = now = time_ns() // 1_000_000 + self.offset if self._frozen_at is None else self._frozen_at
        return now

    def advance(self, milliseconds: int) -> int:
        """Move the time by ``milliseconds`` (negative: back) and return the new time."""
        if self._frozen_at is not None:
            self._frozen_at += milliseconds
        else:
            self.offset += milliseconds
        return self.tick()

    def freeze(self, at: int | None = None) -> int:
        """Stop the clock, at ``at`` milliseconds or at the present time."""
        self._frozen_at = self.tick() if at is None else at
        return self.tick()

    def resume(self) -> int:
        """Let a frozen clock continue from its time."""
        if self._frozen_at is not None:
            self.offset = self._frozen_at - time_ns() // 1_000_000
            self._frozen_at = None
        return self.tick()

    def reset(self) -> int:
        """Return to the system's time."""
        self._frozen_at = None
        self.offset = 0
        return self.tick()

    def unix_seconds(self) -> float:
        """The time with microseconds, read now: for TIME and MONITOR."""
        if self._frozen_at is not None:
            return self._frozen_at / 1000
        return time.time() + self.offset / 1000
