"""How load is sent: by redis-benchmark, or from here where every request must be another one."""

from __future__ import annotations

import csv
import subprocess
import time
from dataclasses import dataclass
from functools import cache
from itertools import cycle
from statistics import quantiles
from typing import TYPE_CHECKING, Final, Protocol

from hiredis import Reader
from servers import LOAD_CORE, Connection, Server, binary, encode, pin

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable


@dataclass(frozen=True)
class Mode:
    """How the load arrives."""

    name: str
    clients: int
    pipeline: int


ONE: Final = Mode("1 client", 1, 1)
FEW: Final = Mode("4 clients", 4, 1)
MANY: Final = Mode("50 clients", 50, 1)
PIPED: Final = Mode("50 clients, pipeline 16", 50, 16)
PIPED_100: Final = Mode("50 clients, pipeline 100", 50, 100)
MODES: Final = (ONE, MANY, PIPED)


@dataclass(frozen=True)
class Sample:
    """One run: requests, seconds, seconds of the server's processor (all, and in user mode); p50 and p99 in milliseconds."""

    requests: int = 0
    seconds: float = 0.0
    cpu: float = 0.0
    user: float = 0.0
    p50: float = 0.0
    p99: float = 0.0

    @property
    def cost(self) -> float:
        """Seconds of the server's processor for one request."""
        return max(self.cpu, 1e-9) / self.requests

    def plus(self, more: Sample) -> Sample:
        """Both runs as one; percentiles are weighted by requests, so that they are near enough, not exact."""
        requests = self.requests + more.requests
        share = more.requests / max(requests, 1)
        return Sample(
            requests,
            self.seconds + more.seconds,
            self.cpu + more.cpu,
            self.user + more.user,
            self.p50 + (more.p50 - self.p50) * share,
            self.p99 + (more.p99 - self.p99) * share,
        )


class Load(Protocol):
    """What is sent, and what is done before each run of it."""

    def run(self, server: Server, mode: Mode, seconds: float) -> Sample:
        """Send it for about so many seconds."""

    def requests(self, mode: Mode) -> list[bytes]:
        """The encoded requests of a run."""

    def reset(self, server: Server) -> None:
        """Make again what a run has used up."""


def percentiles(seconds: list[float]) -> tuple[float, float]:
    """p50 and p99 in milliseconds."""
    cuts = quantiles(seconds, n=100, method="inclusive") if len(seconds) > 1 else seconds * 99
    return cuts[49] * 1000, cuts[98] * 1000


class Benchmark:
    """Load from redis-benchmark: one command line again and again.

    Args:
        line: the command.
        more: more words of it, which may have spaces.
        before: commands sent ahead of each run.
        at_most: how many requests the data is good for.
        keys: how many values `__rand_int__` takes.
        value: the last argument where it is too long for a command line.
    """

    def __init__(
        self,
        line: str,
        *more: str,
        before: tuple[str, ...] = (),
        at_most: int = 10_000_000,
        keys: int = 0,
        value: bytes = b"",
    ) -> None:
        self._words = (*line.split(), *more)
        self._before = before
        self._at_most = at_most
        self._keys = keys
        self._value = value
        self._rates: dict[tuple[int, Mode], float] = {}

    def requests(self, mode: Mode) -> list[bytes]:
        value = [self._value] if self._value else []
        return [encode(*self._words, *value)] * (400 * mode.pipeline)

    def reset(self, server: Server) -> None:
        for line in self._before:
            server.control.call(*line.split())

    def run(self, server: Server, mode: Mode, seconds: float) -> Sample:
        rate = self._rates.get((server.pid, mode))
        if rate is None:
            few = min(self._at_most, 100 if self._value else 400 * mode.pipeline)
            # Rillet imports a family of commands at its first one, which says nothing about its rate.
            self._part(server, mode, few)
            first = self._part(server, mode, few)
            rate = self._rates[server.pid, mode] = first.requests / first.seconds
        requests = max(int(rate * seconds), 2 * mode.clients * mode.pipeline)
        total = Sample()
        # A short supply of data is used up and made again until there was enough.
        while total.requests < requests * 0.9:
            total = total.plus(self._part(server, mode, min(self._at_most, requests - total.requests)))
        return total

    def _part(self, server: Server, mode: Mode, requests: int) -> Sample:
        """One run; the processor time of connecting so many clients (and of one PING each) is taken out."""
        self.reset(server)
        connecting = _connecting(server, mode.clients)
        run = self.send(server, mode, requests)
        cpu, user = max(run.cpu - connecting.cpu, 0.0), max(run.user - connecting.user, 0.0)
        return Sample(run.requests, run.seconds, cpu, user, run.p50, run.p99)

    def send(self, server: Server, mode: Mode, requests: int) -> Sample:
        """One run as it is."""
        requests = max(requests // mode.pipeline, 1) * mode.pipeline
        flags = f"-p {server.load_port} -c {mode.clients} -P {mode.pipeline} -n {requests} --csv".split()
        flags += ["--tls", "--insecure"] if server.load_port != server.port else []
        flags += ["-r", str(self._keys)] if self._keys else []
        flags += ["-x"] if self._value else []
        before, user = server.cpu_seconds(), server.user_seconds()
        done = subprocess.run(
            [str(binary("redis-benchmark")), *flags, *self._words],
            input=self._value,
            capture_output=True,
            timeout=120,
            check=False,
            preexec_fn=lambda: pin(LOAD_CORE),
        )
        cpu, user = server.cpu_seconds() - before, server.user_seconds() - user
        lines = list(csv.reader(done.stdout.decode(errors="replace").splitlines()))
        if done.returncode or len(lines) < 2:
            raise SystemExit(f"redis-benchmark failed at {server.program}: {done.stdout!r}{done.stderr!r}")
        # "test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms",…
        _, rate, _, _, p50, _, p99, *_ = lines[-1]
        return Sample(requests, requests / float(rate), cpu, user, float(p50), float(p99))


@cache
def _connecting(server: Server, clients: int) -> Sample:
    """The cheapest of three runs of connecting so many clients, which send a PING each."""
    pings = [Benchmark("PING").send(server, Mode("", clients, 1), clients) for _ in range(3)]
    return min(pings, key=lambda each: each.cpu)


class WhileOthersConnect(Benchmark):
    """The same while ten others connect, send a PING and leave, without pause; the server's time has both in it."""

    def run(self, server: Server, mode: Mode, seconds: float) -> Sample:
        flags = f"-p {server.port} -c 10 -k 0 -n 1000000000 -q PING".split()
        # On the core of the load, where this process is.
        words = [str(binary("redis-benchmark")), *flags]
        others = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            return super().run(server, mode, seconds)
        finally:
            others.kill()
            others.wait()


class Own:
    """Load from here: encoded requests whose replies are all of one length.

    All clients send, then all wait for their replies, so that the server finds many of them ready at once; a reply's time
    counts until we have come to read it. A request may be several commands that belong together.

    Args:
        requests: makes them for a mode.
        reset: makes again what they use up.
        steps: each client goes through so many requests again and again, and the replies of one step are of one length.
    """

    def __init__(
        self, requests: Callable[[Mode], list[bytes]], reset: Callable[[Server], object], *, steps: int = 1
    ) -> None:
        self.requests = cache(requests)
        self.reset = reset
        self._steps = steps

    def run(self, server: Server, mode: Mode, seconds: float) -> Sample:
        requests = self.requests(mode)
        total = Sample()
        connections = [Connection(server.port) for _ in range(mode.clients)]
        sockets = [connection.socket for connection in connections]
        until = time.monotonic() + seconds
        while not total.requests or (total.seconds < seconds and time.monotonic() < until):
            self.reset(server)
            firsts = requests[: self._steps * mode.clients : mode.clients]
            sizes = [_reply_size(sockets[0], request) for request in firsts]
            total = total.plus(_lock_step(server, sockets, requests, mode.pipeline, sizes, seconds))
        for connection in connections:
            connection.close()
        return total


def _reply_size(sock: socket.socket, request: bytes) -> int:
    """Send a request of one or more commands; how many bytes the replies have, which may come in pieces."""
    commands, replies = Reader(), Reader()
    commands.feed(request)
    sock.sendall(request)
    size = 0
    while commands.gets() is not False:
        while replies.gets() is False:
            data = sock.recv(1 << 20)
            size += len(data)
            replies.feed(data)
    return size


def _lock_step(
    server: Server,
    sockets: list[socket.socket],
    requests: list[bytes],
    pipeline: int,
    reply_sizes: list[int],
    seconds: float,
) -> Sample:
    """Send all but the first requests, a pipeline of them to each socket at a time, for at most so many seconds."""
    at = begin = len(sockets) * pipeline * len(reply_sizes)
    sizes = cycle(reply_sizes)
    if len(requests) < 2 * begin:
        raise SystemExit(
            f"{len(requests)} requests are too few for {len(sockets)} clients, {pipeline} at a time"
        )
    batches = [b"".join(requests[start : start + pipeline]) for start in range(0, len(requests), pipeline)]
    lasted: list[float] = []
    sent_at = [0.0] * len(sockets)
    before, user = server.cpu_seconds(), server.user_seconds()
    begun = now = time.perf_counter()
    while at + pipeline * len(sockets) <= len(requests) and now - begun < seconds:
        for number, sock in enumerate(sockets):
            sent_at[number] = time.perf_counter()
            sock.sendall(batches[at // pipeline])
            at += pipeline
        reply_size = next(sizes)
        for number, sock in enumerate(sockets):
            left = reply_size * pipeline
            while left > 0:
                left -= len(sock.recv(min(left, 1 << 20)))
            now = time.perf_counter()
            lasted.append(now - sent_at[number])
    cpu, user = server.cpu_seconds() - before, server.user_seconds() - user
    return Sample(at - begin, now - begun, cpu, user, *percentiles(lasted))
