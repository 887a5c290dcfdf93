"""One run of a simulated test: a network of hosts, its server, and what goes wrong: late messages, losses, crashes."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from ..loop_server import LoopServer
from ..recording import RecordingError
from .shrinking import LATENCY, LOSS, Disturbance
from .story import DRIVER, Event, event_of

if TYPE_CHECKING:
    import redis.asyncio

_SERVER: Final = "redis"
# Seconds of virtual time until chaos ends, so that the system can recover and the test can check that it did.
_CHAOS_SECONDS: Final = 30.0
_RESTART_SECONDS: Final = 1.0


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
            # Faults ignore these.
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


def _is_of_the_network(error: BaseException) -> bool:
    """Return True if an error is a lost connection or a timeout, by the names that any library uses."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_of_the_network, error.exceptions))
    names = {kind.__name__ for kind in type(error).__mro__}
    return bool(names & {"ConnectionError", "TimeoutError"})
