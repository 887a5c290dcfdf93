"""Pause the cyclic garbage collector during work that creates many objects and no garbage: large replies, imports."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause the cyclic garbage collector during a ``with`` block or, as a decorator, a call.

    During work that creates many objects and no garbage, it takes a third of the time and finds nothing.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
