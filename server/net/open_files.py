"""Adapt maxclients and the process's limit of open files to each other."""

from __future__ import annotations

import errno
import os
from typing import Final

from ...storage import system
from ..config.config import Config
from ..log import Log

_PAUSE: Final = 60.0  # seconds between two lines in the log
_EXHAUSTED: Final = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
RESERVED: Final = 32  # open files that a server needs besides its clients, as Redis counts them


def fit_clients(config: Config, log: Log) -> bool:
    """Raise the limit of open files for ``maxclients``, or lower ``maxclients`` to the limit.

    Return False if not even one client fits; the log says why.
    """
    wanted = config.maxclients + RESERVED
    soft, reached, reason = system.HERE.allow_open_files(wanted)
    if soft >= wanted:
        return True
    if reached >= wanted:
        log.notice(f"Increased maximum number of open files to {wanted} (it was originally set to {soft}).")
        return True
    before, config.maxclients = config.maxclients, reached - RESERVED
    if config.maxclients < 1:
        log.warning(
            f"Your current 'ulimit -n' of {soft} is not enough for the server to start. Please increase your open "
            f"file limit to at least {wanted}. Exiting."
        )
        return False
    log.warning(f"You requested maxclients of {before} requiring at least {wanted} max file descriptors.")
    log.warning(f"Server can't set maximum open files to {wanted} because of OS error: {reason}.")
    log.warning(
        f"Current maximum open files is {reached}. maxclients has been reduced to {config.maxclients} to compensate "
        f"for low ulimit. If you need higher maxclients increase 'ulimit -n'."
    )
    return True


class Exhaustion:
    """Reports that no client can be accepted because no file descriptor is free.

    uvloop closes such clients silently, so the server has to check by itself. redis-server logs a line for each attempt,
    many thousands a second; Rillet logs one a minute.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._silent_until = self._next_probe = 0.0

    def probe(self, now: float) -> None:
        """Once a second, open a file to check whether a descriptor is free, and log if none is.

        ``now``: the event loop's time in seconds.
        """
        if now < self._next_probe:
            return
        self._next_probe = now + 1
        try:
            os.close(os.open(os.devnull, os.O_RDONLY))
        except OSError as error:
            self.note(error, now)

    def note(self, error: BaseException | None, now: float) -> bool:
        """Log an error of accept that means that no file descriptor is free, at most once a minute.

        Return False if the error has another cause.
        ``now``: the event loop's time in seconds.
        """
        if not isinstance(error, OSError) or error.errno not in _EXHAUSTED:
            return False
        if now >= self._silent_until:
            self._silent_until = now + _PAUSE
            self._log.warning(f"Accepting client connection: accept: {error.strerror}")
        return True
