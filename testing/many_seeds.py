"""The seeds of a simulation shared by several processes."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import warnings
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from multiprocessing.sharedctypes import Synchronized
    from pathlib import Path

    Passes = Callable[[int, Path], bool]

_TELL_SECONDS: Final = 1.0


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def first_failure(
    seeds: Sequence[int], processes: int, folder: Path, passes: Passes, tell: Callable[[int], None]
) -> int:
    """Return the position of the first seed that fails, by several processes; the number of seeds if none does.

    The processes are forks: a test function, its fixtures and the modules that it has imported cannot be sent to another
    interpreter. Each has one seed of each round, and a folder of its own, and ends where the others have found an earlier failure.
    ``tell`` is told about once a second how many seeds have passed.

    Raises:
        RuntimeError: the system has no fork, or a process has ended in the middle of a seed.
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
            # Python warns of locks that other threads may hold: a child runs its own loop, and no thread of others.
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
        except BaseException:  # noqa: BLE001 - the parent runs the seed again, and raises it
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
    """Let no child outlive an interrupt of this process."""
    try:
        yield
    finally:
        for child in children:
            if child.is_alive():
                child.terminate()
                child.join()
