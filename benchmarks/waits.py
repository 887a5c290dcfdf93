"""How long clients wait for what others do: the longest wait of a PING, and the p99.9, for each operation.

    .venv/bin/python benchmarks/waits.py                 a million of everything: `make bench-waits`
    .venv/bin/python benchmarks/waits.py --quick         a hundred thousand
    .venv/bin/python benchmarks/waits.py del flushall    only operations whose names contain one of the words
    .venv/bin/python benchmarks/waits.py greedy          one client that sends without pause
    .venv/bin/python benchmarks/waits.py --programs rillet redis-server valkey-server

A process of its own sends a PING every millisecond while the operation lasts. A wait that is longer than that stands
for the PINGs that could not be sent during it as well, else one long pause would count as one slow request of many.
*Work* is the most processor time that the server used while one PING waited: a long wait with little work is the
machine's doing, not the server's; `in_process.py --profile` shows what the work is.
"""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import select
import ssl
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from loads import MANY, PIPED, Benchmark
from servers import LABELS, Connection, Server, cpu_seconds, encode, labelled, matches, pin, require, where
from tables import Table, options, size
from workloads import ADD, ENTRY, NEW, elements, entry_id, fill, fill_with_group, keys, pending

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from multiprocessing.connection import Connection as Pipe

_FORKS: Final = multiprocessing.get_context("fork")
_AT_MOST: Final = 20.0
_EVERY: Final = 0.001
_SECONDS: Final = 3.0  # of what has no end of its own
_CHUNK: Final = 1 << 18
_AOF: Final = ("--appendonly", "yes", "--auto-aof-rewrite-percentage", "0")


@dataclass(frozen=True)
class Operation:
    """What is done while the probe looks: `prepare` gets N, and so does `act`."""

    name: str
    prepare: Callable[[Server, int], object]
    act: Callable[[Server, int], object]
    flags: tuple[str, ...] = ()
    is_new: bool = False  # the other servers do not know it
    secure: bool = False


def _probe(port: int, pid: int, pipe: Pipe) -> None:
    """Send a PING each millisecond until something comes through the pipe; answer with what `measure` returns."""
    pin()
    connection = Connection(port)
    connection.call("PING")
    pipe.send(None)
    waits: list[float] = []
    work = 0.0
    while not pipe.poll():
        used = cpu_seconds(pid)
        before = time.perf_counter()
        connection.call("PING")
        wait = time.perf_counter() - before
        work = max(work, min(wait, cpu_seconds(pid) - used))
        while wait > 0:
            waits.append(wait * 1000)
            wait -= _EVERY
        time.sleep(_EVERY)
    waits.sort()
    pipe.send((waits[-1], waits[math.ceil(len(waits) * 0.999) - 1], work * 1000))


# What there is


def _group_of_two(server: Server, n: int) -> None:
    pending(server, n)
    server.control.call("XCLAIM", "s", "g", "d", 0, *map(entry_id, range(0, n, 100)))


def _expiring(server: Server, n: int) -> None:
    at = int(time.time() * 1000) + 1_000 + n // 20
    server.control.feed(encode("SET", f"key:{number}", "value", "PXAT", at) for number in range(n))


def _nothing(_server: Server, _n: int) -> None:
    pass


# What is done


def _call(line: str) -> Callable[[Server, int], object]:
    return lambda server, _: server.control.call(*line.split())


def _scattered(line: str) -> Callable[[Server, int], object]:
    """A command with the IDs of 10,000 entries from all over the stream."""
    return lambda server, n: server.control.call(
        *line.split(), 10_000, *map(entry_id, range(0, n, n // 10_000))
    )


def _reads(line: str, at_most: int = 10_000_000) -> Callable[[Server, int], object]:
    return lambda server, _: Benchmark(line, at_most=at_most).run(server, MANY, _SECONDS)


def _until_empty(server: Server, _n: int) -> None:
    """Wait until every key has expired, at most a minute."""
    until = time.monotonic() + 60
    while server.control.call("DBSIZE") and time.monotonic() < until:
        time.sleep(0.05)


def _expire_stream(server: Server, _n: int) -> None:
    server.control.call("PEXPIRE", "s", "100")
    time.sleep(1)  # until its time has come, and for what has to be done then


def _transaction(server: Server, _n: int) -> None:
    server.control.feed(
        [encode("MULTI"), *[encode("SET", f"key:{at}", "value") for at in range(50_000)], encode("EXEC")]
    )


def _background(command: str, field: bytes) -> Callable[[Server, int], None]:
    """A command that goes on in the background until INFO says that it is done."""

    def act(server: Server, _n: int) -> None:
        server.control.call(command)
        while field + b":0" not in bytes(server.control.call("INFO", "persistence")):  # type: ignore[call-overload]
            time.sleep(0.05)

    return act


def _send_without_pause(server: Server, *, request: bytes, reads: bool, secure: bool) -> None:
    pin()
    sock = Connection(server.load_port, secure=secure).socket
    sock.setblocking(False)
    view = memoryview(request * max(_CHUNK // len(request), 1))
    busy = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
    until, at = time.monotonic() + _SECONDS, 0
    while time.monotonic() < until:
        moved = False
        with contextlib.suppress(*busy):
            at = (at + sock.send(view[at : at + _CHUNK])) % len(view)
            moved = True
        if reads:
            with contextlib.suppress(*busy):
                moved = bool(sock.recv(1 << 20)) or moved
        if not moved:
            select.select([sock] if reads else [], [sock], [], 0.05)
    sock.close()


def _greedy(line: str) -> Iterator[Operation]:
    """One client sends a request without pause, reads the replies or does not, by TLS or without."""
    request = encode(*line.split())
    for reads, secure in ((True, False), (False, False), (True, True), (False, True)):
        send = partial(_send_without_pause, request=request, reads=reads, secure=secure)
        name = f"greedy {line.split(maxsplit=1)[0]}{', TLS' * secure}{', replies not read' * (not reads)}"
        yield Operation(
            name, lambda server, _: fill(server, 1000), partial(_in_a_process, send), secure=secure
        )


def _in_a_process(send: Callable[[Server], None], server: Server, _n: int) -> None:
    process = _FORKS.Process(target=send, args=(server,))
    process.start()
    process.join()


_newer: Final = partial(Operation, prepare=pending, is_new=True)
_HASH: Final = elements("HSET h", "f{} v{}")
_SORTED: Final = elements("ZADD z", "{} m{}")

OPERATIONS: Final = (
    Operation("nothing, for a second", _nothing, lambda _s, _n: time.sleep(1)),
    Operation(
        "N XADDs, 50 clients, pipeline 16", _nothing, lambda server, n: Benchmark(ADD).send(server, PIPED, n)
    ),
    Operation("XRANGE COUNT 100 by 50 clients", fill, _reads("XRANGE s - + COUNT 100")),
    Operation("XREADGROUP COUNT 100 by 50 clients", fill_with_group, _reads(NEW.format(100), at_most=1000)),
    Operation("XTRIM MAXLEN 1 of N entries", fill, _call("XTRIM s MAXLEN 1")),
    Operation(
        "XTRIM MINID at the last of N entries",
        fill,
        lambda server, n: server.control.call("XTRIM", "s", "MINID", entry_id(n - 1)),
    ),
    Operation("XINFO STREAM FULL of N entries", fill, _call("XINFO STREAM s FULL COUNT 0")),
    Operation("MEMORY USAGE of N entries", fill, _call("MEMORY USAGE s SAMPLES 0")),
    Operation("DEL of a stream of N", fill, _call("DEL s")),
    Operation("DEL of a stream with N pending", pending, _call("DEL s")),
    Operation("UNLINK of a stream with N pending", pending, _call("UNLINK s")),
    Operation("SET over a stream with N pending", pending, _call("SET s v")),
    Operation("expiry of a stream with N pending", pending, _expire_stream),
    Operation("XGROUP DESTROY with N pending", pending, _call("XGROUP DESTROY s g")),
    Operation("XGROUP DELCONSUMER with N pending", pending, _call("XGROUP DELCONSUMER s g c")),
    Operation(
        "XGROUP DELCONSUMER of one of two, with N pending", _group_of_two, _call("XGROUP DELCONSUMER s g c")
    ),
    _newer("XTRIM MAXLEN 1 DELREF with N pending", act=_call("XTRIM s MAXLEN 1 DELREF")),
    _newer("XTRIM MAXLEN 1 ACKED with N pending", act=_call("XTRIM s MAXLEN 1 ACKED")),
    _newer("XDELEX DELREF of 10,000, with N pending", act=_scattered("XDELEX s DELREF IDS")),
    _newer("XACKDEL DELREF of 10,000, with N pending", act=_scattered("XACKDEL s g DELREF IDS")),
    Operation("XAUTOCLAIM COUNT 1000 of N", pending, _call("XAUTOCLAIM s g d 0 0 COUNT 1000")),
    Operation("XPENDING IDLE, none of N", pending, _call("XPENDING s g IDLE 3600000 - + 10")),
    Operation("XRANGE of N entries", fill, _call("XRANGE s - +")),
    Operation("COPY of a stream of N", fill, _call("COPY s t")),
    Operation("DEL of a hash of N", _HASH, _call("DEL h")),
    Operation("UNLINK of a sorted set of N", _SORTED, _call("UNLINK z")),
    Operation("expiry of N keys at once", _expiring, _until_empty),
    Operation("FLUSHALL of N keys", keys, _call("FLUSHALL")),
    Operation("FLUSHALL of a stream with N pending", pending, _call("FLUSHALL")),
    Operation("KEYS over N keys", keys, _call("KEYS nothing*")),
    Operation("MULTI of 50,000 SETs", _nothing, _transaction),
    Operation(
        "BGREWRITEAOF with N pending", pending, _background("BGREWRITEAOF", b"aof_rewrite_in_progress"), _AOF
    ),
    Operation("BGSAVE with N pending", pending, _background("BGSAVE", b"rdb_bgsave_in_progress")),
    *_greedy("PING"),
    *_greedy(f"XADD x MAXLEN ~ 100000 * {ENTRY}"),
    *_greedy("XRANGE s - + COUNT 100"),
)


def main() -> None:
    """Print a table, and the operations for which Rillet does not answer for long."""
    parser = options(__doc__, "names", "--quick", "--entries")
    parser.add_argument("--programs", nargs="+", default=["rillet", "redis-server"], choices=list(LABELS))
    asked = parser.parse_args()
    n = size(asked)
    require(*asked.programs, "redis-benchmark")
    pin()
    print(f"{where()}; {', '.join(map(labelled, asked.programs))}; N is {n:,}; milliseconds.\n")
    heads = [f"{LABELS[name]} longest | p99.9 | work | lasts" for name in asked.programs]
    table = Table(f"operation | {' | '.join(heads)}")
    too_long = []
    for operation in OPERATIONS:
        if not matches(operation.name, asked.names):
            continue
        cells = []
        for program in asked.programs:
            if operation.is_new and program != "rillet":
                cells += ["-"] * 4
                continue
            longest, p999, work, lasted = measure(operation, program, n)
            cells += [f"{longest:.1f}", f"{p999:.1f}", f"{work:.1f}", f"{lasted:,.0f}"]
            if program == "rillet" and work > _AT_MOST:
                too_long.append(f"- {operation.name}: {work:.0f} ms")
        table.add(operation.name, *cells)
    print(f"\nThe server works for more than {_AT_MOST:g} ms without answering:")
    print("\n".join(too_long) or "nothing")


def measure(operation: Operation, program: str, n: int) -> tuple[float, float, float, float]:
    """Return milliseconds: a PING's longest wait, their p99.9, the most work during one, and those of the operation."""
    with Server(program, *operation.flags, secure=operation.secure) as server:
        operation.prepare(server, n)
        server.unpin()  # a child or thread may have the other core, as in life
        server.settled_bytes(at_most=5)
        here, there = multiprocessing.Pipe()
        probe = _FORKS.Process(target=_probe, args=(server.port, server.pid, there))
        probe.start()
        here.recv()
        time.sleep(0.05)
        begun = time.perf_counter()
        operation.act(server, n)
        lasted = (time.perf_counter() - begun) * 1000
        time.sleep(0.2)  # what comes afterwards belongs to it
        here.send(None)
        longest, p999, work = here.recv()
        probe.join()
        return longest, p999, work, lasted


if __name__ == "__main__":
    main()
