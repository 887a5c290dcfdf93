"""Choose the event loop of a server, and report what its callbacks raise."""

from __future__ import annotations

import asyncio
import ssl
import traceback
from asyncio import AbstractEventLoop
from typing import TYPE_CHECKING

from ..storage import system

if TYPE_CHECKING:
    from .server import Server


def new_event_loop() -> AbstractEventLoop:
    """Return a new uvloop event loop, or asyncio's selector loop if uvloop is not installed.

    The default loop of Windows, over completion ports, keeps reading the sockets even while a slow script
    holds the thread, so SCRIPT KILL would not arrive. With selectors, the server can read the sockets itself.
    """
    if system.HERE.has_uvloop:
        try:
            import uvloop
        except ImportError:
            pass
        else:
            return uvloop.new_event_loop()
    return asyncio.SelectorEventLoop()


def report_bugs(server: Server) -> None:
    """Log the traceback of each callback of the server's loop that raises; the loop continues."""

    def report(loop: AbstractEventLoop, context: dict[str, object]) -> None:
        error = context.get("exception")
        assert error is None or isinstance(error, BaseException)
        if isinstance(error, (ssl.SSLError, ConnectionError)):
            server.log.verbose(f"Error accepting a client connection: {error}")
            return
        # Without uvloop, errors of accept arrive here; all other code handles its own file errors.
        if "accept" in str(context.get("message")) and server.exhaustion.note(error, loop.time()):
            return
        trace = "".join(traceback.format_exception(error)) if error is not None else ""
        server.log.warning(f"Internal error: {context.get('message')}", details=trace)

    server.loop.set_exception_handler(report)


def has_sockets(loop: AbstractEventLoop) -> bool:
    """Return True if a loop uses the system's network, False if it simulates one."""
    return _is_uvloop(loop) or isinstance(loop, asyncio.BaseEventLoop)


def _is_uvloop(loop: AbstractEventLoop) -> bool:
    return type(loop).__module__.partition(".")[0] == "uvloop"
