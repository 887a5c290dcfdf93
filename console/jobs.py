"""Actions that take longer than a page waits: report their progress, and stop them on request."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from .actions import Outcome, Plan, Progress, run
from .connection import GoneError, Link

KEPT: Final = 20  # jobs that have ended
PATIENCE: Final = 1.0  # seconds that a page waits before it shows the progress


@dataclass(slots=True)
class Job:
    """A running action on many entries, or its ``outcome``."""

    plan: Plan
    progress: Progress = field(default_factory=Progress)
    outcome: Outcome | None = None
    id: str = field(default_factory=lambda: secrets.token_urlsafe(12))

    @property
    def share(self) -> float:
        """The finished part of the action's entries, from 0 to 1; 0 while their number is unknown."""
        return min(1.0, self.progress.done / self.progress.total) if self.progress.total else 0.0


class Jobs:
    """The running actions of a console.

    Args:
        kept: the store in which their pages find them.
        on_end: called when one has ended.
    """

    def __init__(self, kept: dict[str, Job], on_end: Callable[[], None]) -> None:
        self._kept = kept
        self._on_end = on_end
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, link: Link, plan: Plan) -> Job:
        """Run a plan; return its job when it has ended, or after a second, when a page should show its progress.

        Raises GoneError: the connection was lost within that time.
        """
        job = Job(plan)
        task = asyncio.ensure_future(self._run(link, job))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        done, _ = await asyncio.wait([task], timeout=PATIENCE)
        if done:
            task.result()
        else:
            for old in [one.id for one in self._kept.values() if one.outcome is not None][:-KEPT]:
                del self._kept[old]
            self._kept[job.id] = job
        return job

    async def _run(self, link: Link, job: Job) -> None:
        try:
            job.outcome = await run(link, job.plan, job.progress)
        except GoneError as error:
            said = f"{job.progress.done:,} entries were done when the server went away: {error}"
            job.outcome = Outcome(((job.plan.text, said),), good=False)
            if job.id not in self._kept:
                raise
        finally:
            self._on_end()

    async def stop(self) -> None:
        """Stop all running actions after their current slices.

        Cancel those whose slice takes longer than a second.
        """
        for job in self._kept.values():
            job.progress.stopped = True
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=PATIENCE)
        for task in self._tasks:
            task.cancel()
