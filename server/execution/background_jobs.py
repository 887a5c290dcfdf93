"""Run long work in slices between the requests of clients.

A job is a function. Each call does a little work (about a tenth of a millisecond) and returns True if more is left to
do. The jobs alternate. A client may be held until a job is done; its command then re-runs as if it had just arrived. Jobs
that no client waits for (``run_when_idle``) run only while there are few requests.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ...commands.runtime.client import Client
from ...commands.runtime.state import POSTPONED

if TYPE_CHECKING:
    from ..server import Server

    Job = Callable[[], bool]

_SLICE: Final = 0.002
_PAUSE: Final = 0.001  # seconds between two slices, for clients
_BUSY: Final = 2000  # requests a second
_WAIT: Final = 0.1  # seconds until the server's load is measured again


class BackgroundJobs:
    """The background jobs of one server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        # Jobs in the order in which they run, each with the clients that wait for it.
        self._jobs: dict[Job, list[Client]] = {}
        self._idle_jobs: dict[Job, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        # The time of the last load measurement, and the number of requests until then.
        self._looked_at = (0.0, 0)

    @property
    def are_left(self) -> bool:
        """Whether any background job is scheduled."""
        return bool(self._jobs or self._idle_jobs)

    def run_soon(self, job: Job) -> None:
        """Schedule a job; do nothing if it is scheduled."""
        self._add(job)

    def run_when_idle(self, job: Job) -> None:
        """Schedule a job that runs only while clients send few requests; do nothing if it is scheduled."""
        if job not in self._idle_jobs:
            self._idle_jobs[job] = None
            self._wake()

    def run_before(self, client: Client, job: Job) -> None:
        """Schedule a job that a client's command needs.

        The client waits, and its command re-runs when the job is done.
        """
        client.wait(POSTPONED)
        self._add(job).append(client)

    def forget(self, client: Client) -> None:
        """Release a disconnected client; its background job keeps running."""
        for held in self._jobs.values():
            if client in held:
                held.remove(client)

    def stop(self) -> None:
        """Drop all jobs, because the server stops or is reset; its clients are disconnected, too."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
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
        """Run one slice of the next job."""
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
        has_more = False
        try:
            has_more = _run_slice(job)
        finally:
            if has_more:
                self._jobs[job] = clients
            else:
                for client in clients:
                    client.end_wait()
                    client.resume()

    def _run_idle(self) -> None:
        job = next(iter(self._idle_jobs))
        del self._idle_jobs[job]
        if _run_slice(job):
            self._idle_jobs[job] = None

    def _is_busy(self) -> bool:
        """Return True if many requests arrived since the last call."""
        then, before = self._looked_at
        now, requests = time.perf_counter(), self._server.stats.commands_processed
        self._looked_at = now, requests
        return not 0 <= requests - before <= _BUSY * (now - then)


def _run_slice(job: Job) -> bool:
    """Call a job for one slice; return False if it is done."""
    until = time.perf_counter() + _SLICE
    while job():
        if time.perf_counter() > until:
            return True
    return False
