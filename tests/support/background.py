"""Work that goes on beside a test: `with beside(first.work, second.work) as running: ...; go_on(running)`; `aside` for one call."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from support.until import until

Result = TypeVar("Result")


def at_once(work: Callable[[str], Result], kinds: Sequence[str]) -> list[Result]:
    """Do the same on a server of each kind at the same time: most of the work is waiting. Returns the results in that order."""
    with ThreadPoolExecutor(len(kinds)) as pool:
        return list(pool.map(work, kinds))


def aside(call: Callable[..., Result], *args: Any, **options: Any) -> "Future[Result]":
    """Call a function in a thread of its own; what it gives or raises is the result."""
    done: Future[Result] = Future()

    def run() -> None:
        try:
            done.set_result(call(*args, **options))
        except BaseException as error:  # noqa: BLE001 - result raises it
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return done


class Background(threading.Thread):
    """Runs something again and again until it is stopped or gives False, and remembers how it failed.

    Attributes:
        rounds: how often it ran to its end.
    """

    def __init__(self, work: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self.work = work
        self.rounds = 0
        self.enough = threading.Event()
        self.failure: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            while not self.enough.is_set() and self.work():
                self.rounds += 1
        except BaseException as error:  # noqa: BLE001 - finish raises it
            self.failure = error

    def finish(self) -> None:
        """Stop it. Raises what it failed with."""
        self.enough.set()
        self.join()
        if self.failure is not None:
            raise self.failure


@contextmanager
def beside(*works: Callable[[], object]) -> Iterator[list[Background]]:
    """Do all this for the time of a ``with``; a failure is raised at its end."""
    running = [Background(work) for work in works]
    try:
        yield running
    finally:
        for each in running:
            each.enough.set()
        for each in running:
            each.finish()


def go_on(running: Sequence[Background], rounds: int = 1) -> None:
    """Wait until each has done more rounds, or one has failed."""
    wanted = [each.rounds + rounds for each in running]
    until(
        lambda: (
            any(each.failure for each in running)
            or all(each.rounds >= number for each, number in zip(running, wanted, strict=True))
        ),
        60,
    )
