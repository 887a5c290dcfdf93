"""The decorator ``rillet.testing.simulation``: run a test with many seeds, and report the first that fails.

It builds on simloop, which simulates the event loop and the network (``pip install 'rillet[simulation]'``, Python 3.12).
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
import inspect
import itertools
import os
import sys
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeVar, overload

from ..folders import TemporaryFolder
from .many_seeds import cores, first_failure
from .run import Plan, Run
from .shrinking import LOSS, Disturbance, smallest, summary
from .simulation import Simulation
from .story import told

Test = Callable[..., Coroutine[Any, Any, object]]

_FROZEN_AT_START: Final = 1000  # objects; Python 3.12 itself freezes 375, other versions none
_ORDERS: Final = 5  # how many other task orders a failure is rerun with
_PROGRESS_SECONDS: Final = 10.0
_HIDDEN: Final = {__name__.partition(".")[0], "simloop", "asyncio"}

__unittest = True  # unittest hides frames of this module

Kept = TypeVar("Kept", bound=Test)  # a type checker sees the test's own signature


@dataclass
class _Session:
    """What pytest says about the running test."""

    test: str = ""
    seed: int | None = None
    is_verbose: bool = False
    say: Callable[[str], None] | None = None


_SESSION: Final = _Session()


def begin_test(
    test: str, seed: int | None, *, is_verbose: bool = False, say: Callable[[str], None] | None = None
) -> None:
    """Set which test pytest is about to run, for its messages.

    Args:
        test: its pytest node ID.
        seed: the value of ``--rillet-seed``; None without it.
        is_verbose: show stories in full.
        say: shows a line of progress; None shows none.
    """
    _SESSION.test, _SESSION.seed, _SESSION.is_verbose, _SESSION.say = test, seed, is_verbose, say


class _Progress:
    """Reports the progress of a test every ten seconds."""

    def __init__(self) -> None:
        self._said = time.monotonic()

    def say(self, text: str) -> None:
        """Report a line if ten seconds have passed since the last one."""
        if _SESSION.say is not None and time.monotonic() - self._said >= _PROGRESS_SECONDS:
            self._said = time.monotonic()
            _SESSION.say(f"{_SESSION.test}: {text}")


@overload
def simulation(test: Kept, /) -> Kept: ...


@overload
def simulation(
    test: None = None,
    /,
    *,
    seeds: int | Iterable[int] = 100,
    chaos: float = 0.2,
    jobs: int = 1,
    **directives: object,
) -> Callable[[Kept], Kept]: ...


def simulation(
    test: Test | None = None,
    /,
    *,
    seeds: int | Iterable[int] = 100,
    chaos: float = 0.2,
    jobs: int = 1,
    **directives: object,
) -> Any:
    """Turn a coroutine function into a test that runs it once per seed, each time with a ``Simulation``.

    Args:
        test: the coroutine function; its first parameter is the simulation, others are fixtures of pytest.
        seeds: the number of seeds, from 0 on; or the seeds themselves.
        chaos: how much goes wrong by itself in the first half minute, from 0 (only the task order varies) to 1:
            messages between hosts take up to ``chaos`` seconds, commands and replies of hosts are lost together with
            their connection, and hosts are cut off, or crash and restart. The test's own client is spared.
        jobs: the number of processes that share the seeds; 0 means one per core. They are forks of this process, so changes
            that the test makes to its module are lost with them. It does not affect which seed is reported.
        directives: directives of the server, as in ``rillet.testing.Server``; ``appendonly`` is on by default.

    Returns:
        A function that raises the error of the first failing seed, with a note that has the seed and the story by host.
    """
    if not 0 <= chaos <= 1:
        raise ValueError("chaos is a number from 0 to 1")
    _check_simulator()
    every = range(seeds) if isinstance(seeds, int) else tuple(seeds)
    if not every:
        raise ValueError("seeds must not be empty")
    if jobs < 0:
        raise ValueError("jobs is a number of processes, or 0 for all cores")

    def decorate(test: Test) -> Callable[..., None]:
        if not inspect.iscoroutinefunction(test):
            raise TypeError(f"{test!r} is no coroutine function (async def)")

        @functools.wraps(test)
        def run_all(*args: Any, **kwargs: Any) -> None:
            __tracebackhide__ = True
            chosen = every if _SESSION.seed is None else (_SESSION.seed,)

            def plan_in(folder: Path) -> Plan:
                return Plan(functools.partial(_apply, test, args, kwargs), chaos, directives, folder)

            def passes(seed: int, folder: Path) -> bool:
                run = plan_in(folder).run(seed)
                freeze()
                return run.error is None

            progress = _Progress()

            def tell_passed(passed: int) -> None:
                progress.say(f"{passed} of {len(chosen)} seeds passed")

            with _folder() as folder, _frozen() as freeze:
                first = 0
                if (processes := min(jobs or cores(), len(chosen))) > 1:
                    first = first_failure(chosen, processes, folder, passes, tell_passed)
                plan = plan_in(folder)
                for at, seed in enumerate(chosen[first:], first):
                    run = plan.run(seed)
                    if run.error is not None:
                        _explain(plan, run, passed=at, progress=progress)
                        raise run.error.with_traceback(_of_others(run.error.__traceback__))
                    if processes > 1:
                        raise RuntimeError(
                            f"seed {seed} failed in another process, and passes in this one: the test depends on more than "
                            "its seed"
                        )
                    freeze()
                    tell_passed(at + 1)

        signature = inspect.signature(test)
        # pytest takes the other parameters for fixtures.
        run_all.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[*signature.parameters.values()][1:]
        )
        del run_all.__wrapped__  # type: ignore[attr-defined]
        return run_all

    return decorate if test is None else decorate(test)


def trace(test: Test, seed: int, *, chaos: float = 0.2, **directives: object) -> str:
    """Simulate a coroutine function with one seed.

    Return the full story and the error as text, equal in every process.
    """
    with _folder() as folder:
        test_of = functools.partial(_apply, test, (), {})
        run = Plan(test_of, chaos, directives, folder, tells_always=True).run(seed)
    return "\n".join([*map(str, run.story), repr(run.error)])


def _apply(test: Test, args: Any, kwargs: Any, sim: Simulation) -> Coroutine[Any, Any, object]:
    return test(sim, *args, **kwargs)


def _check_simulator() -> None:
    """Raise an ImportError with the reason if the simulator is not installed."""
    try:
        import simloop  # noqa: F401
        import time_machine  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "rillet.testing.simulation needs Python 3.12 or later and: pip install 'rillet[simulation]'"
        ) from error


@contextlib.contextmanager
def _frozen() -> Iterator[Callable[[], None]]:
    """Hide existing objects from the garbage collector: its two full collections at each end took a fifth of a run.

    Yields:
        A function that also hides what the first run has left, which is modules; called again, it does nothing, because a
        test may drop what it kept of an earlier run.
    """
    if gc.get_freeze_count() > _FROZEN_AT_START:  # frozen by others, and `unfreeze` would undo that
        yield lambda: None
        return
    gc.collect()
    gc.freeze()
    try:
        yield functools.cache(gc.freeze)
    finally:
        gc.unfreeze()


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """Yield a folder for the server's files, in memory if the system has a memory file system."""
    memory = Path("/dev/shm")  # noqa: S108 - a private folder is created there
    with TemporaryFolder(str(memory) if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder.path)


# The report


def _explain(plan: Plan, run: Run, *, passed: int, progress: _Progress) -> None:
    """Add a note to the error of a run: which disturbances matter, and the story of the smallest failing run."""
    assert run.error is not None
    error = run.error
    runs = itertools.count(1)

    def again(only: Iterable[Disturbance], order: int | None = None) -> Run | None:
        progress.say(f"seed {run.seed} fails; run {next(runs)} to find what matters")
        tried = dataclasses.replace(plan, only=frozenset(only), order=order).run(run.seed)
        return tried if tried.error is not None and _is_same(tried.error, error) else None

    whole = list(run.disturbances)
    hypothesis = sys.modules.get("hypothesis")
    is_tried_again = hypothesis is not None and hypothesis.currently_in_test_context()
    shrunk = run if is_tried_again else again(whole)
    if shrunk is None:  # the positions of lost commands did not reproduce the failure
        whole = [*(each for each in whole if each[0] != LOSS[0]), LOSS]
        shrunk = again(whole)
    lines = [
        f"rillet: seed {run.seed} fails ({passed} passed before it).",
        f"replay: pytest {_quoted(_SESSION.test)} --rillet-seed={run.seed}"
        if _SESSION.test
        else f"replay: --rillet-seed={run.seed}",
    ]
    if shrunk is None:
        shrunk = run
        lines.append("It does not fail again in this process: the test depends on more than its seed.")
    elif not is_tried_again:  # within Hypothesis, each of its many examples would be shrunk
        needed = smallest(whole, lambda part: again(part) is not None)
        shrunk = again(needed) or shrunk
        failed = sum(
            again(needed, order) is not None for order in range(run.seed + 1, run.seed + 1 + _ORDERS)
        )
        texts = {each: shrunk.disturbances.get(each, "commands and replies are lost") for each in needed}
        lines += summary(texts, [each for each in whole if each not in needed], (failed, _ORDERS))
    error.add_note("\n".join([*lines, *told(shrunk.story, error, whole=_SESSION.is_verbose)]))


def _of_others(found: TracebackType | None) -> TracebackType | None:
    """Cut the frames of Rillet, simloop and asyncio off the head of a traceback; keep all if there are no others."""
    first = found
    while first is not None:
        if first.tb_frame.f_globals.get("__name__", "").partition(".")[0] not in _HIDDEN:
            return first
        first = first.tb_next
    return found


def _is_same(one: BaseException, other: BaseException) -> bool:
    return type(one) is type(other) and _place(one) == _place(other)


def _place(error: BaseException) -> tuple[str, int] | None:
    last = None
    found = error.__traceback__
    while found is not None:
        last = (found.tb_frame.f_code.co_filename, found.tb_lineno)
        found = found.tb_next
    return last


def _quoted(test: str) -> str:
    return f"'{test}'" if any(sign in test for sign in "[] ") else test
