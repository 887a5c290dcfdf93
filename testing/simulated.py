"""A test in a deterministic simulation: many seeds, virtual time, a network that fails, a server inside.

It stands on simloop, which simulates the event loop and the network (``pip install 'rillet[simulation]'``, Python 3.12).
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import inspect
import itertools
import os
import random
import shutil
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload
from unittest import mock

from ..server.clock import EPOCH
from .folders import TemporaryFolder
from .loop_server import LoopServer
from .many_seeds import cores, first_failure
from .recording import RecordingError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping

    import redis.asyncio

    from .recording import RecordedCommand

    Test = Callable[..., Coroutine[Any, Any, object]]

_SERVER: Final = "redis"
_DRIVER: Final = "driver"
# Seconds of virtual time, after which the network is calm, so that a system can recover and a test can ask whether it did.
_CHAOS_SECONDS: Final = 30.0
_RESTART_SECONDS: Final = 1.0
_KEPT: Final = 10_000
_SHOWN: Final = 80
_WIDE: Final = 160
_FROZEN_AT_START: Final = 1000  # objects; Python 3.12 itself freezes 375, other versions none
_KINDS: Final = ("partitions", "crashes", "loss", "latency")
_IDLE: Final = {"XREADGROUP", "XREAD", "XAUTOCLAIM", "BLPOP", "BRPOP", "BZPOPMIN"}

_VOLATILE: Final = {
    "INFO",
    "MEMORY",
    "SLOWLOG",
    "LATENCY",
}  # what they reply depends on the process and its speed


Kept = TypeVar("Kept", bound="Test")  # a type checker sees the test as it was written


@dataclass
class _Session:
    """What pytest says of the test that runs."""

    test: str = ""
    seed: int | None = None


_SESSION: Final = _Session()


def begin_test(test: str, seed: int | None) -> None:
    """Note which test pytest is about to run, and the seed of ``--rillet-seed``."""
    _SESSION.test, _SESSION.seed = test, seed


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
    """Make a test of a coroutine function, which is run once for each seed and gets a ``Simulation``.

    Args:
        test: the coroutine function; its first parameter is the simulation, others are fixtures of pytest.
        seeds: how many, from 0 on; or which.
        chaos: how much goes wrong by itself in the first half minute, from 0 (nothing but the order of tasks) to 1:
            messages between hosts take up to ``chaos`` seconds, commands and replies of hosts are lost together with
            their connection, hosts are cut off, crash and start again. The test's own client is spared.
        jobs: how many processes share the seeds; 0: one for each core. They are forks of this one, so what the test appends to
            a list of its module stays in them. The seed that is reported is the same.
        directives: of the server, as in ``rillet.testing.Server``; it has an append-only file unless they say no.

    Returns:
        A function that raises the error of the first seed that fails, with a note: the seed, and the story by host.
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
            chosen = every if _SESSION.seed is None else (_SESSION.seed,)

            def plan_in(folder: Path) -> _Plan:
                return _Plan(functools.partial(_apply, test, args, kwargs), chaos, directives, folder)

            def passes(seed: int, folder: Path) -> bool:
                return plan_in(folder).run(seed).error is None

            with _folder() as folder, _frozen():
                first = 0
                if (processes := min(jobs or cores(), len(chosen))) > 1:
                    first = first_failure(chosen, processes, folder, passes)
                plan = plan_in(folder)
                for at, seed in enumerate(chosen[first:], first):
                    run = plan.run(seed)
                    if run.error is not None:
                        _explain(plan, run, passed=at)
                        raise run.error
                    if processes > 1:
                        raise RuntimeError(
                            f"seed {seed} failed in another process, and passes in this one: the test depends on more than "
                            "its seed"
                        )

        signature = inspect.signature(test)
        # pytest takes the other parameters for fixtures.
        run_all.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[*signature.parameters.values()][1:]
        )
        del run_all.__wrapped__  # type: ignore[attr-defined]
        return run_all

    return decorate if test is None else decorate(test)


def trace(test: Test, seed: int, *, chaos: float = 0.2, **directives: object) -> str:
    """Run a coroutine function at one seed; return the whole story and its error, the same in every process."""
    with _folder() as folder:
        test_of = functools.partial(_apply, test, (), {})
        run = _Plan(test_of, chaos, directives, folder, tells_always=True).run(seed)
    return "\n".join([*map(str, run.story), repr(run.error)])


def _apply(test: Test, args: Any, kwargs: Any, sim: Simulation) -> Coroutine[Any, Any, object]:
    return test(sim, *args, **kwargs)


class Simulation:
    """One run of a test: a network of hosts, a server at the host ``redis``, and the test itself, which is no host.

    Attributes:
        seed: of this run.
        net: the simulator's network (``simloop.SimNetwork``).
        server: the server, as in ``rillet.testing.LoopServer``. ``await sim.server.restart(crash=True)`` loses what is not
            synced; with ``appendfsync everysec`` that is the last second.
        random: random numbers of the seed, for the test.
    """

    def __init__(
        self, seed: int, chaos: float, off: frozenset[str], directives: Mapping[str, object]
    ) -> None:
        self.seed = seed
        self.random = random.Random(f"{seed}:test")  # noqa: S311 - the same for the same seed
        loop: Any = asyncio.get_running_loop()
        self._loop = loop
        self.net = loop.net
        self._chaos = chaos
        self._off = off
        self._programs: dict[
            str, tuple[Callable[..., Awaitable[object]], tuple[Any, ...], dict[str, Any]]
        ] = {}
        self._down: set[str] = set()
        self.events: list[Event] = []
        self.lost: dict[int, str] = {}  # what a fault does, by its ID
        self.disturbances: list[str] = []  # crashes and partitions by chaos, as `off` names them
        self._told = 0  # the number of the last command in the story
        self._randoms: dict[str, random.Random] = {}
        self.failure: asyncio.Future[None] = self._loop.create_future()
        self.net.host(_SERVER)
        self._set_latency(calm="latency" in off)
        self.server = _HostedServer(self, {"appendonly": True} | dict(directives))
        self._client: redis.asyncio.Redis | None = None

    # For tests

    @property
    def url(self) -> str:
        """Of the server, for any client library on any host."""
        return self.server.url

    @property
    def client(self) -> redis.asyncio.Redis:
        """The test's own client, whose connection does not fail."""
        if self._client is None:
            self._client = self.server.client()
        return self._client

    def start(
        self, name: str, program: Callable[..., Awaitable[object]], /, *args: Any, **kwargs: Any
    ) -> None:
        """Run a coroutine function on a host of its own, as a program with a supervisor.

        If it raises a ConnectionError or a TimeoutError of any library it is started again a second later. Any other
        error fails the test.
        """
        if name in {_SERVER, _DRIVER}:
            raise ValueError(f"{name!r} is the name of another host")
        self._programs[name] = (program, args, kwargs)
        self.net.host(name)
        self._launch(name)

    def crash(self, name: str, *, silent: bool = False) -> None:
        """Let a host end: its tasks are cancelled, and what it has sent and not yet delivered is lost.

        Args:
            name: of the host.
            silent: as a machine without power, whose connections stay open at the other end; otherwise as a killed
                process, whose system closes them.
        """
        if name not in self._programs:
            raise ValueError(f"There is no host {name!r}; started are: {', '.join(self._programs) or 'none'}")
        if name in self._down:
            return
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
        """Start a host's program again; if the host runs, it crashes before."""
        self.crash(name)
        self._down.discard(name)
        self.net.restart(name)
        self._launch(name)

    def partition(self, *names: str) -> None:
        """Cut hosts off from all others, until ``heal``: what they send waits."""
        others = [name for name in (_DRIVER, _SERVER, *self._programs) if name not in names]
        self.tell(", ".join(names), "cut off")
        self.net.partition(list(names), others)

    def heal(self) -> None:
        """End all partitions."""
        self.tell("network", "heals")
        self.net.heal()

    # Inside

    def tell(self, host: str, text: str, *, is_idle: bool = False) -> None:
        """Add to the story."""
        self.events.append(Event(self._loop.time() * 1000, host, text, is_idle=is_idle))

    def keep_recorded(self) -> None:
        """Add to the story what the server has recorded, before it forgets that."""
        recording = self.server.watched
        if recording is None or not self.server.running:
            return
        with contextlib.suppress(RecordingError):  # a reset has ended it
            for each in recording:
                if each.number > self._told:
                    self._told = each.number
                    self.events.append(_event_of(each, self.lost))

    def _random_of(self, kind: str) -> random.Random:
        """Return the random numbers of one kind of chaos: without one kind the others stay as they are."""
        if kind not in self._randoms:
            self._randoms[kind] = random.Random(f"{self.seed}:{kind}")  # noqa: S311 - as above
        return self._randoms[kind]

    def _set_latency(self, *, calm: bool) -> None:
        longest = 0.002 if calm else 0.002 + self._chaos
        self.net.set_defaults(latency=(0.0005, longest))
        for ends in ((_DRIVER, _SERVER), (_SERVER, _DRIVER)):
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
        """Fail the test because of an error that nobody has handled, unless a lost connection has made it."""
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
        """Let commands and replies be lost, if it is the time for that."""
        if self._chaos and "loss" not in self._off and self._loop.time() < _CHAOS_SECONDS:
            for close in ("before", "after"):
                seed = self._random_of(f"loss {close}").getrandbits(31)
                fault = self.server.fault(
                    client=f"!{_DRIVER}", close=close, probability=self._chaos / 20, seed=seed
                ).start()
                assert fault.id is not None
                self.lost[fault.id] = (
                    f"lost {close} it ran" if close == "before" else "it ran, its reply is lost"
                )

    async def disturb(self) -> None:
        """Let hosts crash and be cut off, until the network is to be calm."""
        if self._chaos:
            disturbances = [each for each in ("crashes", "partitions") if each not in self._off]
            async with asyncio.TaskGroup() as group:
                for kind in disturbances:
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
            disturbance = f"number {count} of the {kind}"
            if disturbance in self._off:
                await asyncio.sleep(seconds)  # the others come when they came
                continue
            self.disturbances.append(disturbance)
            if kind == "partitions":
                self.partition(name)
                await asyncio.sleep(seconds)
                self.heal()
            else:
                self.crash(name, silent=silent)
                await asyncio.sleep(seconds)
                if name in self._down:
                    self.restart(name)


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


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a story.

    Attributes:
        time: milliseconds of virtual time.
        host: where it happened.
        text: what.
        is_idle: a read that found nothing or timed out, or the beginning of a connection.
    """

    time: float
    host: str
    text: str
    is_idle: bool = False

    def __str__(self) -> str:
        return f"{self.time / 1000:10.3f} {self.host:10} {self.text}"


def _check_simulator() -> None:
    """Raise an ImportError with the reason where there is no simulator."""
    try:
        import simloop  # noqa: F401
        import time_machine  # noqa: F401
    except ImportError as error:
        raise ImportError(
            "rillet.testing.simulation needs Python 3.12 or later and: pip install 'rillet[simulation]'"
        ) from error


def _loop_of(seed: int) -> Any:
    """Return a simulated loop."""
    import simloop

    loop: Any = simloop.SimLoop(seed)
    loop._recorder = _network_recorder()()  # noqa: SLF001 - all callbacks would be a twentieth of a run
    # Programs may listen to signals, and none comes.
    loop.add_signal_handler = loop.remove_signal_handler = lambda *_: True
    return loop


@functools.cache
def _network_recorder() -> type:
    from simloop._trace import TraceRecorder

    class NetworkRecorder(TraceRecorder):  # type: ignore[misc]
        """Of all events only the messages, which the story shows."""

        def record(self, kind: str, *event: Any) -> None:
            if kind == "net":
                super().record(kind, *event)

    return NetworkRecorder


@dataclass
class _Run:
    seed: int
    error: Exception | None
    story: list[Event] = field(default_factory=list)
    disturbances: list[str] = field(default_factory=list)


@dataclass
class _Plan:
    """How a test is run at a seed.

    Attributes:
        off: kinds of chaos and single disturbances that are left out.
        tells_always: a run that passes has a story, too, which takes a tenth of its time.
    """

    test: Callable[[Simulation], Coroutine[Any, Any, object]]
    chaos: float
    directives: Mapping[str, object]
    folder: Path
    off: frozenset[str] = frozenset()
    tells_always: bool = False

    def run(self, seed: int) -> _Run:
        """Run the test once, to its end or its error."""
        with warnings.catch_warnings():
            # A program that has crashed has closed nothing; that is no fault of the test.
            warnings.simplefilter("ignore", ResourceWarning)
            run = self._run(seed)
            gc.collect()
        return run

    def _run(self, seed: int) -> _Run:
        for old in self.folder.iterdir():
            shutil.rmtree(old) if old.is_dir() else old.unlink()
        loop = _loop_of(seed)
        run = _Run(seed, None)
        with _determined(loop, seed):
            try:
                loop.run_until_complete(self._main(seed, run))
            except Exception as error:  # noqa: BLE001 - it is reported
                run.error = error
            finally:
                _end(loop)
        return run

    async def _main(self, seed: int, run: _Run) -> None:
        sim = Simulation(seed, self.chaos, self.off, {"dir": str(self.folder)} | dict(self.directives))
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
                run.disturbances = sim.disturbances
                run.story = sorted([*sim.events, *_of_network(loop)], key=lambda event: event.time)
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
            with contextlib.suppress(Exception):  # the test's own error is more important
                await sim.server.stop()


def _event_of(command: RecordedCommand, lost: Mapping[int, str]) -> Event:
    words = " ".join(command.words)
    if command.fault is not None and command.fault in lost:
        reply = f"({lost[command.fault]})"
    elif command.answered is None:
        reply = "(no reply)"
    elif command.words[0].upper() in _VOLATILE:
        reply = "…"
    else:
        reply = repr(command.reply) if command.error is None else f"(error) {command.error}"
    idle = command.words[0].upper() in _IDLE and not _found(command.reply)
    shown = words if len(words) < _WIDE else f"{words[:_WIDE]}…"
    answer = reply if len(reply) < _WIDE else f"{reply[:_WIDE]}…"
    idle |= command.words[0].upper() in {"HELLO", "CLIENT"}
    is_idle = idle and command.fault not in lost
    return Event(command.time - EPOCH, command.client, f"{shown} -> {answer}", is_idle=is_idle)


def _found(reply: Any) -> bool:
    """Whether the reply of a read has anything in it; XAUTOCLAIM's has a cursor as well."""
    return bool(reply[1] or reply[2:] != [[]] if isinstance(reply, list) and reply[:1] == ["0-0"] else reply)


def _of_network(loop: Any) -> Iterator[Event]:
    """Yield what the network lost or held."""
    for event in loop.trace:
        verb, _, ends = event.label.partition(" ")
        if event.kind == "net" and verb in {"lost", "hold"} and ends:
            source, _, target = ends.partition(">")
            what = "is lost" if verb == "lost" else "is held up"
            yield Event(event.when * 1000, "network", f"a message from {source} to {target} {what}")


@contextlib.contextmanager
def _determined(loop: Any, seed: int) -> Iterator[None]:
    """Let the time and the random numbers of the process follow a loop and a seed."""
    numbers = random.Random(f"{seed}:system")  # noqa: S311 - the same for the same seed
    state = random.getstate()
    import time_machine

    travel = time_machine.travel(EPOCH / 1000, tick=False)
    traveller = travel.start()
    traveller.time_ns = lambda: EPOCH * 1_000_000 + round(loop.time() * 1_000_000_000)  # type: ignore[method-assign]
    collects = gc.isenabled()
    gc.disable()  # finalizers run at the same places
    random.seed(seed)
    try:
        with (
            mock.patch.object(os, "urandom", numbers.randbytes),
            mock.patch.object(random, "_urandom", numbers.randbytes),
            mock.patch.object(time, "monotonic", loop.time),
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
    """Let anyio run functions in line: it has threads of its own, which wake a loop from outside."""
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
    """Cancel what the test has left, and close its loop."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()

    async def wait() -> None:
        await asyncio.gather(*left, return_exceptions=True)

    with contextlib.suppress(Exception):  # the run is over
        loop.run_until_complete(wait())
    loop.close()


@contextlib.contextmanager
def _frozen() -> Iterator[None]:
    """Let collections skip what there is already: three visit all objects at the end of each run, a fifth of its time."""
    if gc.get_freeze_count() > _FROZEN_AT_START:  # somebody else has frozen them, and wants that to stay
        yield
        return
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """Give a folder for the server's files, in memory where the system has such a place."""
    memory = Path("/dev/shm")  # noqa: S108 - a folder of its own is made there
    with TemporaryFolder(str(memory) if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder.path)


def _is_of_the_network(error: BaseException) -> bool:
    """Whether it is a lost connection or a timeout, as any library calls them."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_of_the_network, error.exceptions))
    names = {kind.__name__ for kind in type(error).__mro__}
    return bool(names & {"ConnectionError", "TimeoutError"})


# The report


def _explain(plan: _Plan, run: _Run, *, passed: int) -> None:
    """Add the story to the error of a run, as short as it can be made."""
    assert run.error is not None
    shrunk: _Run = run
    off: list[str] = []

    def candidates() -> Iterator[str]:
        yield from _KINDS
        yield from shrunk.disturbances

    for name in candidates() if plan.chaos else ():
        plan.off = frozenset([*off, name])
        again = plan.run(run.seed)
        if again.error is not None and _is_same(again.error, run.error):
            shrunk, off = again, [*off, name]
    plan.off = frozenset()
    words = f"rillet: seed {run.seed} fails ({passed} passed before it)."
    replay = f"pytest {_quoted(_SESSION.test)} --rillet-seed={run.seed}" if _SESSION.test else ""
    lines = [words, *([f"replay: {replay}"] if replay else [f"replay: --rillet-seed={run.seed}"])]
    if off:
        lines.append(f"It fails without {', '.join(off)}, too; this is what happened then:")
    run.error.add_note("\n".join([*lines, *_shown(shrunk.story)]))


def _shown(story: list[Event]) -> list[str]:
    """Return the lines of a story without reads that found nothing, and without its middle where it is long."""
    kept = [event for event in story if not event.is_idle]
    idle = len(story) - len(kept)
    lines = [str(event) for event in kept]
    if len(lines) > _SHOWN:
        lines[_SHOWN // 2 : -_SHOWN // 2] = [f"           … {len(lines) - _SHOWN} more …"]
    if idle:
        lines.append(f"({idle} reads without an entry and beginnings of connections are left out)")
    return lines


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
