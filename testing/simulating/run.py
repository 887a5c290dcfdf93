"""Run a simulated test once, at one seed: the loop, the process's time and random numbers, the test, the end."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import os
import random
import shutil
import time
import warnings
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Final
from unittest import mock

from ...server.clock import EPOCH
from ..log import logger
from .shrinking import Disturbance
from .simulation import Simulation
from .story import Event, of_network

_KEPT: Final = 10_000

__unittest = True  # unittest hides frames of this module


@dataclass
class Run:
    """The outcome of one run of a test."""

    seed: int
    error: BaseException | None
    story: list[Event] = field(default_factory=list)
    disturbances: dict[Disturbance, str] = field(default_factory=dict)


@dataclass
class Plan:
    """How a test is run at a seed.

    Attributes:
        only: the disturbances that may happen; None: all.
        order: another seed for the order of the tasks and the delays of messages.
        tells_always: also collect the story of a run that passes, which takes a tenth of its time.
    """

    test: Callable[[Simulation], Coroutine[Any, Any, object]]
    chaos: float
    directives: Mapping[str, object]
    folder: Path
    only: frozenset[Disturbance] | None = None
    order: int | None = None
    tells_always: bool = False

    def run(self, seed: int) -> Run:
        """Run the test once, to its end or its error."""
        with warnings.catch_warnings():
            # A crashed program closes nothing; the test is not to blame for that.
            warnings.simplefilter("ignore", ResourceWarning)
            run = self._run(seed)
            gc.collect()
        return run

    def _run(self, seed: int) -> Run:
        for old in self.folder.iterdir():
            shutil.rmtree(old) if old.is_dir() else old.unlink()
        loop = _loop_of(seed if self.order is None else self.order)
        run = Run(seed, None)
        with _determined(loop, seed):
            try:
                loop.run_until_complete(self._main(seed, run))
            except BaseException as error:
                if not _is_failure(error):
                    raise
                run.error = error
            finally:
                _end(loop)
        return run

    async def _main(self, seed: int, run: Run) -> None:
        sim = Simulation(seed, self.chaos, self.only, {"dir": str(self.folder)} | dict(self.directives))
        await sim.server.start()
        sim.server.watch(last=_KEPT)
        loop: Any = asyncio.get_running_loop()
        loop.set_exception_handler(sim.note_unhandled)
        chaos = loop.create_task(sim.disturb())
        test = loop.create_task(self.test(sim))
        try:
            await asyncio.wait((test, sim.failure), return_when=asyncio.FIRST_COMPLETED)
            passes = not sim.failure.done() and not test.cancelled() and test.exception() is None
            if self.tells_always or not passes:
                sim.keep_recorded()
                sim.note_losses()
                run.disturbances = sim.disturbances
                run.story = sorted([*sim.events, *of_network(loop.trace)], key=lambda event: event.time)
            for ended in (sim.failure, test):
                if ended.done():
                    await ended
                    break
        finally:
            for task in (chaos, test):
                task.cancel()
            await asyncio.gather(chaos, test, return_exceptions=True)
            if not sim.failure.done():
                sim.failure.cancel()
            with contextlib.suppress(Exception):  # the test's own error matters more
                await sim.server.stop()


@contextlib.contextmanager
def _determined(loop: Any, seed: int) -> Iterator[None]:
    """Derive the process's time from a loop, and its random numbers from a seed."""
    numbers = random.Random(f"{seed}:system")  # noqa: S311 - the same for the same seed
    state = random.getstate()
    import time_machine

    travel = time_machine.travel(EPOCH / 1000, tick=False)
    traveller = travel.start()
    traveller.time_ns = lambda: EPOCH * 1_000_000 + round(loop.time() * 1_000_000_000)  # type: ignore[method-assign]
    collects = gc.isenabled()
    gc.disable()  # so that finalizers always run at the same places
    random.seed(seed)
    try:
        with (
            # The story says what happened; each stop of a server would be noise.
            mock.patch.object(logger, "disabled", True),
            mock.patch.object(os, "urandom", numbers.randbytes),
            mock.patch.object(random, "_urandom", numbers.randbytes),
            mock.patch.object(time, "monotonic", loop.time),
            # redis-py reads its version from a file for each client.
            mock.patch.object(metadata, "version", functools.cache(metadata.version)),
            mock.patch.object(time, "monotonic_ns", _nanoseconds_of(loop)),
            _anyio_in_line(),
        ):
            yield
    finally:
        travel.stop()
        random.setstate(state)
        if collects:
            gc.enable()


def _anyio_in_line() -> contextlib.AbstractContextManager[object]:
    """Let anyio run functions in line instead of in its worker threads, which would wake the loop from outside."""
    try:
        from anyio._backends._asyncio import AsyncIOBackend
    except ImportError:
        return contextlib.nullcontext()

    async def run(
        work: Callable[..., object], args: Iterable[object], *_options: object, **_named: object
    ) -> object:
        await asyncio.sleep(0)
        return work(*args)

    return mock.patch.object(AsyncIOBackend, "run_sync_in_worker_thread", staticmethod(run))


def _nanoseconds_of(loop: Any) -> Callable[[], int]:
    return lambda: round(loop.time() * 1_000_000_000)


def _end(loop: Any) -> None:
    """Cancel the tasks that the test left behind, and close its loop."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()

    async def wait() -> None:
        await asyncio.gather(*left, return_exceptions=True)
        loop.stop()

    with contextlib.suppress(Exception):  # the run is over
        waiting = loop.create_task(wait())  # `run_until_complete` would collect garbage once more
        loop.run_forever()
        waiting.result()
    loop.close()


def _loop_of(seed: int) -> Any:
    """Return a simulated loop."""
    from .simulated_loop import SimulatedLoop

    loop: Any = SimulatedLoop(seed)
    # Programs may register signal handlers, but no signal arrives.
    loop.add_signal_handler = loop.remove_signal_handler = lambda *_: True
    return loop


def _is_failure(error: BaseException) -> bool:
    """Return True if an error fails a test, including pytest.fail; False if it skips or interrupts the test."""
    return isinstance(error, Exception) or type(error).__name__ == "Failed"
