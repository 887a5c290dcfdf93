"""Runs the experiments of an audit, several at a time, and makes their outcomes verdicts: kept, broken or not tried."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

import hiredis

from ..control import ControlError
from ..recording import RecordingError
from .bench import Bench, Plan
from .catalogue import PROMISES, Promise
from .real_stage import RealStage
from .results import BROKEN, KEPT, NOT_TRIED, Broken, Cancelled, NotTried, Result
from .stage import Stage

# Promises whose verdicts other experiments use; on a single real server, they all run first.
_TELLING: Final = ("cut", "scripts", "crash", "crash-elsewhere")
# Promises whose verdicts others use, and slow ones: they start early, so that no core is idle at the end.
_EARLY: Final = "cut scripts consumers crash-elsewhere poison-capped retention fair long-job".split()


class Audit:
    """The audit of one worker: the promises that were tried with it, and their results.

    Args:
        jobs: the number of experiments that run at a time, not counting those that wait for something that may never come.
        catalogue: the promises by name; the first finds out what the others need to know.
    """

    def __init__(self, plan: Plan, jobs: int = 2, catalogue: Mapping[str, Promise] = PROMISES) -> None:
        self.plan = plan
        self._catalogue = catalogue
        self._first = next(iter(catalogue))
        plan.slots = threading.Semaphore(jobs)
        self._lock = threading.Lock()
        self._results: dict[str, Future[Result]] = {}

    def run(
        self, names: Iterable[str] = (), tell: Callable[[Result], object] = lambda _: None
    ) -> list[Result]:
        """Try promises, and return the results in the order of the catalogue.

        Raises CannotRunError: the worker cannot be audited.

        Args:
            names: the names of the promises; by default all.
            tell: called with each result as soon as it is known.
        """
        chosen = set(names) or set(self._catalogue)
        wanted = [each for each in self._catalogue if each in chosen]
        order = sorted(
            (each for each in wanted if each != self._first),
            key=lambda each: _EARLY.index(each) if each in _EARLY else len(_EARLY),
        )
        if self.plan.real:
            order = [*_TELLING, *(each for each in order if each not in _TELLING)]
        results: dict[str, Future[Result]] = {}
        # No experiment runs in this thread: a signal's handler may raise anywhere in the main thread. If it raised between
        # the start of a worker and the note that it runs, the worker would outlive the audit.
        prefix = f"audit-{id(self)}"
        with ThreadPoolExecutor(len(order) + 1, thread_name_prefix=prefix) as pool:

            def begin(name: str) -> Future[Result]:
                results[name] = pool.submit(self.result, name)
                if name in wanted:
                    results[name].add_done_callback(lambda done: self._tell(done, tell))
                return results[name]

            try:
                begin(self._first).result()
                for name in order:
                    begin(name)
                    if self.plan.real:  # one server for all
                        results[name].result()
                return [results[each].result() for each in wanted]
            except Cancelled:
                raise KeyboardInterrupt from None
            except BaseException:
                self.plan.cancelled.set()
                pool.shutdown(wait=False)
                # Of a thread whose start was interrupted the pool does not know.
                while any(each.name.startswith(prefix) for each in threading.enumerate()):
                    time.sleep(0.01)
                raise

    def _tell(self, done: Future[Result], tell: Callable[[Result], object]) -> None:
        if done.exception() is None:
            with self._lock:
                tell(done.result())

    def result(self, name: str) -> Result:
        """Return the result of a promise. The first call runs its experiment, and simultaneous ones wait for it.

        Raises:
            CannotRunError: the worker cannot be audited.
            Cancelled: the audit was interrupted.
        """
        with self._lock:
            future = self._results.get(name)
            mine = future is None
            if future is None:
                future = self._results[name] = Future()
        if not mine:
            return future.result()
        try:
            future.set_result(self._try(name))
        except BaseException as error:
            future.set_exception(error)
            raise
        return future.result()

    def _try(self, name: str) -> Result:
        promise = self._catalogue[name]
        if name != self._first:
            first = self.result(self._first)
            if first.result != KEPT:
                return Result(name, NOT_TRIED, f"it does not even work: see {self._first}", (), 0.0)
        turn = contextlib.ExitStack()
        turn.enter_context(self.plan.slots)
        with turn, self._stage(promise) as stage, Bench(self.plan, stage, turn, self._verdict) as bench:
            begin = time.monotonic()
            try:
                result, what = KEPT, promise.experiment(bench)
            except Broken as broken:
                result, what = BROKEN, str(broken)
            except NotTried as reason:
                result, what = NOT_TRIED, str(reason)
            except (ControlError, RecordingError, hiredis.ReplyError) as error:
                result, what = NOT_TRIED, f"the server refused the audit itself: {error}"
            evidence = bench.evidence(what) if bench.stage.is_up else ()
        return Result(name, result, what, evidence, time.monotonic() - begin)

    def _stage(self, promise: Promise) -> Stage:
        if self.plan.real:
            return RealStage(self.plan)
        return Stage(durable=promise.durable, paced=self.plan.spins, database=self.plan.database)

    def _verdict(self, name: str) -> str:
        if self.plan.real and name not in self._results:
            return NOT_TRIED  # the only server is in use
        return self.result(name).result
