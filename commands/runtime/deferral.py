"""Defer a command until the derived state that it needs is computed; the server then re-runs it."""

from __future__ import annotations

from collections.abc import Callable


class Deferred(Exception):  # noqa: N818 - nothing went wrong
    """Asks the server to re-run the command when some work is done. A handler raises it before it changes anything.

    ``step``: does a small part of that work; returns False when nothing is left to do.
    """

    def __init__(self, step: Callable[[], bool]) -> None:
        super().__init__()
        self.step = step
