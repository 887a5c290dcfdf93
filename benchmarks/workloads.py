"""What is measured: for each workload how to prepare the data, and how to send the load."""

from __future__ import annotations

import csv
import os
import subprocess
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from servers import LOAD_CORE, Connection, Server, binary, encode, pin

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator

# 42 bytes of names and values in an entry.
FIELDS: Final = ("sensor", "kitchen-east-07", "reading", "21.500000 C   ")
ENTRIES: Final = 100_000
_FIRST_MS: Final = 1_700_000_000_000


@dataclass(frozen=True)
class Mode:
    """How the load arrives."""

    name: str
    clients: int
    pipeline: int


MODES: Final = (Mode("1 client", 1, 1), Mode("50 clients", 50, 1), Mode("50 clients, pipeline 16", 50, 16))


@dataclass(frozen=True)
class Sample:
    """One run: how many requests, in what time, for what processor time of the server."""

    requests: int
    seconds: float
    cpu: float


@dataclass(frozen=True)
class Workload:
    """One line of the table.

    Attributes:
        prepare: fills an empty server with what the workload needs.
        run: sends load for about so many seconds.
        floor, goal: of the ratio (DESIGN.md 6), by mode name.
    """

    name: str
    prepare: Callable[[Server], None]
    run: Callable[[Server, Mode, float], Sample]
    floors: dict[str, float] = field(default_factory=dict)
    modes: tuple[Mode, ...] = MODES
    aof: bool = False


def entry_id(number: int) -> bytes:
    """The ID of the n-th entry of the prepared stream; all are of the same length."""
    return b"%d-0" % (_FIRST_MS + number)


def nothing(server: Server) -> None:
    """An empty server."""
    server.control.call("FLUSHALL")


def filled(server: Server, entries: int = ENTRIES) -> None:
    """One stream `s` of many entries; it may be there already."""
    if server.control.call("XLEN", "s") == entries:
        return
    nothing(server)
    server.control.pipeline([encode("XADD", "s", entry_id(number), *FIELDS) for number in range(entries)])


def delivered(server: Server) -> None:
    """The stream, and a group `g` whose consumer `c` has all of it pending."""
    filled(server)
    deliver_all(server)


def deliver_all(server: Server, entries: int = ENTRIES) -> None:
    """Make the group anew with everything pending."""
    server.control.call("XGROUP", "DESTROY", "s", "g")
    server.control.call("XGROUP", "CREATE", "s", "g", "0")
    read = encode("XREADGROUP", "GROUP", "g", "c", "COUNT", "100", "STREAMS", "s", ">")
    server.control.pipeline([read] * (entries // 100), at_once=20)


# redis-benchmark


def benchmark(
    *words: str, before: tuple[tuple[str, ...], ...] = (), at_most: int = 10_000_000
) -> Callable[[Server, Mode, float], Sample]:
    """Load from redis-benchmark: one command line again and again.

    `before` are commands sent ahead of each run, `at_most` is how many requests the data is good for.
    """

    def run(server: Server, mode: Mode, seconds: float) -> Sample:
        rate = _rates.get((server.pid, words, mode))
        if rate is None:
            for line in before:
                server.control.call(*line)
            first = _redis_benchmark(server, mode, min(at_most, 400 * mode.pipeline), words)
            rate = _rates[server.pid, words, mode] = first.requests / first.seconds
        requests = max(int(rate * seconds), 100)
        total = Sample(0, 0.0, 0.0)
        # A short supply of data is used up and made anew until there was enough.
        while total.requests < requests * 0.9:
            for line in before:
                server.control.call(*line)
            part = _redis_benchmark(server, mode, min(at_most, requests - total.requests), words)
            total = Sample(total.requests + part.requests, total.seconds + part.seconds, total.cpu + part.cpu)
        return total

    return run


_rates: dict[tuple[int, tuple[str, ...], Mode], float] = {}


def _redis_benchmark(server: Server, mode: Mode, requests: int, words: tuple[str, ...]) -> Sample:
    """One run; the processor time of connecting so many clients (and of one PING each) is taken out."""
    cost = _connecting.get((server.pid, mode.clients))
    if cost is None:
        bare = Mode(mode.name, mode.clients, 1)
        cost = min(_run_redis_benchmark(server, bare, mode.clients, ("PING",)).cpu for _ in range(3))
        _connecting[server.pid, mode.clients] = cost
    run = _run_redis_benchmark(server, mode, requests, words)
    return Sample(run.requests, run.seconds, max(run.cpu - cost, 0.0))


_connecting: dict[tuple[int, int], float] = {}


def _run_redis_benchmark(server: Server, mode: Mode, requests: int, words: tuple[str, ...]) -> Sample:
    program = binary("redis-benchmark")
    assert program is not None
    requests = max(requests // mode.pipeline, 1) * mode.pipeline
    flags = [
        "-h",
        "127.0.0.1",
        "-p",
        server.port,
        "-c",
        mode.clients,
        "-P",
        mode.pipeline,
        "-n",
        requests,
        "--csv",
    ]
    before = server.cpu_seconds()
    done = subprocess.run(
        [program, *map(str, flags), *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        preexec_fn=lambda: pin(LOAD_CORE),
    )
    cpu = server.cpu_seconds() - before
    lines = list(csv.reader(done.stdout.splitlines()))
    if done.returncode or len(lines) < 2:
        raise SystemExit(f"redis-benchmark failed at {server.program}: {done.stdout}{done.stderr}")
    return Sample(requests, requests / float(lines[-1][1]), cpu)


# Our own load, where every request must be another one


def own(
    requests: Callable[[], list[bytes]], reset: Callable[[Server], None]
) -> Callable[[Server, Mode, float], Sample]:
    """Load from here: encoded requests whose replies are all of one length.

    All clients send, then all wait for their replies, so that the server finds many of them ready at once.
    """

    encoded: list[bytes] = []

    def run(server: Server, mode: Mode, seconds: float) -> Sample:
        total = Sample(0, 0.0, 0.0)
        encoded.extend(requests() if not encoded else ())
        connections = [Connection(server.port) for _ in range(mode.clients)]
        sockets = [connection.socket for connection in connections]
        until = time.monotonic() + seconds
        while not total.requests or (total.cpu < seconds / 2 and time.monotonic() < until):
            reset(server)
            sockets[0].sendall(encoded[0])
            size = len(sockets[0].recv(1 << 20))
            before = server.cpu_seconds()
            begun = time.perf_counter()
            sent = _lock_step(sockets, encoded, 1, mode.pipeline, size)
            lasted = time.perf_counter() - begun
            cpu = server.cpu_seconds() - before
            total = Sample(total.requests + sent, total.seconds + lasted, total.cpu + cpu)
        for connection in connections:
            connection.close()
        return total

    return run


def _lock_step(
    sockets: list[socket.socket], requests: list[bytes], at: int, pipeline: int, reply_size: int
) -> int:
    begin = at
    while at + pipeline * len(sockets) <= len(requests):
        for sock in sockets:
            sock.sendall(b"".join(requests[at : at + pipeline]))
            at += pipeline
        for sock in sockets:
            left = reply_size * pipeline
            while left > 0:
                left -= len(sock.recv(min(left, 1 << 20)))
    return at - begin


def acknowledge(count: int) -> Callable[[Server, Mode, float], Sample]:
    """XACK of `count` neighbours at a time, until nothing is pending."""

    def requests() -> list[bytes]:
        return [
            encode("XACK", "s", "g", *map(entry_id, range(start, start + count)))
            for start in range(0, min(ENTRIES, count * 20_000), count)
        ]

    return own(requests, deliver_all)


def claim(count: int, stride: int = 1) -> Callable[[Server, Mode, float], Sample]:
    """XCLAIM of `count` entries at a time; the consumers take turns."""

    def requests() -> list[bytes]:
        return [encode("XCLAIM", "s", "g", name, "0", *ids) for name, ids in _claims(count, stride)]

    return own(requests, lambda _: None)


def _claims(count: int, stride: int) -> Iterator[tuple[str, list[bytes]]]:
    span = count * stride
    for turn in range(min(20_000, ENTRIES // count)):
        start = (turn * count) % (ENTRIES - span)
        yield f"d{turn % 2}", [entry_id(start + at * stride) for at in range(count)]


_GROUP_ANEW: Final = (("XGROUP", "DESTROY", "s", "g"), ("XGROUP", "CREATE", "s", "g", "0"))


def _read_group(count: int) -> Callable[[Server, Mode, float], Sample]:
    words = ("XREADGROUP", "GROUP", "g", "c", "COUNT", str(count), "STREAMS", "s", ">")
    return benchmark(*words, before=_GROUP_ANEW, at_most=ENTRIES // count)


def _floors(one: float, many: float, piped: float | None = None) -> dict[str, float]:
    values = (one, many, many if piped is None else piped)
    return {mode.name: value for mode, value in zip(MODES, values, strict=True)}


_ADD: Final = benchmark("XADD", "x", "*", *FIELDS, before=(("DEL", "x"),))

WORKLOADS: Final = (
    Workload("PING", nothing, benchmark("PING"), _floors(0.9, 0.8, 0.0)),
    Workload("SET", nothing, benchmark("SET", "key", "value:0123456789"), _floors(0.9, 0.8, 0.0)),
    Workload("XADD", nothing, _ADD, _floors(0.9, 0.8, 0.45)),
    Workload("XRANGE COUNT 100", filled, benchmark("XRANGE", "s", "-", "+", "COUNT", "100"), _floors(0.9, 2)),
    Workload(
        "XRANGE COUNT 1000", filled, benchmark("XRANGE", "s", "-", "+", "COUNT", "1000"), _floors(0.9, 4)
    ),
    Workload("XREADGROUP COUNT 1", filled, _read_group(1), _floors(0.9, 0.8, 0.0)),
    Workload("XREADGROUP COUNT 10", filled, _read_group(10), _floors(0.9, 1.1)),
    Workload("XREADGROUP COUNT 100", filled, _read_group(100), _floors(0.9, 1.5)),
    Workload("XACK of 1", delivered, acknowledge(1), _floors(0.9, 0.8, 0.0)),
    Workload("XACK of 10", delivered, acknowledge(10), _floors(0.9, 0.8, 0.0)),
    Workload("XACK of 100", delivered, acknowledge(100), _floors(0.9, 0.8, 0.0)),
    Workload("XCLAIM of 10", delivered, claim(10), _floors(0.9, 2.5)),
    Workload("XCLAIM of 10, scattered", delivered, claim(10, 97)),
    Workload("XCLAIM of 100", delivered, claim(100), _floors(0.9, 4)),
    Workload("XADD, AOF everysec", nothing, _ADD, _floors(0.85, 0.85, 0.0), aof=True),
)


def cores() -> str:
    """For the head of the table."""
    return f"{os.cpu_count()} cores, server on core 0, load on core 1"
