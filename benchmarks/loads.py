"""How load is sent: by redis-benchmark, or from here where every request must be another one."""

from __future__ import annotations

import csv
import subprocess
import time
from dataclasses import dataclass
from itertools import cycle
from statistics import quantiles
from typing import TYPE_CHECKING, Final, TypeAlias

from hiredis import Reader
from servers import LOAD_CORE, Connection, Server, binary, pin

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    Run: TypeAlias = Callable[[Server, "Mode", float], "Sample"]


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

    requests: int
    seconds: float
    cpu: float
    user: float
    p50: float
    p99: float

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


_NONE: Final = Sample(0, 0.0, 0.0, 0.0, 0.0, 0.0)


def by_turns(
    run: Run, servers: list[Server], mode: Mode, rounds: int, seconds: float
) -> dict[str, list[Sample]]:
    """Run a load on all servers in each round, every other round in reverse; samples by the server's program."""
    samples: dict[str, list[Sample]] = {server.program: [] for server in servers}
    for turn in range(rounds):
        for server in servers if turn % 2 == 0 else reversed(servers):
            samples[server.program].append(run(server, mode, seconds))
    return samples


def percentiles(seconds: list[float]) -> tuple[float, float]:
    """p50 and p99 in milliseconds."""
    cuts = quantiles(seconds, n=100, method="inclusive") if len(seconds) > 1 else seconds * 99
    return cuts[49] * 1000, cuts[98] * 1000


def benchmark(
    *words: str,
    before: tuple[tuple[str, ...], ...] = (),
    at_most: int = 10_000_000,
    keys: int = 0,
    value: bytes | None = None,
) -> Run:
    """Load from redis-benchmark: one command line again and again.

    `before` are commands sent ahead of each run, `at_most` is how many requests the data is good for, `keys` how many
    values `__rand_int__` takes, `value` the last argument where it is too long for a command line.
    """
    rates: dict[tuple[int, Mode], float] = {}
    bench = _RedisBenchmark(words, keys, value)

    def run(server: Server, mode: Mode, seconds: float) -> Sample:
        def part(requests: int) -> Sample:
            for line in before:
                server.control.call(*line)
            return bench.run(server, mode, requests)

        rate = rates.get((server.pid, mode))
        if rate is None:
            few = min(at_most, 400 * mode.pipeline if value is None else 100)
            # Rillet imports a family of commands at its first one, which says nothing about its rate.
            part(few)
            first = part(few)
            rate = rates[server.pid, mode] = first.requests / first.seconds
        requests = max(int(rate * seconds), 2 * mode.clients * mode.pipeline)
        total = _NONE
        # A short supply of data is used up and made again until there was enough.
        while total.requests < requests * 0.9:
            total = total.plus(part(min(at_most, requests - total.requests)))
        return total

    return run


class _RedisBenchmark:
    """One command line of redis-benchmark."""

    def __init__(self, words: tuple[str, ...], keys: int = 0, value: bytes | None = None) -> None:
        self._words = words if value is None else ("-x", *words)
        self._keys = keys
        self._value = value

    def run(self, server: Server, mode: Mode, requests: int) -> Sample:
        """One run; the processor time of connecting so many clients (and of one PING each) is taken out."""
        cost = _connecting.get((server.pid, mode.clients))
        if cost is None:
            bare = Mode(mode.name, mode.clients, 1)
            ping = _RedisBenchmark(("PING",))
            pings = [ping.start(server, bare, mode.clients) for _ in range(3)]
            cost = min(each.cpu for each in pings), min(each.user for each in pings)
            _connecting[server.pid, mode.clients] = cost
        run = self.start(server, mode, requests)
        cpu, user = max(run.cpu - cost[0], 0.0), max(run.user - cost[1], 0.0)
        return Sample(run.requests, run.seconds, cpu, user, run.p50, run.p99)

    def start(self, server: Server, mode: Mode, requests: int) -> Sample:
        """One run as it is."""
        program = binary("redis-benchmark")
        assert program is not None
        requests = max(requests // mode.pipeline, 1) * mode.pipeline
        flags = f"-h 127.0.0.1 -p {server.load_port} -c {mode.clients} -P {mode.pipeline} -n {requests} --csv".split()
        flags += ["--tls", "--insecure"] if server.load_port != server.port else []
        flags += ["-r", str(self._keys)] if self._keys else []
        before, user = server.cpu_seconds(), server.user_seconds()
        done = subprocess.run(
            [program, *flags, *self._words],
            input=self._value or b"",
            capture_output=True,
            timeout=120,
            check=False,
            preexec_fn=lambda: pin(LOAD_CORE),
        )
        cpu = server.cpu_seconds() - before
        lines = list(csv.reader(done.stdout.decode(errors="replace").splitlines()))
        if done.returncode or len(lines) < 2:
            raise SystemExit(f"redis-benchmark failed at {server.program}: {done.stdout!r}{done.stderr!r}")
        # "test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms",…
        _, rate, _, _, p50, _, p99, *_ = lines[-1]
        user = server.user_seconds() - user
        return Sample(requests, requests / float(rate), cpu, user, float(p50), float(p99))


_connecting: dict[tuple[int, int], tuple[float, float]] = {}


def own(requests: Callable[[Mode], list[bytes]], reset: Callable[[Server], object], *, steps: int = 1) -> Run:
    """Load from here: encoded requests whose replies are all of one length.

    With ``steps`` each client goes through so many requests again and again, and the replies of one step are of one
    length. A request may be several commands that belong together. All clients send, then all wait for their replies, so that
    the server finds many of them ready at once; a reply's time counts until we have come to read it.
    """
    encoded: dict[Mode, list[bytes]] = {}

    def run(server: Server, mode: Mode, seconds: float) -> Sample:
        if mode not in encoded:
            encoded[mode] = requests(mode)
        total = _NONE
        connections = [Connection(server.port) for _ in range(mode.clients)]
        sockets = [connection.socket for connection in connections]
        until = time.monotonic() + seconds
        while not total.requests or (total.seconds < seconds and time.monotonic() < until):
            reset(server)
            firsts = encoded[mode][: steps * mode.clients : mode.clients]
            sizes = [_reply_size(sockets[0], request) for request in firsts]
            total = total.plus(_lock_step(server, sockets, encoded[mode], mode.pipeline, sizes, seconds))
        for connection in connections:
            connection.close()
        return total

    return run


def beside(others: int, run: Run) -> Run:
    """The same load while so many other clients are connected that send nothing."""

    def run_beside(server: Server, mode: Mode, seconds: float) -> Sample:
        connections = [Connection(server.port) for _ in range(others)]
        try:
            return run(server, mode, seconds)
        finally:
            for connection in connections:
                connection.close()

    return run_beside


def while_others_connect(run: Run) -> Run:
    """The same load while ten others connect, send a PING and leave, without pause; the server's time has both in it."""

    def run_beside(server: Server, mode: Mode, seconds: float) -> Sample:
        program = binary("redis-benchmark")
        assert program is not None
        flags = f"-h 127.0.0.1 -p {server.port} -c 10 -k 0 -n 1000000000 -q PING".split()
        # On the core of the load, where this process is.
        others = subprocess.Popen([program, *flags], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            return run(server, mode, seconds)
        finally:
            others.kill()
            others.wait()

    return run_beside


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
