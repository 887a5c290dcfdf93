"""Fixtures shared by all tests: one running server of each kind per session (and per xdist worker)."""

import contextlib
import gc
import os
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from _pytest.assertion import rewrite
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, settings
from support import servers
from support.live import LiveServer
from support.servers import ServerProcess
from support.thorough import examples
from support.wire import Wire

# Two cores that other things use too: how long an example takes, or is made, says nothing.
_UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=examples(100))
settings.register_profile("random", _UNTIMED)
# What is proven before a change lands must not depend on luck: the same examples each time.
settings.register_profile("same", _UNTIMED, derandomize=True)


_LARGE_FILE = 30  # tests
_LONG = 0.1  # seconds of a fixture that --durations should show


@pytest.fixture(scope="session")
def running() -> Iterator[Callable[[str], ServerProcess]]:
    """`running(kind)` starts that kind at its first use; a missing binary ends each test that asks."""
    with servers.on_demand(servers.start_server) as get:
        yield get


@pytest.fixture
def rillet_process(running: Callable[[str], ServerProcess]) -> ServerProcess:
    return running("rillet")


@pytest.fixture
def redis7(running: Callable[[str], ServerProcess]) -> ServerProcess:
    return running("redis7")


@pytest.fixture
def valkey(running: Callable[[str], ServerProcess]) -> ServerProcess:
    return running("valkey")


@pytest.fixture(scope="module")
def shared() -> Iterator[LiveServer]:
    """A Rillet with an AOF in this process, for the tests of one file."""
    with LiveServer(appendonly=True, repl_diskless_sync_delay=0) as server:  # no replica waits for others
        yield server


@pytest.fixture
def server(shared: LiveServer) -> LiveServer:
    """The same, as if it had just started."""
    shared.reset()
    return shared


@pytest.fixture
def wire(server: LiveServer) -> Iterator[Wire]:
    """A connection to it."""
    with server.wire() as wire:
        yield wire


def pytest_configure(config: pytest.Config) -> None:
    is_random = os.environ.get("RILLET_RANDOM") or config.getoption("--hypothesis-seed") is not None
    settings.load_profile("random" if is_random else "same")


def _rewrite_a_share(config: pytest.Config) -> None:
    """Rewrite the assertions of this worker's part of the files, then of what no other worker has come to yet.

    In a fresh clone each worker would rewrite all of them: eight seconds of processor time. pytest reads here what it
    would write itself.
    """
    workers = int(config.workerinput["workercount"])  # type: ignore[attr-defined]
    number = int(config.workerinput["workerid"].removeprefix("gw"))  # type: ignore[attr-defined]
    places = [Path(argument.partition("::")[0]) for argument in config.args]
    files = [
        file
        for place in places
        for file in ([place] if place.is_file() else sorted(place.rglob("test_*.py")))
    ]
    first, end = (len(files) * share // workers for share in (number, number + 1))
    for file in (*files[first:end], *reversed(files[:first]), *reversed(files[end:])):
        folder = rewrite.get_cache_dir(file)
        cached = folder / (file.stem + rewrite.PYC_TAIL)
        if not cached.exists() and rewrite.try_makedirs(folder):
            with contextlib.suppress(SyntaxError):  # collection says it
                stat, code = rewrite._rewrite_test(file, config)
                rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, stat, cached)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect the tests without garbage collections, which find nothing: 24 seconds of processor time a worker instead of 31.

    What is there by then is frozen: a full collection during the tests would walk through it for 0.4 seconds.
    """
    gc.disable()
    if hasattr(session.config, "workerinput") and not sys.dont_write_bytecode:
        _rewrite_a_share(session.config)
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="module")
def lost_connections() -> Iterator[None]:
    """Collect connections that were forgotten by the end of a module (support/lost_connections.py)."""
    yield
    gc.collect()


@pytest.fixture
def unfrozen() -> Iterator[None]:
    """Undo the freezing after the collection, which the program's own respects, until the end of a test."""
    gc.unfreeze()
    yield
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Give each large file to one worker, as if its tests had an `xdist_group`; groups with many tests go first.

    Handing out 19,000 tests that do nothing one by one to four workers takes 58 seconds of processor time, in files of 190
    it takes 38; and what a file shares is made once, not on each worker.
    """
    if config.getoption("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadGroupScheduling
    from xdist.workermanage import WorkerController

    class ByFile(LoadGroupScheduling):
        sizes: Counter[str] | None = None
        places: dict[str, int] | None = None

        def _split_scope(self, nodeid: str) -> str:
            group = super()._split_scope(nodeid)
            if group != nodeid:
                return group
            if self.sizes is None:
                self.sizes = Counter(each.partition("::")[0] for each in self.collection)
            file = nodeid.partition("::")[0]
            return file if self.sizes[file] >= _LARGE_FILE else nodeid

        def _assign_work_unit(self, node: WorkerController) -> None:
            """As it is there, but each test is looked up, not searched for among all."""
            if self.places is None:
                self.places = {nodeid: place for place, nodeid in enumerate(self.collection)}
            scope, unit = self.workqueue.popitem(last=False)
            self.assigned_work[node][scope] = unit
            node.send_runtest_some([self.places[nodeid] for nodeid in unit])

        def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:  # noqa: ARG002
            """Forget a test that has run: with each end of a test all that a worker still has are counted."""
            nodeid = self.collection[item_index]
            work = self.assigned_work[node]
            scope = self._split_scope(nodeid)
            del work[scope][nodeid]
            if not work[scope]:
                del work[scope]
            self._reschedule(node)

    return ByFile(config, log)


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Let a worker send two messages about a test that passes, not six: the report of its call, and its end.

    A message costs 0.2 milliseconds of processor time: 13 seconds of a whole run.
    """
    if not hasattr(item.config, "workerinput"):
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed or report.sections or report.duration > _LONG:
            item.ihook.pytest_runtest_logreport(report=report)
    return True


def pytest_report_header() -> str:
    """The versions compared with: the excuses are true of redis-server 7.0 and valkey 9.1."""
    return f"peers: redis-server {servers.version_of('redis7')}, valkey-server {servers.version_of('valkey')}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line for each reason why tests were left out, with what to run (tests/support/needs.py)."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ").partition("\n")[0] for report in skipped)
    for reason, number in reasons.most_common():
        terminalreporter.write_line(f"left out: {number} tests: {reason}", yellow=True, bold=True)
