"""What the operating system offers; everything of the server that depends on that asks here.

``POSIX`` and ``WINDOWS`` describe both kinds. ``HERE`` is the one in force; tests replace it by the other one.
"""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop


class Platform(NamedTuple):
    """One kind of operating system.

    Attributes:
        has_fork: a child process may have the data of the moment at which it began.
        has_unix_sockets: asyncio listens on a path of the file system.
        has_uvloop: uvloop supports the system.
    """

    has_fork: bool
    has_unix_sockets: bool
    has_uvloop: bool

    def new_event_loop(self) -> AbstractEventLoop:
        """Return a uvloop event loop, or asyncio's loop over selectors where uvloop is not installed.

        Windows' usual loop, over completion ports, owns the bytes of each socket even while a slow script holds the
        thread: SCRIPT KILL would not arrive. With selectors the server reads the sockets itself.
        """
        if self.has_uvloop:
            try:
                import uvloop
            except ImportError:
                pass
            else:
                return uvloop.new_event_loop()
        import asyncio

        return asyncio.SelectorEventLoop()


POSIX: Final = Platform(has_fork=True, has_unix_sockets=True, has_uvloop=True)
WINDOWS: Final = Platform(has_fork=False, has_unix_sockets=False, has_uvloop=False)
HERE = WINDOWS if sys.platform == "win32" else POSIX

_BREAK: Final = getattr(signal, "SIGBREAK", None)  # Ctrl-Break, on Windows

# Those that request an orderly end.
END_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, *(() if _BREAK is None else (_BREAK,)))
