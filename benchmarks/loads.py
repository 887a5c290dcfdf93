"""How load is sent: by redis-benchmark, or from here where every request must be another one."""

from __future__ import annotations

import csv
import subprocess
import time
from dataclasses import dataclass, replace
from functools import cache
from statistics import quantiles
from typing import TYPE_CHECKING, Final

from servers import Connection, Server, binary, encode, pin

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


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
_WARM_UP: Final = (
    3  # turns; Rillet imports a family of commands at its first one, which says nothing about its rate
)


@dataclass(frozen=True)
class Sample:
    """One run: requests, seconds, seconds of the server's processor; p50 and p99 in milliseconds."""

    requests: int = 0
    seconds: float = 0.0
    cpu: float = 0.0
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
            self.p50 + (more.p50 - self.p50) * share,
            self.p99 + (more.p99 - self.p99) * share,
        )


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
        """The encoded requests of a run."""
        value = [self._value] if self._value else []
        return [encode(*self._words, *value)] * (400 * mode.pipeline)

    def reset(self, server: Server) -> None:
        """Make again what a run has used up."""
        for line in self._before:
            server.control.call(*line.split())

    def run(self, server: Server, mode: Mode, seconds: float) -> Sample:
        """Send it for about so many seconds."""
        rate = self._rates.get((server.pid, mode))
        if rate is None:
            few = min(self._at_most, 100 if self._value else 400 * mode.pipeline)
            self._part(server, mode, few)  # warms up
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
        return replace(run, cpu=max(run.cpu - connecting.cpu, 0.0))

    def send(self, server: Server, mode: Mode, requests: int) -> Sample:
        """One run as it is."""
        requests = max(requests // mode.pipeline, 1) * mode.pipeline
        flags = f"-p {server.load_port} -c {mode.clients} -P {mode.pipeline} -n {requests} --csv".split()
        flags += ["--tls", "--insecure"] if server.load_port != server.port else []
        flags += ["-r", str(self._keys)] if self._keys else []
        flags += ["-x"] if self._value else []
        before = server.cpu_seconds()
        done = subprocess.run(
            [str(binary("redis-benchmark")), *flags, *self._words],
            input=self._value,
            capture_output=True,
            timeout=120,
            check=False,
            preexec_fn=pin,
        )
        cpu = server.cpu_seconds() - before
        lines = list(csv.reader(done.stdout.decode(errors="replace").splitlines()))
        if done.returncode or len(lines) < 2:
            raise SystemExit(f"redis-benchmark failed at {server.program}: {done.stdout!r}{done.stderr!r}")
        # "test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms",…
        _, rate, _, _, p50, _, p99, *_ = lines[-1]
        return Sample(requests, requests / float(rate), cpu, float(p50), float(p99))


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
    """Load from here, where every request must be another one.

    All clients send, then all wait for their replies, so that the server finds many of them ready at once; a reply's time
    counts until we have come to read it.

    Args:
        requests: makes them, encoded, for a mode.
        reset: makes again what they use up.
        commands: of each request, which belong together.
    """

    def __init__(
        self, requests: Callable[[Mode], list[bytes]], reset: Callable[[Server], object], commands: int = 1
    ) -> None:
        self.requests = cache(requests)
        self.reset = reset
        self._commands = commands

    def run(self, server: Server, mode: Mode, seconds: float) -> Sample:
        """Send it for about so many seconds."""
        requests, size = self.requests(mode), mode.pipeline
        batches = [b"".join(requests[at : at + size]) for at in range(0, len(requests), size)]
        turns = list(zip(*[iter(batches)] * mode.clients, strict=False))
        connections = [Connection(server.port) for _ in range(mode.clients)]
        total, until = Sample(), time.monotonic() + seconds
        while not total.requests or (total.seconds < seconds and time.monotonic() < until):
            self.reset(server)
            for turn in turns[:_WARM_UP]:
                self._take(turn, connections, size)
            lasted: list[float] = []
            before, begun = server.cpu_seconds(), time.perf_counter()
            for turn in turns[_WARM_UP:]:
                lasted += self._take(turn, connections, size)
                if time.perf_counter() - begun > seconds:
                    break
            took = time.perf_counter() - begun
            cpu = server.cpu_seconds() - before
            total = total.plus(Sample(len(lasted) * size, took, cpu, *percentiles(lasted)))
        for connection in connections:
            connection.close()
        return total

    def _take(self, turn: Sequence[bytes], connections: list[Connection], size: int) -> list[float]:
        """Send a pipeline by each connection and read all replies; return how long each pipeline took."""
        begun = []
        for connection, batch in zip(connections, turn, strict=True):
            begun.append(time.perf_counter())
            connection.socket.sendall(batch)
        lasted = []
        for connection, since in zip(connections, begun, strict=True):
            for _ in range(size * self._commands):
                connection.receive()
            lasted.append(time.perf_counter() - since)
        return lasted


Load = Benchmark | Own
