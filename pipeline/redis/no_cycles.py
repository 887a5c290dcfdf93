"""Work on replies without looking for cycles of references: they are trees of lists, by the ten thousand."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def no_cycles() -> Iterator[None]:
    """Leave Python's search for cycles off: it costs a third of the time of such work, and finds none. Also a decorator."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
