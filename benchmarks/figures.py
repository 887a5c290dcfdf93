"""Single figures of `make bench`: memory of entries and connections, what idle clients cost, how soon readers wake."""

from __future__ import annotations

import json
import random
import selectors
import time
from contextlib import ExitStack
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Final

from loads import MANY, Benchmark, percentiles
from results import Figure
from servers import PROGRAMS, Connection, Server, alternate, encode, matches, open_files
from tables import size
from workloads import ADD, deliver_all, entries, entry_id

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    Found = dict[tuple[str, str], float]  # by name and unit

_FILES_BESIDE: Final = 200
_IDLE_SECONDS: Final = 4.0
# Seconds after the last entry at most: two rounds of storage/streams/cold_chunks
_PACKING_BEGINS: Final = 31.0
_READERS: Final = 100
_IDLE: Final = 10_000  # or as many as the system allows


def figures(asked: argparse.Namespace) -> Iterator[Figure]:
    """Measure what was asked for, on all servers in turn."""
    for title, (measure, rounds) in FIGURES.items():
        if not matches(title, asked.names):
            continue
        ways = {program: partial(measure, asked, program) for program in PROGRAMS}
        found = alternate(rounds or asked.rounds, ways)
        for name, unit in found[PROGRAMS[0]][0]:
            servers = {
                program: median(each[name, unit] for each in turns) for program, turns in found.items()
            }
            yield Figure(name, unit, servers)


def memory(asked: argparse.Namespace, program: str) -> Found:
    """Bytes per entry: the benchmark's own, JSON of 200 bytes, 40 random bytes; and per pending entry.

    Those of entries twice: as they were just written, and (it takes a while) once Rillet has packed all but the newest.
    """
    count, found = size(asked), {}
    empty: dict[str, int] = {}
    with ExitStack() as running:
        servers = {name: running.enter_context(Server(program)) for name in _ENTRIES}
        for name, server in servers.items():
            empty[name] = server.resident_bytes()
            server.control.feed(_ENTRIES[name](count))
            found[f"{name}, just written"] = (server.resident_bytes() - empty[name]) / count
        if not asked.quick:
            if program == "rillet":
                time.sleep(_PACKING_BEGINS)
            for name, server in servers.items():
                found[name] = (server.settled_bytes() - empty[name]) / count
    found["pending entry"] = _pending_entry(program, count)
    return {(f"memory per {name}, {count:,} of them", "bytes"): each for name, each in found.items()}


def _pending_entry(program: str, count: int) -> float:
    """What delivering all entries adds; they are not packed, so unpacking is not counted."""
    with Server(program, *(("--stream-compress-depth", "0") if program == "rillet" else ())) as server:
        server.control.feed(entries(count))
        full = server.settled_bytes()
        deliver_all(server, count)
        return (server.settled_bytes() - full) / count


def _json(count: int) -> Iterator[bytes]:
    chance = random.Random(1)
    for number in range(count):
        order = {
            "order": number,
            "customer": f"c-{chance.randrange(100_000):06}",
            "status": chance.choice(("created", "paid", "packed", "sent", "delivered")),
            "amount": chance.randrange(100, 100_000) / 100,
            "currency": "EUR",
            "shop": f"shop-{chance.randrange(100):03}",
        }
        text = json.dumps(order)
        yield encode("XADD", "s", entry_id(number), "event", f"{text:<200}"[:200])


def _random(count: int) -> Iterator[bytes]:
    chance = random.Random(2)
    return (encode("XADD", "s", entry_id(number), "f", chance.randbytes(40)) for number in range(count))


_ENTRIES: Final = {
    "entry, two short fields": entries,
    "entry, JSON of 200 bytes": _json,
    "entry, 40 random bytes": _random,
}


def idle_connections(asked: argparse.Namespace, program: str) -> Found:
    """What connections cost that do nothing: memory, time, and what they add to a PING of others."""
    count = open_files(_IDLE + _FILES_BESIDE) - _FILES_BESIDE
    with Server(program, "--maxclients", str(count + _FILES_BESIDE // 2)) as server:
        ping = Benchmark("PING")
        without = ping.run(server, MANY, asked.seconds).cost * 1e6
        before = server.settled_bytes()
        connections = [Connection(server.port) for _ in range(count)]
        for connection in connections:
            connection.call("PING")
        each = (server.settled_bytes() - before) / count
        used, begun = server.cpu_seconds(), time.monotonic()
        time.sleep(_IDLE_SECONDS)
        idle = (server.cpu_seconds() - used) / (time.monotonic() - begun) * 1000
        beside = ping.run(server, MANY, asked.seconds).cost * 1e6
        for connection in connections:
            connection.close()
    return {
        ("PING without idle connections", "CPU µs"): without,
        (f"memory per connection, {count:,} idle", "bytes"): each,
        (f"{count:,} idle connections", "CPU ms a second"): idle,
        (f"PING beside {count:,} idle connections", "CPU µs"): beside,
    }


def time_to_wake(asked: argparse.Namespace, program: str) -> Found:
    """One XADD wakes a hundred readers: until the median and the last of them has its entry, and at what cost."""
    turns = 5 if asked.quick else 50
    block = encode("XREAD", "BLOCK", "0", "STREAMS", "x", "$")
    add = encode(*ADD.split())
    lasted: list[float] = []
    cpu = 0.0
    with Server(program) as server, selectors.DefaultSelector() as selector:
        readers = [Connection(server.port) for _ in range(_READERS)]
        for reader in readers:
            selector.register(reader.socket, selectors.EVENT_READ)
        for _ in range(turns):
            for reader in readers:
                reader.socket.sendall(block)
            while _blocked(server) < _READERS:
                time.sleep(0.001)
            before = server.cpu_seconds()
            begun = time.perf_counter()
            server.control.socket.sendall(add)
            asleep = _READERS
            while asleep:
                for key, _ in selector.select():
                    assert key.fileobj.recv(1 << 16)  # type: ignore[union-attr]
                    lasted.append(time.perf_counter() - begun)
                    asleep -= 1
            cpu += server.cpu_seconds() - before
            server.control.receive()  # the reply to XADD
    p50, p99 = percentiles(lasted)
    woken = f"{_READERS} blocked readers woken by XADD"
    return {
        (f"{woken}, p50", "ms"): p50,
        (f"{woken}, p99", "ms"): p99,
        (f"{woken}, each", "CPU µs"): cpu / turns / _READERS * 1e6,
    }


def _blocked(server: Server) -> int:
    statistics = server.control.call("INFO", "clients")
    assert isinstance(statistics, bytes)
    return int(statistics.split(b"\r\nblocked_clients:", 1)[1].split(b"\r", 1)[0])


# And how many rounds, if not as many as of all else.
FIGURES: Final = {
    "memory per entry and pending entry": (memory, 1),
    "idle connections": (idle_connections, 1),
    "time to wake blocked readers": (time_to_wake, None),
}
