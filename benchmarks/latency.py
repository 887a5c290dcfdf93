"""How long clients are held up by what others do: the longest wait of a PING, and the p99.9, for each operation.

    .venv/bin/python benchmarks/latency.py                 a million of everything
    .venv/bin/python benchmarks/latency.py --quick         a hundred thousand
    .venv/bin/python benchmarks/latency.py del flushall    only operations whose names contain one of the words
    .venv/bin/python benchmarks/latency.py --programs rillet redis-server valkey-server

A process of its own sends a PING every millisecond while the operation lasts. A wait that is longer than that stands
for the PINGs that could not be sent meanwhile as well, else one long pause would count as one slow request of many.
*Work* is the most processor time that the server used while one PING waited: a long wait with little work is the
machine's doing, not the server's.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from loads import MANY, PIPED, benchmark
from servers import (
    LABELS,
    LOAD_CORE,
    Connection,
    Server,
    cpu_seconds,
    encode,
    machine,
    pin,
    require,
    versions,
)
from workloads import FIELDS, deliver_all, entries, entry_id

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection as Pipe

_AT_MOST: Final = 20.0
_EVERY: Final = 0.001
_AOF: Final = ("--appendonly", "yes", "--auto-aof-rewrite-percentage", "0")


@dataclass(frozen=True)
class Operation:
    """What is done while the probe looks: `prepare` gets N, and so does `act`."""

    name: str
    prepare: Callable[[Server, int], object]
    act: Callable[[Server, int], object]
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Waits:
    """What a probe has found, in milliseconds."""

    longest: float
    p999: float
    work: float


class Probe:
    """Sends PINGs from another process; `stop` tells how long they took."""

    def __init__(self, server: Server) -> None:
        self._here, there = multiprocessing.Pipe()
        self._process = multiprocessing.get_context("fork").Process(
            target=_probe, args=(server.port, server.pid, there)
        )
        self._process.start()
        self._here.recv()

    def stop(self) -> Waits:
        """End, and tell."""
        self._here.send(None)
        found = self._here.recv()
        self._process.join()
        assert isinstance(found, Waits)
        return found


def _probe(port: int, pid: int, pipe: Pipe) -> None:
    pin(LOAD_CORE)
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
    pipe.send(Waits(waits[-1], waits[math.ceil(len(waits) * 0.999) - 1], work * 1000))


# What there is


def _stream(server: Server, n: int) -> None:
    server.control.feed(entries(n))


def _group(server: Server, n: int) -> None:
    _stream(server, n)
    deliver_all(server, n)


def _keys(server: Server, n: int) -> None:
    server.control.feed(encode("SET", f"key:{at}", "value") for at in range(n))


def _streams(server: Server, n: int) -> None:
    server.control.feed(encode("XADD", f"s:{at}", "*", *FIELDS) for at in range(n))


def _expiring(server: Server, n: int) -> None:
    at = int(time.time() * 1000) + 1_000 + n // 20
    server.control.feed(encode("SET", f"key:{number}", "value", "PXAT", at) for number in range(n))


def _elements(*words: str, each: str) -> Callable[[Server, int], None]:
    def prepare(server: Server, n: int) -> None:
        server.control.feed(
            (
                encode(*words, *" ".join(each.format(at) for at in range(start, start + 100)).split())
                for start in range(0, n, 100)
            ),
            50,
        )

    return prepare


def _nothing(_server: Server, _n: int) -> None:
    pass


# What is done


def _call(*words: object) -> Callable[[Server, int], object]:
    return lambda server, _: server.control.call(*words)


def _at_the_last(*words: object) -> Callable[[Server, int], object]:
    return lambda server, n: server.control.call(*words, entry_id(n - 1))


def _load(mode: object, *words: str) -> Callable[[Server, int], object]:
    """N requests of redis-benchmark."""
    run = benchmark(*words)

    def act(server: Server, n: int) -> None:
        rest = n
        while rest > 0:
            rest -= run(server, mode, 1.0).requests  # type: ignore[arg-type]

    return act


def _read(server: Server, _n: int) -> None:
    benchmark("XRANGE", "s", "-", "+", "COUNT", "100")(server, MANY, 3.0)


def _read_group(server: Server, n: int) -> None:
    server.control.call("XGROUP", "CREATE", "s", "g", "0")
    words = ("XREADGROUP", "GROUP", "g", "c", "COUNT", "100", "STREAMS", "s", ">")
    benchmark(*words, at_most=n // 100)(server, MANY, 3.0)


def _until_empty(server: Server, _n: int) -> None:
    """Wait until every key has expired, at most a minute."""
    until = time.monotonic() + 60
    while server.control.call("DBSIZE") and time.monotonic() < until:
        time.sleep(0.05)


def _expire_stream(server: Server, _n: int) -> None:
    server.control.call("PEXPIRE", "s", "100")
    time.sleep(1)


def _background(*words: str, field: bytes) -> Callable[[Server, int], None]:
    """A command that goes on in the background until INFO says that it is done."""

    def act(server: Server, _n: int) -> None:
        server.control.call(*words)
        while field + b":0" not in bytes(server.control.call("INFO", "persistence")):  # type: ignore[call-overload]
            time.sleep(0.05)

    return act


_HASH: Final = _elements("HSET", "h", each="f{0} v{0}")
_SORTED: Final = _elements("ZADD", "z", each="{0} m{0}")

OPERATIONS: Final = (
    Operation("nothing, for a second", _nothing, lambda _s, _n: time.sleep(1)),
    Operation("N XADDs, 50 clients, pipeline 16", _nothing, _load(PIPED, "XADD", "x", "*", *FIELDS)),
    Operation(
        "N XADDs MAXLEN ~ 1000, 50 clients, pipeline 16",
        _nothing,
        _load(PIPED, "XADD", "x", "MAXLEN", "~", "1000", "*", *FIELDS),
    ),
    Operation("XRANGE COUNT 100 by 50 clients", _stream, _read),
    Operation("XREADGROUP COUNT 100 by 50 clients", _stream, _read_group),
    Operation("XTRIM MAXLEN 0 of N entries", _stream, _call("XTRIM", "s", "MAXLEN", "0")),
    Operation(
        "XTRIM MAXLEN ~ 0 of N entries", _stream, _call("XTRIM", "s", "MAXLEN", "~", "0", "LIMIT", "0")
    ),
    Operation("XTRIM MAXLEN 1 of N entries", _stream, _call("XTRIM", "s", "MAXLEN", "1")),
    Operation("XTRIM MINID at the last of N entries", _stream, _at_the_last("XTRIM", "s", "MINID")),
    Operation("XDEL of the last of N entries", _stream, _at_the_last("XDEL", "s")),
    Operation("XINFO STREAM of N entries", _stream, _call("XINFO", "STREAM", "s")),
    Operation("MEMORY USAGE of N entries", _stream, _call("MEMORY", "USAGE", "s", "SAMPLES", "0")),
    Operation("XADD MAXLEN 1 on N entries", _stream, _call("XADD", "s", "MAXLEN", "1", "*", "f", "v")),
    Operation("DEL of a stream of N", _stream, _call("DEL", "s")),
    Operation("UNLINK of a stream of N", _stream, _call("UNLINK", "s")),
    Operation("DEL of a stream with N pending", _group, _call("DEL", "s")),
    Operation("UNLINK of a stream with N pending", _group, _call("UNLINK", "s")),
    Operation("SET over a stream with N pending", _group, _call("SET", "s", "v")),
    Operation("expiry of a stream with N pending", _group, _expire_stream),
    Operation("XGROUP DESTROY with N pending", _group, _call("XGROUP", "DESTROY", "s", "g")),
    Operation("XGROUP DELCONSUMER with N pending", _group, _call("XGROUP", "DELCONSUMER", "s", "g", "c")),
    Operation("XGROUP SETID with N pending", _group, _call("XGROUP", "SETID", "s", "g", "0")),
    Operation("XAUTOCLAIM COUNT 1000 of N", _group, _call("XAUTOCLAIM", "s", "g", "d", 0, 0, "COUNT", 1000)),
    Operation(
        "XPENDING IDLE, none of N", _group, _call("XPENDING", "s", "g", "IDLE", 3_600_000, "-", "+", 10)
    ),
    Operation("XRANGE of N entries", _stream, _call("XRANGE", "s", "-", "+")),
    Operation("COPY of a stream of N", _stream, _call("COPY", "s", "t")),
    Operation("DEL of a hash of N", _HASH, _call("DEL", "h")),
    Operation("UNLINK of a hash of N", _HASH, _call("UNLINK", "h")),
    Operation("UNLINK of a sorted set of N", _SORTED, _call("UNLINK", "z")),
    Operation("expiry of N keys at once", _expiring, _until_empty),
    Operation("FLUSHALL of N keys", _keys, _call("FLUSHALL")),
    Operation("FLUSHALL ASYNC of N keys", _keys, _call("FLUSHALL", "ASYNC")),
    Operation("FLUSHALL of N streams", _streams, _call("FLUSHALL")),
    Operation("FLUSHALL of a stream with N pending", _group, _call("FLUSHALL")),
    Operation("KEYS over N keys", _keys, _call("KEYS", "nothing*")),
    Operation(
        "BGREWRITEAOF with N pending",
        _group,
        _background("BGREWRITEAOF", field=b"aof_rewrite_in_progress"),
        _AOF,
    ),
    Operation("BGSAVE with N pending", _group, _background("BGSAVE", field=b"rdb_bgsave_in_progress")),
)


def main() -> int:
    """Print a table; 1 if Rillet holds clients up for longer than it may and --strict was given."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("names", nargs="*", help="only operations whose names contain one of these")
    parser.add_argument("--quick", action="store_true", help="N is a hundred thousand")
    parser.add_argument("--n", type=int, help="N (1,000,000)")
    parser.add_argument("--programs", nargs="+", default=["rillet", "redis-server"], choices=list(LABELS))
    parser.add_argument("--strict", action="store_true", help="exit with 1 if there is a pause of over 20 ms")
    asked = parser.parse_args()
    n = asked.n or (100_000 if asked.quick else 1_000_000)
    require(*asked.programs, "redis-benchmark")
    pin(LOAD_CORE)
    print(f"{time.strftime('%Y-%m-%d')}; {versions()}; {machine()}; N is {n:,}; milliseconds.\n")
    print(
        "| operation | "
        + " | ".join(f"{LABELS[name]} longest | p99.9 | work | lasts" for name in asked.programs)
        + " |"
    )
    print("| --- |" + " ---: |" * 4 * len(asked.programs))
    too_long = []
    for operation in OPERATIONS:
        if asked.names and not any(name.lower() in operation.name.lower() for name in asked.names):
            continue
        cells = []
        for program in asked.programs:
            waits, lasted = measure(operation, program, n)
            cells += [f"{waits.longest:.1f}", f"{waits.p999:.1f}", f"{waits.work:.1f}", f"{lasted:,.0f}"]
            if program == "rillet" and waits.work > _AT_MOST:
                too_long.append(f"- {operation.name}: {waits.work:.0f} ms")
        print(f"| {operation.name} | " + " | ".join(cells) + " |", flush=True)
    print(
        "\n".join(
            [
                f"\nThe server works for more than {_AT_MOST:g} ms without answering:",
                *(too_long or ["nothing"]),
            ]
        )
    )
    return 1 if too_long and asked.strict else 0


def measure(operation: Operation, program: str, n: int) -> tuple[Waits, float]:
    """How long PINGs waited, and how long the operation took in milliseconds."""
    with Server(program, *operation.flags) as server:
        operation.prepare(server, n)
        server.unpin()  # a child or thread may have the other core, as in life
        server.settled_bytes(at_most=5)
        probe = Probe(server)
        time.sleep(0.05)
        begun = time.perf_counter()
        operation.act(server, n)
        lasted = (time.perf_counter() - begun) * 1000
        time.sleep(0.2)  # what comes afterwards belongs to it
        return probe.stop(), lasted


if __name__ == "__main__":
    sys.exit(main())
