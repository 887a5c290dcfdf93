"""Deterministic simulation of a test: many seeds, virtual time, a failing network, and a server in the same process.

It builds on simloop, which simulates the event loop and the network (``pip install 'rillet[simulation]'``, Python 3.12).
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import gc
import inspect
import itertools
import os
import random
import shutil
import sys
import time
import warnings
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload
from unittest import mock

from ..server.clock import EPOCH
from .folders import TemporaryFolder
from .log import logger
from .loop_server import LoopServer
from .many_seeds import cores, first_failure
from .recording import RecordingError
from .shrinking import LATENCY, LOSS, Disturbance, smallest, summary
from .story import DRIVER, Event, event_of, of_network, told

if TYPE_CHECKING:
    import redis.asyncio

    Test = Callable[..., Coroutine[Any, Any, object]]

_SERVER: Final = "redis"
# Seconds of virtual time until chaos ends, so that the system can recover and the test can check that it did.
_CHAOS_SECONDS: Final = 30.0
_RESTART_SECONDS: Final = 1.0
_KEPT: Final = 10_000
_FROZEN_AT_START: Final = 1000  # objects; Python 3.12 itself freezes 375, other versions none
_ORDERS: Final = 5  # how many other task orders a failure is rerun with
_PROGRESS_SECONDS: Final = 10.0
_HIDDEN: Final = {__name__.partition(".")[0], "simloop", "asyncio"}

__unittest = True  # unittest hides frames of this module

Kept = TypeVar("Kept", bound="Test")  # a type checker sees the test's own signature


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

            def plan_in(folder: Path) -> _Plan:
                return _Plan(functools.partial(_apply, test, args, kwargs), chaos, directives, folder)

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
        run = _Plan(test_of, chaos, directives, folder, tells_always=True).run(seed)
    return "\n".join([*map(str, run.story), repr(run.error)])


def _apply(test: Test, args: Any, kwargs: Any, sim: Simulation) -> Coroutine[Any, Any, object]:
    return test(sim, *args, **kwargs)


class Simulation:
    """One run of a test: a network of hosts, a server at the host ``redis``, and the test itself, which is not a host.

    Attributes:
        seed: the seed of this run.
        net: the simulator's network (``simloop.SimNetwork``).
        server: the server, a ``rillet.testing.LoopServer``. ``await sim.server.restart(crash=True)`` loses unsynced writes:
            with ``appendfsync everysec`` those of the last second.
        random: a generator for the test, seeded with the seed.
    """

    def __init__(
        self, seed: int, chaos: float, only: frozenset[Disturbance] | None, directives: Mapping[str, object]
    ) -> None:
        self.seed = seed
        self.random = random.Random(f"{seed}:test")  # noqa: S311 - the same for the same seed
        loop: Any = asyncio.get_running_loop()
        self._loop = loop
        self.net = loop.net
        self._chaos = chaos
        self._only = only  # the disturbances that may happen; None: all
        self._programs: dict[
            str, tuple[Callable[..., Awaitable[object]], tuple[Any, ...], dict[str, Any]]
        ] = {}
        self._down: set[str] = set()
        self.events: list[Event] = []
        self.lost: dict[int, str] = {}  # the effects of faults, by ID
        self.disturbances: dict[Disturbance, str] = {}  # everything that went wrong, with a description
        self._starts = 0  # of the server
        self._own = 0  # the number of the last crash or partition by the test
        self._told = 0  # the number of the last command in the story
        self._randoms: dict[str, random.Random] = {}
        self.failure: asyncio.Future[None] = self._loop.create_future()
        self.net.host(_SERVER)
        self._set_latency(calm=False)
        self.server = _HostedServer(self, {"appendonly": True} | dict(directives))
        self._client: redis.asyncio.Redis | None = None

    # For tests

    @property
    def url(self) -> str:
        """The server's URL, for any client library on any host."""
        return self.server.url

    @property
    def client(self) -> redis.asyncio.Redis:
        """The test's own client; chaos spares its connection."""
        if self._client is None:
            self._client = self.server.client()
        return self._client

    def start(
        self, name: str, program: Callable[..., Awaitable[object]], /, *args: Any, **kwargs: Any
    ) -> None:
        """Run a coroutine function on its own host, like a program with a supervisor.

        If it raises a ConnectionError or TimeoutError of any library, it is restarted a second later. Any other error
        fails the test.
        """
        if name in {_SERVER, DRIVER}:
            raise ValueError(f"{name!r} is the name of another host")
        self._programs[name] = (program, args, kwargs)
        self.net.host(name)
        self._launch(name)

    def crash(self, name: str, *, silent: bool = False) -> None:
        """Crash a host: cancel its tasks, and lose the data that it sent and that was not yet delivered.

        Args:
            name: the name of the host.
            silent: crash like a machine that loses power, whose connections stay open at the other end; otherwise like a
                killed process, whose operating system closes them.
        """
        if name not in self._programs:
            raise ValueError(f"There is no host {name!r}; started are: {', '.join(self._programs) or 'none'}")
        if name not in self._down and self._is_on_by_test(f"{name} crashes"):
            self._crash(name, silent=silent)

    def _crash(self, name: str, *, silent: bool = False) -> None:
        self._down.add(name)
        self.tell(name, "crashes" + (" without a word" if silent else ""))
        self.net.crash(name)
        if not silent:
            for connection in list(self.server.connections()):
                if (
                    connection.address.rpartition(b":")[0] == name.encode()
                    and connection.transport is not None
                ):
                    self._loop.call_later(
                        self._random_of("ends").uniform(0.001, 0.05), connection.transport.abort
                    )

    def restart(self, name: str) -> None:
        """Restart a host's program; crash the host first if it runs."""
        if name not in self._down:
            self.crash(name)
        if name in self._down:
            self._restart(name)

    def _restart(self, name: str) -> None:
        self._down.discard(name)
        self.net.restart(name)
        self._launch(name)

    def partition(self, *names: str) -> None:
        """Cut hosts off from all others; what they send is held until ``heal``."""
        if self._is_on_by_test(f"{', '.join(names)} cut off"):
            self._partition(*names)

    def _partition(self, *names: str) -> None:
        others = [name for name in (DRIVER, _SERVER, *self._programs) if name not in names]
        self.tell(", ".join(names), "cut off")
        self.net.partition(list(names), others)

    def heal(self) -> None:
        """End all partitions."""
        self.tell("network", "heals")
        self.net.heal()

    # Inside

    def tell(self, host: str, text: str, *, is_idle: bool = False) -> None:
        """Add an event of a host to the story; ``is_idle`` marks a read without a result, or a new connection."""
        self.events.append(Event(self._loop.time() * 1000, host, text, is_idle=is_idle))

    def keep_recorded(self) -> None:
        """Add the server's recorded commands to the story; call it before the server ends and loses them."""
        recording = self.server.watched
        if recording is None or not self.server.running:
            return
        with contextlib.suppress(RecordingError):  # a reset has ended it
            for each in recording:
                if each.number > self._told:
                    self._told = each.number
                    self.events.append(event_of(each, self.lost))

    def _is_on(self, disturbance: Disturbance, text: str) -> bool:
        """Return True, and record the disturbance, if it is to happen in this run."""
        if self._only is not None and disturbance not in self._only:
            return False
        self.disturbances[disturbance] = text
        return True

    def _is_on_by_test(self, text: str) -> bool:
        self._own += 1
        return self._is_on(("own", self._own), f"{text} at {self._loop.time():.3f}, by the test")

    def _random_of(self, kind: str) -> random.Random:
        """Return the generator of one kind of chaos; leaving out one kind does not change the others."""
        if kind not in self._randoms:
            self._randoms[kind] = random.Random(f"{self.seed}:{kind}")  # noqa: S311 - as above
        return self._randoms[kind]

    def _set_latency(self, *, calm: bool) -> None:
        text = f"messages between hosts take up to {0.002 + self._chaos:g} seconds"
        is_late = not calm and self._chaos and self._is_on(LATENCY, text)
        longest = 0.002 + self._chaos if is_late else 0.002
        self.net.set_defaults(latency=(0.0005, longest))
        for ends in ((DRIVER, _SERVER), (_SERVER, DRIVER)):
            self.net.set_link(*ends, latency=(0.0002, 0.0005))

    def _launch(self, name: str) -> None:
        self.tell(name, "starts")
        self.net.host(name).create_task(self._supervise(name), name=name)

    async def _supervise(self, name: str) -> None:
        program, args, kwargs = self._programs[name]
        while True:
            try:
                await program(*args, **kwargs)
            except asyncio.CancelledError:
                raise
            except Exception as error:  # noqa: BLE001 - of the code under test
                if not _is_of_the_network(error):
                    self.tell(name, f"fails: {error!r}")
                    if not self.failure.done():
                        self.failure.set_exception(error)
                    return
                kind = type(error).__name__
                self.tell(name, f"ends by {kind}, and is started again", is_idle=kind == "TimeoutError")
                await asyncio.sleep(_RESTART_SECONDS)
            else:
                self.tell(name, "ends")
                return

    def note_unhandled(self, loop: object, context: dict[str, Any]) -> None:
        """Fail the test because of an unhandled error, unless that is a lost connection or a timeout (a loop's handler)."""
        del loop
        error = context.get("exception")
        if not isinstance(error, Exception):
            return
        task = context.get("task") or context.get("future")
        host = task.get_name() if isinstance(task, asyncio.Task) else "loop"
        self.tell(host, f"leaves unhandled: {error!r}")
        if not _is_of_the_network(error) and not self.failure.done():
            self.failure.set_exception(error)

    def begin_loss(self) -> None:
        """Start to lose commands and replies, if chaos has not ended yet."""
        self._starts += 1
        if not self._chaos or self._loop.time() >= _CHAOS_SECONDS:
            return
        if self._only is None or LOSS in self._only:
            for close in ("before", "after"):
                seed = self._random_of(f"loss {close}").getrandbits(31)
                self._lose(close, client=f"!{DRIVER}", probability=self._chaos / 20, seed=seed)
        else:
            # A fault after the one that hits a command does not count that command, so start the fault with the highest
            # count first.
            for _, close, client, command, nth in sorted(
                (each for each in self._only if each[0] == "loss"), key=lambda each: -each[4]
            ):
                self._lose(close, client=client, command=command, nth=nth, empty=True)

    def _lose(self, close: str, **which: Any) -> None:
        fault = self.server.fault(close=close, **which).start()
        assert fault.id is not None
        self.lost[fault.id] = "lost before it ran" if close == "before" else "it ran, its reply is lost"

    def note_losses(self) -> None:
        """Add each lost command and reply to the disturbances, as the nth command of that name of its client.

        After a restart of the server these numbers begin again; then all losses count as one disturbance.
        """
        if self._starts > 1 or (self._only is not None and LOSS in self._only):  # the numbers restart
            self.disturbances[LOSS] = "commands and replies are lost"
            return
        counts: Counter[tuple[str, str]] = Counter()
        for event in self.events:
            command = event.command
            # Faults pass these.
            if command is not None and not (command.error or "").startswith("ERR unknown"):
                name = command.words[0].upper()
                counts[command.client, name] += 1
                if command.fault in self.lost:
                    close = "before" if "before" in self.lost[command.fault] else "after"
                    loss = ("loss", close, command.client, name, counts[command.client, name])
                    self.disturbances[loss] = f"{command.client}: {event.text} at {event.time / 1000:.3f}"

    async def disturb(self) -> None:
        """Crash hosts and cut them off from the network at random times, until chaos ends."""
        if self._chaos:
            async with asyncio.TaskGroup() as group:
                for kind in ("crashes", "partitions"):
                    group.create_task(self._disturb_by(kind))
                group.create_task(self._calm_down())

    async def _calm_down(self) -> None:
        await asyncio.sleep(_CHAOS_SECONDS)
        self._set_latency(calm=True)
        for fault in self.server.faults if self.server.running else ():
            fault.stop()

    async def _disturb_by(self, kind: str) -> None:
        numbers = self._random_of(kind)
        for count in itertools.count(1):
            await asyncio.sleep(numbers.expovariate(self._chaos))
            pick, silent, seconds = numbers.random(), numbers.random() < 0.25, numbers.uniform(0.1, 3)
            if self._loop.time() >= _CHAOS_SECONDS:
                return
            running = [name for name in self._programs if name not in self._down]
            if not running:
                continue
            name = running[int(pick * len(running))]
            what = "is cut off" if kind == "partitions" else "crashes without a word" if silent else "crashes"
            if not self._is_on(
                (kind, count), f"{name} {what} at {self._loop.time():.3f}, for {seconds:.3f} s"
            ):
                await asyncio.sleep(seconds)  # keeps the times of the later ones
            elif kind == "partitions":
                self._partition(name)
                await asyncio.sleep(seconds)
                self.heal()
            else:
                self._crash(name, silent=silent)
                await asyncio.sleep(seconds)
                if name in self._down:
                    self._restart(name)


class _HostedServer(LoopServer):
    """The server of a simulation: a host of its network."""

    def __init__(self, sim: Simulation, directives: Mapping[str, Any]) -> None:
        super().__init__(**directives)
        self._sim = sim
        self._naming = lambda address: address.rpartition(b":")[0]  # simloop's sockets have names

    async def start(self) -> _HostedServer:
        self._sim.tell(_SERVER, "starts")
        await self._sim.net.host(_SERVER).create_task(super().start())
        self.host = _SERVER
        self._sim.begin_loss()
        return self

    async def crash(self) -> None:
        self._sim.keep_recorded()
        self._sim.tell(_SERVER, "crashes, and loses what is not synced")
        await super().crash()

    def connections(self) -> Iterable[Any]:
        """Return the connections of clients."""
        return self._inside.clients.values() if self.running else ()


def _check_simulator() -> None:
    """Raise an ImportError with the reason if the simulator is not installed."""
    try:
        import simloop  # noqa: F401
        import time_machine  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "rillet.testing.simulation needs Python 3.12 or later and: pip install 'rillet[simulation]'"
        ) from error


def _loop_of(seed: int) -> Any:
    """Return a simulated loop."""
    from .simulated_loop import SimulatedLoop

    loop: Any = SimulatedLoop(seed)
    # Programs may register signal handlers, but no signal arrives.
    loop.add_signal_handler = loop.remove_signal_handler = lambda *_: True
    return loop


@dataclass
class _Run:
    seed: int
    error: BaseException | None
    story: list[Event] = field(default_factory=list)
    disturbances: dict[Disturbance, str] = field(default_factory=dict)


@dataclass
class _Plan:
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

    def run(self, seed: int) -> _Run:
        """Run the test once, to its end or its error."""
        with warnings.catch_warnings():
            # A crashed program closes nothing; the test is not to blame for that.
            warnings.simplefilter("ignore", ResourceWarning)
            run = self._run(seed)
            gc.collect()
        return run

    def _run(self, seed: int) -> _Run:
        for old in self.folder.iterdir():
            shutil.rmtree(old) if old.is_dir() else old.unlink()
        loop = _loop_of(seed if self.order is None else self.order)
        run = _Run(seed, None)
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

    async def _main(self, seed: int, run: _Run) -> None:
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


def _is_of_the_network(error: BaseException) -> bool:
    """Return True if an error is a lost connection or a timeout, by the names that any library uses."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_of_the_network, error.exceptions))
    names = {kind.__name__ for kind in type(error).__mro__}
    return bool(names & {"ConnectionError", "TimeoutError"})


# The report


def _explain(plan: _Plan, run: _Run, *, passed: int, progress: _Progress) -> None:
    """Add a note to the error of a run: which disturbances matter, and the story of the smallest failing run."""
    assert run.error is not None
    error = run.error
    runs = itertools.count(1)

    def again(only: Iterable[Disturbance], order: int | None = None) -> _Run | None:
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


def _is_failure(error: BaseException) -> bool:
    """Return True if an error fails a test, also by pytest.fail; False if it skips or interrupts it."""
    return isinstance(error, Exception) or type(error).__name__ == "Failed"


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
