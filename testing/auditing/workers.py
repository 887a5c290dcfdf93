"""The worker under audit, as a separate process or inside this one."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import signal
import subprocess
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from .reaper import HAS_GROUPS, REAPER
from .stage import Stage

_TAIL: Final = 4000  # bytes of a worker's output that are shown
_END_SECONDS: Final = 30
_DEAD: Final[list[asyncio.AbstractEventLoop]] = []  # kept: garbage would run killed code


class Worker(ABC):
    """A running worker under audit."""

    can_be_killed = True
    process: int | None = None  # its process ID; None for a worker that runs inside this process
    is_inside = False  # whether it runs in this process

    def __init__(self, name: str) -> None:
        self.name = name  # the consumer name that it was told to use
        self.wanted = True  # whether the audit restarts it when it ends, as a supervisor does
        self.ended = ""  # why it is not restarted; "" otherwise
        self.last_start = time.monotonic()  # the time of its start, in seconds of ``time.monotonic``

    @property
    @abstractmethod
    def status(self) -> int | None:
        """The worker's exit status; None while it runs."""

    @abstractmethod
    def kill(self) -> None:
        """End the worker abruptly, and wait for its end."""

    @abstractmethod
    def terminate(self) -> None:
        """Ask the worker to end, as by SIGTERM."""

    @abstractmethod
    def words(self) -> str:
        """Return the end of the worker's output, or the error that ended it; "" if there is neither."""


class ProcessWorker(Worker):
    """A worker that is a command in its own process group.

    Args:
        command: the words; may contain ``{url}``, ``{host}``, ``{port}``, ``{consumer}``.
        environment: variables to add to the environment; may contain the same placeholders.
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], stage: Stage, name: str
    ) -> None:
        super().__init__(name)
        values = {"url": stage.url, "host": stage.host, "port": str(stage.port), "consumer": name}
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `kill`
        ours = {
            "REDIS_URL": stage.url, "REDIS_HOST": stage.host, "REDIS_PORT": str(stage.port),
            "CONSUMER": name, "NAME": name, "HOSTNAME": name, "PYTHONUNBUFFERED": "1",
        }  # fmt: skip
        given = {key: _filled(value, values) for key, value in environment.items()}
        if HAS_GROUPS:
            REAPER.start()
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the caller's own command
                [_filled(word, values) for word in command],
                env=os.environ | ours | given,
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except BaseException:
            self._log.close()
            raise
        self.process = self._process.pid
        if HAS_GROUPS:
            REAPER.watch(self._process.pid)
        self._tail = ""

    @property
    def status(self) -> int | None:
        """The exit status of the worker's process; None while it runs."""
        return self._process.poll()

    def kill(self) -> None:
        """Kill the worker's whole process group."""
        self._signal("SIGKILL")
        self._process.wait()
        if HAS_GROUPS:
            REAPER.forget(self._process.pid)
        self._tail = self.words()
        self._log.close()

    def terminate(self) -> None:
        """Send SIGTERM to the worker's whole process group, as a service manager does."""
        self._signal("SIGTERM")

    def words(self) -> str:
        """Return the end of the worker's output."""
        if self._log.closed:
            return self._tail
        size = os.fstat(self._log.fileno()).st_size
        data = os.pread(self._log.fileno(), _TAIL, max(0, size - _TAIL))
        return data.decode(errors="backslashreplace").strip()

    def _signal(self, name: str) -> None:
        if HAS_GROUPS:
            # Its children may outlive it: the group exists as long as one of them does.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, getattr(signal, name))
        elif name == "SIGKILL":
            self._process.kill()
        else:
            self._process.terminate()


class _InsideWorker(Worker):
    """A worker that is a function in this process."""

    is_inside = True
    _error: BaseException | None = None  # what ended the function

    def words(self) -> str:
        """Return the error that ended the function; "" without one."""
        return "" if self._error is None else repr(self._error)


class CoroutineWorker(_InsideWorker):
    """A worker that is a coroutine function in its own event loop; killing it stops the loop."""

    def __init__(self, target: Callable[..., Any], stage: Stage, name: str) -> None:
        super().__init__(name)
        self._done = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._task: asyncio.Task[Any] | None = None
        self._thread = threading.Thread(
            target=self._live, args=(target, arguments(target, stage.url, name)), name=name, daemon=True
        )
        self._thread.start()

    def _live(self, target: Callable[..., Any], values: tuple[str, ...]) -> None:
        asyncio.set_event_loop(self._loop)
        self._task = self._loop.create_task(target(*values))
        self._task.add_done_callback(lambda _: self._loop.stop())
        self._loop.run_forever()
        if self._task.done() and not self._task.cancelled():
            self._error = self._task.exception()
        self._done.set()

    @property
    def status(self) -> int | None:
        """0 after the coroutine has returned, 1 after an error; None while it runs."""
        return None if not self._done.is_set() else int(self._error is not None)

    def kill(self) -> None:
        """Stop the worker's loop: no more of its code runs, not even ``finally``.

        The server closes its connections.
        """
        if not self._done.is_set():
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_END_SECONDS)
        _DEAD.append(self._loop)

    def terminate(self) -> None:
        """Cancel the worker's coroutine, as a service does at SIGTERM."""
        assert self._task is not None
        self._loop.call_soon_threadsafe(self._task.cancel)


class ThreadWorker(_InsideWorker):
    """A worker that is a function in a thread, which only the function itself can end."""

    can_be_killed = False

    def __init__(self, target: Callable[..., Any], stage: Stage, name: str) -> None:
        super().__init__(name)
        values = arguments(target, stage.url, name)

        def live() -> None:
            try:
                target(*values)
            except BaseException as error:  # noqa: BLE001 - reported by `words`
                self._error = error

        self._thread = threading.Thread(target=live, name=name, daemon=True)
        self._thread.start()

    @property
    def status(self) -> int | None:
        """0 after the function has returned, 1 after an error; None while it runs."""
        return None if self._thread.is_alive() else int(self._error is not None)

    def kill(self) -> None:
        """Do nothing: a thread cannot be killed. The worker ends when its server stops."""

    def terminate(self) -> None:
        """Do nothing: a thread gets no signal."""


def arguments(target: Callable[..., Any], url: str, name: str) -> tuple[str, ...]:
    """Return the arguments for a worker function: the URL, and the consumer's name if it takes two."""
    places = [
        each
        for each in inspect.signature(target).parameters.values()
        if each.kind in {each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD, each.VAR_POSITIONAL}
    ]
    return (url, name)[: 2 if any(each.kind is each.VAR_POSITIONAL for each in places) else len(places)]


def _filled(word: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        word = word.replace(f"{{{name}}}", value)
    return word
