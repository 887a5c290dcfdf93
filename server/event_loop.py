"""The event loop of a server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ..storage import system

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop


def new_event_loop() -> AbstractEventLoop:
    """Return a uvloop event loop, or asyncio's loop over selectors where uvloop is not installed.

    Windows' usual loop, over completion ports, owns the bytes of each socket even while a slow script holds the
    thread: SCRIPT KILL would not arrive. With selectors the server reads the sockets itself.
    """
    if system.HERE.has_uvloop:
        try:
            import uvloop
        except ImportError:
            pass
        else:
            return uvloop.new_event_loop()
    return asyncio.SelectorEventLoop()


def has_sockets(loop: AbstractEventLoop) -> bool:
    """Whether a loop has the system's network; else it simulates one."""
    return _is_uvloop(loop) or isinstance(loop, asyncio.BaseEventLoop)


def _is_uvloop(loop: AbstractEventLoop) -> bool:
    return type(loop).__module__.partition(".")[0] == "uvloop"
