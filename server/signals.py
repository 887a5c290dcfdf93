"""Signals that request the shutdown: before there is a server, while it runs, and while it ends.

This module is loaded first, so it imports little.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from ..storage.system import END_SIGNALS
from .clock import Clock
from .config.config import Config
from .log import Log

if TYPE_CHECKING:
    from .server import Server


def end_on_signals(early: Sequence[int] = (), *, config: Config | None = None) -> None:
    """Until the server handles signals, let one end the process at once, with a shutdown's log lines and status 0.

    Nothing is loaded and no file is open yet, so nothing has to be saved.

    Args:
        early: signals that have arrived already; the first ends the process now.
        config: locates the log, once it is known.
    """
    log = Log(Clock()) if config is None else Log(Clock(), config.loglevel, config.in_dir(config.logfile))

    def end(number: int, _frame: object) -> None:
        try:
            log.warning(f"Received {signal.Signals(number).name} scheduling shutdown...")
            log.warning("User requested shutdown...")
            log.warning("Rillet is now ready to exit, bye bye...")
        finally:  # the signal may have come in the middle of a line of output, which cannot be written twice
            os._exit(0)

    for number in END_SIGNALS:
        signal.signal(number, end)
    for number in early:
        end(number, None)


class Signals:
    """The signals of a server with a process of its own."""

    def __init__(self, server: Server) -> None:
        self._server = server
        # ``ending``: the server is shutting down, or tries to; the next signal forces the end.
        # ``completes``: a shutdown finishes a save in progress instead of being refused, because nobody would ask
        # again.
        self.ending = self.completes = False

    def handle(self) -> None:
        """Handle SIGTERM and SIGINT: a first signal shuts the server down, a second one forces the end."""
        for number in END_SIGNALS:
            signal.signal(number, self._note)

    def _note(self, number: int, _frame: object) -> None:
        """Pass a signal to the loop, or force the end; this may interrupt any code, or the loop's wait."""
        # As in Redis, SIGTERM does not cut short a wait for replicas.
        if self.ending and not (self._server.ending.is_put_off and number == signal.SIGTERM):
            self.insist()
        self.ending = True
        if self._server.busy_if_used is not None:
            self._server.busy_if_used.note_signal(number)
        self._server.loop.call_soon_threadsafe(self._end, number)

    def _end(self, number: int) -> None:
        """Request the shutdown with the options of ``shutdown-on-sigterm`` or ``shutdown-on-sigint``."""
        server = self._server
        config, log = server.config, server.log
        log.warning(f"Received {signal.Signals(number).name} scheduling shutdown...")
        asked = config.shutdown_on_sigterm if number == signal.SIGTERM else config.shutdown_on_sigint
        words = asked.split()
        wanted = True if "save" in words else False if "nosave" in words else None
        force = self.completes or "force" in words
        if server.ending.ask(save=wanted, force=force, now="now" in words, completes=self.completes):
            return
        if server.ending.is_put_off:
            self.ending = True
            return
        if number == signal.SIGTERM or asked != "default" or server.persistence.begins:
            return
        # Ctrl-C at a terminal must end the program in any case.
        lost = server.keyspace.dirty
        server.exit_status = 1 if lost else 0
        log.warning(
            f"The data could not be saved: {lost} changes since the last save are lost. "
            f"Exiting with status {server.exit_status}."
        )
        server.ending.ask(save=False, force=True, now=True)

    def insist(self) -> NoReturn:
        """End the process at once with status 1, because a second signal arrived during the shutdown."""
        try:
            self._server.log.warning("You insist... exiting now.")
        finally:  # the signal may have come in the middle of a line of output, which cannot be written twice
            os._exit(1)
