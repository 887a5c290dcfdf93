"""Waiting for something that another process does: no test counts on how long it takes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Ask again and again until the condition holds; fails after `seconds`, which only bounds a broken test."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "what was waited for did not happen"
        time.sleep(0.001)
