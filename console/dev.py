"""``rillet dev``: a server for a day of work, and its console, in one command."""

from __future__ import annotations

import argparse
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Final

from .command import missing, parser, say

_DESCRIPTION: Final = """\
Start a Rillet in memory, with debug commands for loopback, and its console. Nothing is left behind in the folder.
"""
_READY: Final = "Ready to accept connections"


def main(words: list[str]) -> int:
    """Run the server and its console until SIGINT or SIGTERM; return 0 after an orderly end.

    Return 1 if the server does not start.
    """
    made = parser("rillet dev")
    made.description = _DESCRIPTION
    made.add_argument("--port", type=int, default=6379, help="of the server; 0: a free one (6379)")
    made.add_argument("--persist", metavar="DIR", help="keep the data there, in an append-only file")
    options = made.parse_args(words)
    try:
        from .serving import serve
    except ImportError as error:
        return missing("rillet dev", error)
    if options.persist:
        Path(options.persist).mkdir(parents=True, exist_ok=True)
    # A signal must not arrive between the start of the server and this assignment: the server would keep running.
    early: list[int] = []
    _handle(lambda number, _: early.append(number))
    with subprocess.Popen(  # noqa: S603 - our own interpreter
        _server_words(options),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as server:
        assert server.stdout is not None
        try:
            _handle(lambda *_: sys.exit(0))  # until the console does
            if early:
                return 0
            port = _port_when_ready(server.stdout)
            if port is None:
                return 1
            # Keep reading its log: a full pipe would block the server.
            threading.Thread(target=lambda: list(server.stdout or ()), daemon=True).start()
            say(f"Server: redis://127.0.0.1:{port}")
            return serve(f"redis://127.0.0.1:{port}", options, read_only=False, say=say, record=True)
        except ValueError as error:
            made.error(str(error))
        finally:
            server.terminate()
            server.wait()


def _handle(handler: Callable[[int, FrameType | None], object]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handler)


def _server_words(options: argparse.Namespace) -> list[str]:
    keeps = (
        ["--dir", options.persist, "--appendonly", "yes", "--aof-timestamp-enabled", "ms"]
        if options.persist
        else []
    )
    return [
        *(sys.executable, "-m", "rillet", "--port", str(options.port), "--bind", "127.0.0.1"),
        *("--save", "", "--enable-debug-command", "local", *keeps),
    ]


def _port_when_ready(log: Iterator[str]) -> int | None:
    """Read a server's log until it is ready and return its port; if it ends first, print the log and return None."""
    said, port = [], None
    for line in log:
        said.append(line)
        if found := re.search(r"\bport=(\d+)", line):
            port = int(found[1])
        if _READY in line:
            return port
    print("".join(said), end="", file=sys.stderr)  # noqa: T201 - a command-line tool
    return None
