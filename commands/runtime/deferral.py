"""Deferring a command until something that it needs is computed; the server then runs it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Deferred(Exception):  # noqa: N818 - nothing went wrong
    """Raised by a handler before it changes anything: the command is to run again when work is done.

    Args:
        step: does a little of that work; False when there is nothing left to do.
    """

    def __init__(self, step: Callable[[], bool]) -> None:
        super().__init__()
        self.step = step
