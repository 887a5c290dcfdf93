"""A test that is repeated with one fault at a time, at each command that it sends."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from unittest import mock

from .log import escaped
from .loop_server import LoopServer
from .recording import Recording
from .server import Server

if TYPE_CHECKING:
    from ..console.recorded import RecordedCommand
    from .faults import Seconds

    AnyServer = Server | LoopServer
    Broken = dict["Place", tuple[Exception, str]]

_FIXTURES: Final = ("rillet_server", "rillet", "rillet_async")
_FIRST_RUNS: Final[list[_Plan]] = []  # plans whose run without faults is in progress
# Commands that client libraries send by themselves when they connect.
_CONNECTING: Final = {"HELLO", "AUTH", "CLIENT", "SELECT", "COMMAND"}
_WIDE: Final = 120


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """One command of a test, and the fault that hits it."""

    command: str  # the name in upper case, e.g. ``XGROUP CREATE``.
    nth: int  # its position among the commands of this name, from 1
    words: str  # the words that were sent in the run without faults
    fault: dict[str, Any]  # arguments of ``rillet.testing.Server.fault``

    def __str__(self) -> str:
        what = ", ".join(f"{name}={value!r}" for name, value in self.fault.items())
        return f"{self.command} number {self.nth} with {what}: {self.words}"


class every_fault:  # noqa: N801 - a decorator
    """Run a test once without a fault, then once for each of its commands and each kind of fault.

    The test is a function or a coroutine function. It may take Rillet's fixtures (``rillet_server``, ``rillet``,
    ``rillet_async``) and any others. Without a Rillet fixture, its first parameter receives a server: a
    ``rillet.testing.Server``, or a ``LoopServer`` if it is a coroutine function. Each run begins with a freshly reset
    server. redis-py does not pause between its retries.

    Args:
        commands: hit only these commands or subcommands (``XGROUP CREATE``); by default all except those that connect.
        close: kinds of lost connections, as in ``Server.fault``; ``("before", "after")`` if nothing else is given.
        error: error replies.
        delay: delays, in seconds or as timedeltas.
        directives: directives of the test's server, as in ``rillet.testing.Server``.

    The test raises an AssertionError that lists every command at which a fault breaks it, and what the client saw there;
    or the ``commands`` that the run without faults never sent.
    """

    def __init__(
        self,
        *commands: str,
        close: str | Sequence[str] = (),
        error: str | Sequence[str] = (),
        delay: Seconds | Sequence[Seconds] = (),
        **directives: object,
    ) -> None:
        if any(map(callable, commands)):
            raise TypeError("every_fault needs parentheses: @every_fault()")
        kinds: list[dict[str, Any]] = [{"close": each} for each in _each(close)]
        kinds += [{"error": each} for each in _each(error)] + [{"delay": each} for each in _each(delay)]
        self._kinds = kinds or [{"close": "before"}, {"close": "after"}]
        self._wanted = list(dict.fromkeys(command.upper().replace("|", " ") for command in commands))
        self._directives = directives

    @staticmethod
    def from_here() -> None:
        """Inject no faults into the commands before this point of the test, which are its set-up.

        Outside ``every_fault`` it does nothing.
        """
        if _FIRST_RUNS:
            _FIRST_RUNS[-1].from_here()

    def __call__(self, test: Callable[..., Any]) -> Callable[..., Any]:
        """Return a test that performs all runs of ``test``."""
        signature = inspect.signature(test)
        by_fixture = any(name in signature.parameters for name in _FIXTURES)
        is_async = inspect.iscoroutinefunction(test)
        plan = _Plan(test, self._wanted, self._kinds)
        directives = self._directives
        wants_server = "rillet_server" in signature.parameters

        if by_fixture and is_async:

            @functools.wraps(test)
            async def run(*args: Any, rillet_server: Server, **kwargs: Any) -> None:
                given = kwargs | ({"rillet_server": rillet_server} if wants_server else {})
                await plan.run_async(rillet_server, args, given)

        elif by_fixture:

            @functools.wraps(test)
            def run(*args: Any, rillet_server: Server, **kwargs: Any) -> None:
                given = kwargs | ({"rillet_server": rillet_server} if wants_server else {})
                plan.run(rillet_server, args, given)

        elif is_async:

            @functools.wraps(test)
            def run(*args: Any, **kwargs: Any) -> None:
                async def life() -> None:
                    async with LoopServer(**directives) as server:  # type: ignore[arg-type]
                        await plan.run_async(server, (server, *args), kwargs)

                asyncio.run(life())

        else:

            @functools.wraps(test)
            def run(*args: Any, **kwargs: Any) -> None:
                __tracebackhide__ = True
                with Server(**directives) as server:  # type: ignore[arg-type]
                    plan.run(server, (server, *args), kwargs)

        parameters = [*signature.parameters.values()]
        if not by_fixture:
            parameters = parameters[1:]
        elif not wants_server:
            parameters.append(inspect.Parameter("rillet_server", inspect.Parameter.KEYWORD_ONLY))
        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        del run.__wrapped__
        return run


class _Plan:
    """The runs of one test."""

    def __init__(self, test: Callable[..., Any], wanted: list[str], kinds: list[dict[str, Any]]) -> None:
        self._test = test
        self._seen: Recording | None = None
        self._spared = 0  # the number of the last command before from_here()
        self._wanted = wanted
        self._kinds = kinds

    def from_here(self) -> None:
        """Inject no faults into the commands that the first run has sent so far."""
        assert self._seen is not None
        self._spared = max((command.number for command in self._seen), default=0)

    @contextlib.contextmanager
    def _first_run(self, server: AnyServer) -> Iterator[None]:
        self._spared = 0
        _FIRST_RUNS.append(self)
        try:
            with server.recording() as self._seen:
                yield
        finally:
            _FIRST_RUNS.remove(self)

    def run(self, server: AnyServer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Run the test without faults, then once for each fault.

        Raises AssertionError: it lists the faults that break the test.
        """
        __tracebackhide__ = True
        broken: Broken = {}
        with _without_pauses():
            with self._first_run(server):
                self._test(*args, **kwargs)
            places = self._places()
            for place in places:
                server.reset()
                with self._tried(server, place, broken):
                    self._test(*args, **kwargs)
        _report(places, broken)

    async def run_async(self, server: AnyServer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Run the asynchronous test without faults, then once for each fault.

        Raises AssertionError: it lists the faults that break the test.
        """
        __tracebackhide__ = True
        broken: Broken = {}
        with _without_pauses():
            with self._first_run(server):
                await self._test(*args, **kwargs)
            places = self._places()
            for place in places:
                reset: Awaitable[None] | None = server.reset()
                if reset is not None:
                    await reset
                for client in kwargs.values():
                    if hasattr(client, "connection_pool"):  # rillet_async
                        await client.connection_pool.disconnect()
                with self._tried(server, place, broken):
                    await self._test(*args, **kwargs)
        _report(places, broken)

    def _places(self) -> list[Place]:
        counts: dict[str, int] = {}
        sent: set[str] = set()
        found: list[Place] = []
        for command in self._seen or ():
            names = self._names_of(command)
            for name in names:  # a fault on XGROUP also counts each XGROUP CREATE
                counts[name] = counts.get(name, 0) + 1
            if command.number <= self._spared:
                continue
            sent.update(names)
            words = " ".join(command.words)[:_WIDE]
            found += [Place(name, counts[name], words, kind) for name in names[:1] for kind in self._kinds]
        missing = [name for name in self._wanted if name not in sent]
        where = " after from_here()" if self._spared else ""
        if missing:
            raise AssertionError(f"the test never sends {', '.join(missing)}{where}")
        if not found:
            raise AssertionError(f"the test sends no command{where}")
        return found

    def _names_of(self, command: RecordedCommand) -> list[str]:
        if self._wanted:
            return [name for name in self._wanted if command.is_a(name)]
        name = command.words[0].upper()
        return [] if name in _CONNECTING else [name]

    @staticmethod
    @contextlib.contextmanager
    def _tried(server: AnyServer, place: Place, broken: Broken) -> Iterator[None]:
        with (
            server.recording() as seen,
            server.fault(command=place.command, nth=place.nth, empty=True, **place.fault) as fault,
        ):
            try:
                yield
            except Exception as error:  # noqa: BLE001 - of the test
                broken[place] = error, _seen([each for each in seen if each.fault == fault.id], place)


def _seen(hit: list[RecordedCommand], place: Place) -> str:
    """Describe what the client saw of the command that was hit."""
    if not hit:
        return "the test did not come to this command"
    [command, *_] = hit
    words = " ".join(command.words)[:_WIDE]
    if place.fault.get("close") == "before":
        return f"{words}: it did not run, and the connection was closed"
    if "close" in place.fault:
        return f"{words}: it ran, its reply {command.reply!r} was lost, and the connection was closed"
    return f"{words}: {command.error or repr(command.reply)}"


def _report(places: list[Place], broken: Broken) -> None:
    __tracebackhide__ = True
    if not broken:
        return
    lines = [f"{len(broken)} of {len(places)} faults break the test:"]
    for place, (error, seen) in broken.items():
        text = str(error).splitlines()[0] if str(error) else ""
        lines += [
            f"- {place}",
            f"    the client saw: {seen}",
            f"    the test: {type(error).__name__}: {text}",
        ]
    raise AssertionError(escaped("\n".join(lines))) from next(iter(broken.values()))[0]


def _each(values: Any) -> list[Any]:
    return list(values) if isinstance(values, (tuple, list)) else [values]


@contextlib.contextmanager
def _without_pauses() -> Iterator[None]:
    """Let redis-py retry without backoff."""
    try:
        from redis import backoff
    except ImportError:
        yield
        return
    with contextlib.ExitStack() as stack:
        for kind in vars(backoff).values():
            if isinstance(kind, type) and "compute" in vars(kind) and kind.__name__ != "AbstractBackoff":
                stack.enter_context(mock.patch.object(kind, "compute", return_value=0))
        yield
