"""What every driver here needs: where the server is, a worker process that can be killed, waiting for a state."""

import asyncio
import contextlib
import inspect
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

PORT = int(os.environ["RILLET_FRAMEWORKS_PORT"])
URL = f"redis://127.0.0.1:{PORT}/0"
DEADLINE = 60.0
END = "all as expected"


class Worker:
    """A process of this environment's python, in a session of its own so that its children die with it."""

    def __init__(self, *words: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, *words], stdin=subprocess.DEVNULL, stdout=sys.stderr, start_new_session=True
        )

    def kill(self) -> None:
        """SIGKILL to it and its children: a crash."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def finish(self) -> int:
        """Wait until it ends by itself; its exit status."""
        return self._process.wait(DEADLINE)


@contextlib.contextmanager
def worker(*words: str) -> Iterator[Worker]:
    """`python *words` while the block runs; killed at its end."""
    started = Worker(*words)
    try:
        yield started
    finally:
        started.kill()


def function(module: str, name: str) -> contextlib.AbstractContextManager[Worker]:
    """Another function of a driver in a process of its own while the block runs."""
    return worker(str(Path(__file__).with_name("run.py")), module, name)


def eventually(condition: Callable[[], Any]) -> Any:
    """What the condition gives once it is true."""
    until = time.monotonic() + DEADLINE
    while not (value := condition()):
        assert time.monotonic() < until, f"still {value!r} after {DEADLINE} seconds"
        time.sleep(0.02)
    return value


async def eventually_async(condition: Callable[[], Any | Awaitable[Any]]) -> Any:
    """What the condition gives once it is true; what it gives may have to be awaited."""
    until = time.monotonic() + DEADLINE
    while True:
        value = condition()
        if inspect.isawaitable(value):
            value = await value
        if value:
            return value
        assert time.monotonic() < until, f"still {value!r} after {DEADLINE} seconds"
        await asyncio.sleep(0.02)


def _leave(*_: object) -> None:
    sys.exit(1)  # so that the blocks of `worker` end theirs


signal.signal(signal.SIGTERM, _leave)
