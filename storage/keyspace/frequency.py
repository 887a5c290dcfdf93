"""How often a key is used, on the logarithmic scale of Redis: one number up to 255 that grows by chance and decays.

A counter is kept with the minute of its last change in one integer, for a policy that asks for it; see
``metering.MeteredDatabase``.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import random
from typing import Final

NEW: Final = 5  # of a new key, so that it is not the first to go
HIGHEST: Final = 255
_MINUTE: Final = 60_000
_BITS: Final = 8


@dataclass(frozen=True, slots=True)
class Settings:
    """lfu-log-factor and lfu-decay-time."""

    log_factor: int = 10
    decay_minutes: int = 1


def stored(counter: int, now: int) -> int:
    """A counter together with the minute it is true for; ``now`` in milliseconds."""
    return now // _MINUTE << _BITS | counter


def decayed(frequency: int, now: int, decay_minutes: int) -> int:
    """The counter as it is now: one less for each ``decay_minutes`` since its last change; 0: it never decays."""
    counter = frequency & HIGHEST
    if not decay_minutes:
        return counter
    return max(counter - max(now // _MINUTE - (frequency >> _BITS), 0) // decay_minutes, 0)


def after_access(counter: int, log_factor: int) -> int:
    """The counter after one more access: the higher it is, the less likely it grows."""
    if counter >= HIGHEST:
        return HIGHEST
    grows = random() * (max(counter - NEW, 0) * log_factor + 1) < 1  # noqa: S311 - only a statistic
    return counter + grows
