"""The servers under test: started on loopback, pinned to one core, their processor time and memory measured."""

from __future__ import annotations

import os
import re
import resource
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections import deque
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, TypeVar

import hiredis

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support.ports import free_port
from support.servers import find_binary
from support.tls import flags as tls_flags
from support.tls import make_certificates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

Found = TypeVar("Found")
ROOT: Final = Path(__file__).resolve().parent.parent
LABELS: Final = {
    "rillet": "Rillet",
    "redis-server": "Redis",
    "redis-8.10": "Redis 8.10",  # built by tests/peers.sh
    "valkey-server": "Valkey",
}
PROGRAMS: Final = tuple(LABELS)
WITHOUT_TLS: Final = ("redis-8.10", "valkey-server")
SERVER_CORE: Final = 0
LOAD_CORE: Final = 1
# The tests' names of them: RILLET_PEER_REDIS810 chooses another program.
_KINDS: Final = {"redis-server": "redis7", "redis-8.10": "redis810", "valkey-server": "valkey"}


def pin(core: int = LOAD_CORE, pid: int = 0) -> None:
    """Keep a process (this one) on a core (that of the load), where the system has that many and lets us."""
    if hasattr(os, "sched_setaffinity") and core < (os.cpu_count() or 1):
        os.sched_setaffinity(pid, {core})


def binary(name: str) -> str | None:
    """Where the tests find a program, or the path has it."""
    if name == "redis-benchmark":
        return shutil.which(name)
    found = find_binary(_KINDS.get(name, name))
    return str(found) if found else None


def matches(name: str, words: list[str]) -> bool:
    """Whether a name contains one of the words that were asked for; all match where there are none."""
    return not words or any(word.lower() in name.lower() for word in words)


def alternate(rounds: int, ways: Mapping[str, Callable[[], Found]]) -> dict[str, list[Found]]:
    """Do something in each of several ways, in each round, every other round in reverse; return what each has found."""
    found: dict[str, list[Found]] = {name: [] for name in ways}
    for turn in range(rounds):
        for name in ways if turn % 2 == 0 else reversed(list(ways)):
            found[name].append(ways[name]())
    return found


def require(*names: str) -> None:
    """End with a word on how to get them if a program is missing."""
    missing = [name for name in names if binary(name) is None]
    if missing:
        raise SystemExit(
            f"not installed: {', '.join(missing)} (apt install redis-server redis-tools; sh tests/peers.sh; make install)"
        )


def labelled(name: str) -> str:
    """`Redis 7.0.15`."""
    output = subprocess.run(
        [str(binary(name)), "--version"], capture_output=True, text=True, check=True
    ).stdout
    found = re.search(r"\(Rillet ([0-9.]+)\)", output) or re.search(r"v=([0-9.]+)", output)
    return f"{LABELS[name].split()[0]} {found[1] if found else output.strip()}"


def machine() -> str:
    """What the figures were measured on."""
    info = Path("/proc/cpuinfo")
    text = info.read_text(encoding="utf-8") if info.exists() else ""
    model = re.search(r"model name\s*: (.*)", text)
    python = sys.version.split(" ", 1)[0]
    return f"{model[1] if model else 'unknown processor'}, {os.cpu_count()} cores, Python {python}"


def where() -> str:
    """When and on what the figures are measured."""
    return f"{time.strftime('%Y-%m-%d')}, {machine()}"


def git(*words: str, check: bool = True) -> str:
    """What git says in this checkout."""
    command = ["git", "-C", str(ROOT), *words]
    return subprocess.run(command, capture_output=True, text=True, check=check).stdout.strip()


def export(commit: str, folder: Path) -> None:
    """Write the files of a commit into a new folder: a checkout may hold others that no longer belong to it."""
    folder.mkdir(parents=True)
    command = ["git", "-C", str(ROOT), "archive", commit]
    archive = subprocess.run(command, capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)


def commit() -> str:
    """The short name of the commit that is measured, with + if files have changed since."""
    paths = ("--", ".", ":!docs", ":!README.md")
    changed = git("status", "--porcelain", "--untracked-files=no", *paths, check=False)
    return git("rev-parse", "--short", "HEAD", check=False) + "+" * bool(changed)


def open_files(wanted: int) -> int:
    """Let this process, and the servers that it starts, open so many files, or all that the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, allowed), hard))
    return allowed


def environment(folder: Path, *packages: str | Path) -> Path:
    """Make a Python environment with some packages, and return its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--quiet", *packages], check=True)
    return python


def cpu_seconds(pid: int) -> float:
    """Processor time that a process has used so far, all threads, user and system."""
    # The clock of another process (clock_getcpuclockid): nanoseconds, where /proc/<pid>/stat counts 10 ms.
    return time.clock_gettime(~pid << 3 | 2)


def resident_bytes(pid: int) -> int:
    """Memory that a process has."""
    return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Server:
    """One server process; a context manager that stops it and removes its folder.

    Attributes:
        port: for commands of our own.
        load_port: for the load; another one where that comes by TLS.
        kept: what a workload keeps open beside its load.
    """

    kept: object = None

    def __init__(self, program: str, *flags: str, secure: bool = False) -> None:
        """Start it. With `secure` load comes by TLS."""
        path = binary(program)
        if path is None:
            raise SystemExit(f"{program} is not installed")
        self.program = program
        self._folder = tempfile.TemporaryDirectory(prefix=f"bench-{program}-")
        self.folder = Path(self._folder.name)
        self.port = self.load_port = free_port()
        if secure:
            self.load_port = free_port()
            shown = tls_flags(make_certificates(self.folder), tls_port=self.load_port, tls_auth_clients="no")
            flags = (*shown, *flags)
        self.log = self.folder / "server.log"
        self._command = [
            path, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder), "--save", "", *flags,
        ]  # fmt: skip
        self._pinned = True
        self.start()

    def start(self) -> None:
        """Start it and wait until it answers; it has loaded its data then."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.pid = self._process.pid
        if self._pinned:
            pin(SERVER_CORE, self.pid)
        self.control = self._wait_until_it_answers()

    def unpin(self) -> None:
        """Let it use every core, from now on: the child of a rewrite is not meant to share its parent's."""
        self._pinned = False
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(self.pid, range(os.cpu_count() or 1))

    def stop(self) -> None:
        """Let it write everything and end."""
        self.control.close()
        self._process.terminate()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _wait_until_it_answers(self) -> Connection:
        connection, until = None, time.monotonic() + 300
        while self._process.poll() is None and time.monotonic() < until:
            try:
                connection = connection or Connection(self.port)
                connection.call("PING")
            except (OSError, hiredis.ReplyError):  # not there yet, or loading
                time.sleep(0.002)
            else:
                return connection
        raise SystemExit(f"{self.program} did not start:\n{self.log.read_text(errors='replace')}")

    def cpu_seconds(self) -> float:
        """Processor time used so far, all threads, user and system."""
        return cpu_seconds(self.pid)

    def resident_bytes(self) -> int:
        """Memory in use."""
        return resident_bytes(self.pid)

    def settled_bytes(self, at_most: float = 60.0) -> int:
        """Memory in use once the server is idle: what it does in the background (deflating) is done."""
        self.rest(3, 0.2, at_most)
        return self.resident_bytes()

    def rest(self, times: int = 1, seconds: float = 0.05, at_most: float = 60.0) -> None:
        """Wait until the server was idle for so long, so many times in a row."""
        until = time.monotonic() + at_most
        quiet = 0
        while quiet < times and time.monotonic() < until:
            before = self.cpu_seconds()
            time.sleep(seconds)
            quiet = quiet + 1 if self.cpu_seconds() - before < seconds / 20 else 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.kept = None
        self._folder.cleanup()


class Connection:
    """A client that knows just enough: pipelines of encoded requests."""

    def __init__(self, port: int, *, secure: bool = False) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=300)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if secure:
            context = ssl.create_default_context()
            # Our own server, on the loopback.
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            self.socket = context.wrap_socket(self.socket)
        self._reader = hiredis.Reader(notEnoughData=NotImplemented)

    def call(self, *words: object) -> object:
        """One command, its reply; an error reply is raised."""
        [reply] = self._replies([encode(*words)], 1)
        return reply

    def feed(self, requests: Iterable[bytes], at_once: int = 500) -> None:
        """Send many requests, some at a time, and forget the replies; an error reply is raised."""
        deque(self._replies(requests, at_once), 0)

    def _replies(self, requests: Iterable[bytes], at_once: int) -> Iterator[object]:
        supply, waited_for = iter(requests), 0
        while (some := list(islice(supply, at_once))) or waited_for:
            self.socket.sendall(b"".join(some))
            # The server is at work on these while the ones before are looked at here.
            for _ in range(waited_for):
                yield self.receive()
            waited_for = len(some)

    def receive(self) -> object:
        """The next reply; an error reply is raised."""
        while (answer := self._reader.gets()) is NotImplemented:
            data = self.socket.recv(1 << 20)
            if not data:
                raise ConnectionError("the server closed the connection")
            self._reader.feed(data)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        self.socket.close()


def encode(*words: object) -> bytes:
    """A request of words that are text, bytes or numbers."""
    return hiredis.pack_command(words)
