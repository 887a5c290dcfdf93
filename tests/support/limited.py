"""A Rillet in a new process, on which the system puts limits."""

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from support.ports import free_port
from support.until import until
from support.wire import ConnectionClosedError, Wire


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError, ConnectionClosedError), Wire(port) as wire:
        return wire.call("PING").value == b"PONG"
    return False


@contextlib.contextmanager
def limited_process(
    folder: Path, *flags: str, limit: Callable[[], None] | None = None
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Yield the process of a server with an append-only file, once it answers, and its port; kill it at the end.

    The process calls `limit` before it is a Rillet. Its output is in the file `out` of the folder.
    """
    port = free_port()
    words = [
        "--port", port, "--bind", "127.0.0.1", "--dir", folder, "--save", "", "--appendonly", "yes", *flags,
    ]  # fmt: skip
    command = [sys.executable, "-m", "rillet", *map(str, words)]
    with (folder / "out").open("ab") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, cwd=folder, preexec_fn=limit  # noqa: PLW1509 - no thread of a test holds a lock
        )  # fmt: skip
    try:
        until(lambda: _answers(port))
        yield process, port
    finally:
        process.kill()
        process.wait()
