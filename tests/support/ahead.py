"""What the cases of a parametrized test wait for, begun at its first case: four at once, in threads of one worker."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

_AT_ONCE = 4  # as many as `make test` has workers, each of which did one at a time


class Ahead:
    """Work for tests that wait, and need little of a processor.

    The tests need an `xdist_group`: else each worker does the work of all cases.
    """

    def __init__(self, chosen: Sequence[pytest.Item]) -> None:
        self._chosen = chosen
        self._begun: dict[object, dict[pytest.Item, Future[Any]]] = {}
        self._pool = ThreadPoolExecutor(_AT_ONCE)

    def result(self, case: Any, work: Callable[..., Any]) -> Any:
        """Return what `work` returns for the parameters of a case, or raise what it raises."""
        if case.function not in self._begun:
            cases: list[Any] = [
                each for each in self._chosen if getattr(each, "function", None) is case.function
            ]
            self._begun[case.function] = {
                each: self._pool.submit(work, **each.callspec.params) for each in cases
            }
        return self._begun[case.function][case].result()

    def close(self) -> None:
        """Begin nothing more, and wait for what has begun."""
        self._pool.shutdown(cancel_futures=True)
