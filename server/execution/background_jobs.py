"""Work that would hold everybody up is done in slices, between the requests of clients.

A job is a function that does a little (a tenth of a millisecond or so) each time it is called, and says whether
something is left to do. Jobs take turns. A client may be held until a job is done: its command then runs again, as
if it had just come. What nobody waits for (``when_idle``) is done only while there are few requests.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from ...commands.runtime.client import Client
    from ..server import Server

    Job = Callable[[], bool]

_SLICE: Final = 0.002
_PAUSE: Final = 0.001  # in which the clients have their turn
_BUSY: Final = 2000  # requests a second
_WAIT: Final = 0.1  # until it is asked again whether the server is busy


class Slices:
    """The jobs of one server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        # In the order of their turns, with the clients that are held.
        self._jobs: dict[Job, list[Client]] = {}
        self._idle_jobs: dict[Job, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        # When it was last asked whether the server is busy, and the requests until then.
        self._looked_at = (0.0, 0)

    def start(self, job: Job) -> None:
        """Do a job from now on; once, if it is asked for several times."""
        self._add(job)

    def when_idle(self, job: Job) -> None:
        """The same, while clients leave time for it."""
        if job not in self._idle_jobs:
            self._idle_jobs[job] = None
            self._wake()

    def hold(self, client: Client, job: Job) -> None:
        """Do a job, and let the client wait for that with the command that it runs, and all that follow."""
        client.postponed = True
        client.update_plain()
        self._add(job).append(client)

    def forget(self, client: Client) -> None:
        """The client's connection is gone; the work goes on."""
        if client.postponed:
            for held in self._jobs.values():
                if client in held:
                    held.remove(client)

    def stop(self) -> None:
        """Do nothing more: the server is shutting down."""
        if self._timer is not None:
            self._timer.cancel()
        self._jobs.clear()
        self._idle_jobs.clear()

    def _add(self, job: Job) -> list[Client]:
        if not self._jobs and self._timer is not None:
            self._timer.cancel()  # it may have been set for later
            self._timer = None
        clients = self._jobs.setdefault(job, [])
        self._wake()
        return clients

    def _wake(self, after: float = _PAUSE) -> None:
        if self._timer is None:
            self._timer = self._server.loop.call_later(after, self._run)

    def _run(self) -> None:
        """One slice of the next job."""
        self._timer = None
        after = _PAUSE
        try:
            if self._jobs:
                self._run_next()
            elif self._idle_jobs and self._is_busy():
                after = _WAIT
            elif self._idle_jobs:
                self._run_idle()
        finally:
            if self._jobs or self._idle_jobs:
                self._wake(after)

    def _run_next(self) -> None:
        job = next(iter(self._jobs))
        clients = self._jobs.pop(job)
        goes_on = False
        try:
            goes_on = _goes_on(job)
        finally:
            if goes_on:
                self._jobs[job] = clients
            else:
                for client in clients:
                    client.postponed = False
                    client.update_plain()
                    client.resume()

    def _run_idle(self) -> None:
        job = next(iter(self._idle_jobs))
        del self._idle_jobs[job]
        if _goes_on(job):
            self._idle_jobs[job] = None

    def _is_busy(self) -> bool:
        """Whether many requests came since the last look."""
        then, before = self._looked_at
        now, requests = time.perf_counter(), self._server.stats.commands_processed
        self._looked_at = now, requests
        return not 0 <= requests - before <= _BUSY * (now - then)


def _goes_on(job: Job) -> bool:
    """Call a job until the slice is over; False if it is done."""
    until = time.perf_counter() + _SLICE
    while job():
        if time.perf_counter() > until:
            return True
    return False
