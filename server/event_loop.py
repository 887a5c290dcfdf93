"""Choose the event loop of a server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ..storage import system

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop


def new_event_loop() -> AbstractEventLoop:
    """Return a uvloop event loop, or asyncio's selector loop if uvloop is not installed.

    The default loop of Windows, over completion ports, keeps reading the sockets even while a slow script holds the
    thread, so SCRIPT KILL would not arrive. With selectors, the server can read the sockets itself.
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
    """Return True if a loop uses the system's network, False if it simulates one."""
    return _is_uvloop(loop) or isinstance(loop, asyncio.BaseEventLoop)


def _is_uvloop(loop: AbstractEventLoop) -> bool:
    return type(loop).__module__.partition(".")[0] == "uvloop"
