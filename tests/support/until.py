"""Waiting for something that another process does: no test counts on how long it takes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def until(condition: Callable[[], Any], seconds: float = 60.0, *, every: float = 0.001) -> Any:
    """What the condition gives once it holds; fails after `seconds`, which only bounds a broken test."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, "what was waited for did not happen"
        time.sleep(every)
    return value
