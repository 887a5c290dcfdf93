"""The seeds of a simulation shared by several processes."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from multiprocessing.sharedctypes import Synchronized

    Passes = Callable[[int, Path], bool]

_TELL_SECONDS: Final = 1.0


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def first_failure(
    seeds: Sequence[int], processes: int, folder: Path, passes: Passes, tell: Callable[[int], None]
) -> int:
    """Run seeds in several processes; return the index of the first that fails, or ``len(seeds)`` if none does.

    The processes are forks, because a test function, its fixtures and its imported modules cannot be sent to another
    interpreter. Each process runs every ``processes``-th seed in its own folder, and stops once an earlier seed has
    failed. About once a second, ``tell`` is called with the number of seeds that have passed.
    Raises RuntimeError: the system has no fork, or a process ended in the middle of a seed.
    """
    if "fork" not in multiprocessing.get_all_start_methods():
        raise RuntimeError("jobs= needs a system that forks processes: leave it out")
    context = multiprocessing.get_context("fork")
    found = context.Value("q", len(seeds))
    passed = context.Value("q", 0)
    children = []
    for first in range(processes):
        own = folder / f"process-{first}"
        own.mkdir()
        places = range(first, len(seeds), processes)
        children.append(
            context.Process(target=_run, args=(seeds, places, own, passes, found, passed), daemon=True)
        )
    with _ended(children):
        with warnings.catch_warnings():
            # Python warns about locks that other threads may hold; a child runs only its own loop.
            warnings.simplefilter("ignore", DeprecationWarning)
            for child in children:
                child.start()
        for child in children:
            while child.is_alive():
                child.join(_TELL_SECONDS)
                tell(passed.value)
    if broken := [child.exitcode for child in children if child.exitcode]:
        raise RuntimeError(
            f"A process of the simulation ended with the status {broken[0]} in the middle of a seed: run it without jobs="
        )
    position: int = found.value
    return position


def _run(
    seeds: Sequence[int],
    places: Sequence[int],
    folder: Path,
    passes: Passes,
    found: Synchronized[int],
    passed: Synchronized[int],
) -> None:
    for place in places:
        if place > found.value:
            return
        try:
            has_passed = passes(seeds[place], folder)
        except BaseException:  # noqa: BLE001 - the parent reruns the seed and raises the error
            has_passed = False
        if has_passed:
            with passed.get_lock():
                passed.value += 1
        else:
            with found.get_lock():
                found.value = min(found.value, place)
            return


@contextlib.contextmanager
def _ended(children: Sequence[multiprocessing.process.BaseProcess]) -> Iterator[None]:
    """Terminate the children that still run at the end, e.g. after an interrupt."""
    try:
        yield
    finally:
        for child in children:
            if child.is_alive():
                child.terminate()
                child.join()
