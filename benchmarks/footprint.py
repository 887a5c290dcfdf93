"""Memory: bytes per entry of several kinds, per pending entry, per idle connection."""

from __future__ import annotations

import json
import random
import resource
import time
from collections import defaultdict
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from loads import MANY, Benchmark
from results import Figure
from servers import PROGRAMS, Connection, Server, encode
from workloads import deliver_all, entries, entry_id

if TYPE_CHECKING:
    from collections.abc import Iterator

_FILES_BESIDE: Final = 200
_IDLE_SECONDS: Final = 4.0
# Seconds after the last entry at most: two rounds of storage/streams/cold_chunks
_PACKING_BEGINS: Final = 31.0


def memory(count: int, *, packed: bool) -> Iterator[Figure]:
    """Bytes per entry: the benchmark's own, JSON of 200 bytes, 40 random bytes; and per pending entry.

    Those of entries twice: as they were just written, and (``packed``; it takes a while) once Rillet has packed all but
    the newest.
    """
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for program in PROGRAMS:
        empty: dict[str, int] = {}
        with ExitStack() as running:
            servers = {name: running.enter_context(Server(program)) for name in _ENTRIES}
            for name, server in servers.items():
                empty[name] = server.resident_bytes()
                server.control.feed(_ENTRIES[name](count))
                written = server.resident_bytes() - empty[name]
                found[f"{name}, just written"][program] = written / count
            if packed:
                if program == "rillet":
                    time.sleep(_PACKING_BEGINS)
                for name, server in servers.items():
                    found[name][program] = (server.settled_bytes() - empty[name]) / count
        found["pending entry"][program] = _pending_entry(program, count)
    for name, servers in found.items():
        yield Figure(f"memory per {name}, {count:,} of them", "bytes", servers)


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


def idle_connections(wanted: int, seconds: float) -> Iterator[Figure]:
    """What connections cost that do nothing: memory, time, and what they add to a PING of others."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted + _FILES_BESIDE:
        print(f"\n(Only {hard} files may be open here: {hard - _FILES_BESIDE:,} idle connections.)")
        wanted = hard - _FILES_BESIDE
    # The server inherits the limit.
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted + _FILES_BESIDE), hard))
    found: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for program in PROGRAMS:
        with Server(program, "--maxclients", str(wanted + _FILES_BESIDE // 2)) as server:
            ping = Benchmark("PING")
            found["PING without idle connections", "CPU µs"][program] = (
                ping.run(server, MANY, seconds).cost * 1e6
            )
            before = server.settled_bytes()
            connections = [Connection(server.port) for _ in range(wanted)]
            for connection in connections:
                connection.call("PING")
            size = (server.settled_bytes() - before) / wanted
            found[f"memory per connection, {wanted:,} idle", "bytes"][program] = size
            used, begun = server.cpu_seconds(), time.monotonic()
            time.sleep(_IDLE_SECONDS)
            idle = (server.cpu_seconds() - used) / (time.monotonic() - begun) * 1000
            found[f"{wanted:,} idle connections", "CPU ms a second"][program] = idle
            beside = ping.run(server, MANY, seconds).cost * 1e6
            found[f"PING beside {wanted:,} idle connections", "CPU µs"][program] = beside
            for connection in connections:
                connection.close()
    for (name, unit), servers in found.items():
        yield Figure(name, unit, servers)
