"""The access frequency of a key (LFU), on Redis' logarithmic scale up to 255.

An access raises the counter with a probability that falls as it grows; time lowers it.

One integer holds a counter and the minute of its last change. ``metering.Meter`` keeps these while the policy is LFU.
"""

from __future__ import annotations

from random import random
from typing import Final

NEW: Final = 5  # the counter of a new key, so that it is not evicted first
HIGHEST: Final = 255
_MINUTE: Final = 60_000
_BITS: Final = 8


class Settings:
    """The settings lfu-log-factor and lfu-decay-time."""

    __slots__ = ("decay_minutes", "log_factor")

    def __init__(self, log_factor: int = 10, decay_minutes: int = 1) -> None:
        self.log_factor = log_factor
        self.decay_minutes = decay_minutes


def stored(counter: int, now: int) -> int:
    """Pack a counter and the minute of ``now`` (milliseconds) into one integer."""
    return now // _MINUTE << _BITS | counter


def decayed(frequency: int, now: int, decay_minutes: int) -> int:
    """Return the counter at ``now`` (milliseconds): one less per ``decay_minutes`` since its last change (0: no decay)."""
    counter = frequency & HIGHEST
    if not decay_minutes:
        return counter
    return max(counter - max(now // _MINUTE - (frequency >> _BITS), 0) // decay_minutes, 0)


def after_access(counter: int, log_factor: int) -> int:
    """Return the counter after one more access: it grows by one with a probability that falls as it gets higher."""
    if counter >= HIGHEST:
        return HIGHEST
    grows = random() * (max(counter - NEW, 0) * log_factor + 1) < 1  # noqa: S311 - only a statistic
    return counter + grows
