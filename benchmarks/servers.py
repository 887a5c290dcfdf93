"""The servers under test: started on loopback, pinned to one core, their processor time and memory measured."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, Self

import hiredis

SERVER_CORE: Final = 0
LOAD_CORE: Final = 1
_TICK: Final = os.sysconf("SC_CLK_TCK")


def pin(core: int, pid: int = 0) -> None:
    """Keep a process (by default this one) on one core, where the system has that many and lets us."""
    if hasattr(os, "sched_setaffinity") and core < (os.cpu_count() or 1):
        os.sched_setaffinity(pid, {core})


def binary(name: str) -> str | None:
    """Where a program is: as BENCH_<NAME> says, beside this Python, or in the path."""
    chosen = os.environ.get("BENCH_" + name.upper().replace("-", "_"))
    if chosen:
        return chosen
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.exists() else shutil.which(name)


class Server:
    """One server process; a context manager that stops it and removes its folder."""

    def __init__(self, program: str, *flags: str) -> None:
        path = binary(program)
        if path is None:
            raise SystemExit(f"{program} is not installed")
        self.program = program
        self._folder = tempfile.TemporaryDirectory(prefix=f"bench-{program}-")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.log = Path(self._folder.name) / "server.log"
        command = [path, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", self._folder.name]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, "--save", "", *flags], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self.pid = self._process.pid
        pin(SERVER_CORE, self.pid)
        self.control = self._connect()

    def _connect(self) -> Connection:
        until = time.monotonic() + 20
        while self._process.poll() is None and time.monotonic() < until:
            try:
                return Connection(self.port)
            except OSError:
                time.sleep(0.02)
        raise SystemExit(f"{self.program} did not start:\n{self.log.read_text(errors='replace')}")

    def cpu_seconds(self) -> float:
        """Processor time used so far, all threads, user and system."""
        if sys.platform == "linux":
            # The clock of another process (clock_getcpuclockid): nanoseconds, where /proc/<pid>/stat counts 10 ms.
            with contextlib.suppress(OSError):
                return time.clock_gettime(~self.pid << 3 | 2)
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / _TICK

    def resident_bytes(self) -> int:
        """Memory in use."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.control.close()
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()


class Connection:
    """A client that knows just enough: pipelines of encoded requests."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=120)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = hiredis.Reader(notEnoughData=NotImplemented)

    def call(self, *words: object) -> object:
        """One command, its reply; an error reply is raised."""
        return self.pipeline([encode(*words)])[0]

    def pipeline(self, requests: list[bytes], at_once: int = 500) -> list[object]:
        """Send many requests, some at a time, and give all replies; an error reply is raised."""
        answers: list[object] = []
        for start in range(0, len(requests), at_once):
            some = requests[start : start + at_once]
            self.socket.sendall(b"".join(some))
            wanted = start + len(some)
            while len(answers) < wanted:
                answer = self._reader.gets()
                if answer is NotImplemented:
                    self._reader.feed(self._receive())
                elif isinstance(answer, Exception):
                    raise answer
                else:
                    answers.append(answer)
        return answers

    def _receive(self) -> bytes:
        data = self.socket.recv(1 << 20)
        if not data:
            raise ConnectionError("the server closed the connection")
        return data

    def close(self) -> None:
        """Hang up."""
        self.socket.close()


def encode(*words: object) -> bytes:
    """A request."""
    encoded = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"".join([b"*%d\r\n" % len(encoded), *[b"$%d\r\n%b\r\n" % (len(word), word) for word in encoded]])
