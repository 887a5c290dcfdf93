"""How long blocked readers sleep on after an XADD."""

from __future__ import annotations

import selectors
import time
from statistics import median
from typing import TYPE_CHECKING, Final

from loads import percentiles
from results import Figure
from servers import PROGRAMS, Connection, Server, encode
from workloads import FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterator

_READERS: Final = 100


def time_to_wake(rounds: int, turns: int) -> Iterator[Figure]:
    """One XADD wakes a hundred readers: until the median and the last of them has its entry, and at what cost."""
    found: dict[str, list[tuple[float, float, float]]] = {program: [] for program in PROGRAMS}
    for _ in range(rounds):
        for program in PROGRAMS:
            with Server(program) as server:
                found[program].append(_wake(server, turns))
    for at, (name, unit) in enumerate((("p50", "ms"), ("p99", "ms"), ("each", "CPU µs"))):
        servers = {program: median([each[at] for each in figures]) for program, figures in found.items()}
        yield Figure(f"{_READERS} blocked readers woken by XADD, {name}", unit, servers)


def _wake(server: Server, turns: int) -> tuple[float, float, float]:
    readers = [Connection(server.port) for _ in range(_READERS)]
    block = encode("XREAD", "BLOCK", "0", "STREAMS", "w", "$")
    add = encode("XADD", "w", "*", *FIELDS)
    lasted: list[float] = []
    cpu = 0.0
    with selectors.DefaultSelector() as selector:
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
            server.control.pipeline([b""])  # the reply to XADD
    for reader in readers:
        reader.close()
    return (*percentiles(lasted), cpu / turns / _READERS * 1e6)


def _blocked(server: Server) -> int:
    statistics = server.control.call("INFO", "clients")
    assert isinstance(statistics, bytes)
    return int(statistics.split(b"\r\nblocked_clients:", 1)[1].split(b"\r", 1)[0])
