"""Searches for idle entries among very many pending ones."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from results import Figure
from servers import PROGRAMS, Server
from workloads import deliver_all, filled

if TYPE_CHECKING:
    from collections.abc import Iterator

_SEARCHES: Final = (
    ("XPENDING IDLE, none idle", ("XPENDING", "s", "g", "IDLE", "3600000", "-", "+", "10"), 100),
    ("XAUTOCLAIM COUNT 100, none idle", ("XAUTOCLAIM", "s", "g", "d", "3600000", "0", "COUNT", "100"), 0),
)
_SECONDS: Final = 0.3


def idle_searches(count: int) -> Iterator[Figure]:
    """Processor time of a search that finds nothing."""
    found: dict[str, list[float]] = {}
    for program in PROGRAMS:
        with Server(program) as server:
            filled(server, count)
            deliver_all(server, count)
            found[program] = [_cpu_of(server, words) for _, words, _ in _SEARCHES]
    for at, (name, _, floor) in enumerate(_SEARCHES):
        servers = {program: costs[at] for program, costs in found.items()}
        yield Figure(f"{name} of {count:,}", "CPU µs", servers, floor=floor)


def _cpu_of(server: Server, words: tuple[str, ...]) -> float:
    """Microseconds of processor time that a command takes."""
    calls = 0
    before = server.cpu_seconds()
    until = time.monotonic() + _SECONDS
    while calls < 5 or time.monotonic() < until:
        server.control.call(*words)
        calls += 1
    return max(server.cpu_seconds() - before, 1e-6) / calls * 1e6
