"""Waiting for something that another process does: no test counts on how long it takes."""

import time
from collections.abc import Callable
from typing import Any


def until(condition: Callable[[], Any], seconds: float = 60.0, *, every: float = 0.001) -> Any:
    """Return what the condition gives once it holds; fail after `seconds`, which only bound a broken test.

    It is asked again after `every` seconds, and after a tenth of the time waited so far: a long wait leaves the processor
    to the process that is waited for, and ends no more than a tenth (at most 10 ms) late.
    """
    start = time.monotonic()
    while not (value := condition()):
        waited = time.monotonic() - start
        assert waited < seconds, f"still {value!r} after {seconds} seconds"
        time.sleep(max(every, min(waited / 10, 0.01)))
    return value
