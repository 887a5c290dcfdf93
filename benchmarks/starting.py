"""How long a server takes to be there: started empty, and with an append-only file to load."""

from __future__ import annotations

import time
from statistics import median
from typing import TYPE_CHECKING

from results import Figure
from servers import PROGRAMS, Server
from workloads import entries

if TYPE_CHECKING:
    from collections.abc import Iterator


def start_up(rounds: int) -> Iterator[Figure]:
    """From the start of the process to the first PONG, by turns."""
    taken: dict[str, list[float]] = {program: [] for program in PROGRAMS}
    for _ in range(rounds):
        for program in PROGRAMS:
            begun = time.perf_counter()
            with Server(program) as server:
                server.control.call("PING")
                taken[program].append((time.perf_counter() - begun) * 1000)
    yield Figure("start-up", "ms", {name: median(each) for name, each in taken.items()})


def aof_load(count: int, rounds: int) -> Iterator[Figure]:
    """Entries a second from a file of XADDs, less the start of an empty server."""
    rates: dict[str, float] = {}
    for program in PROGRAMS:
        with Server(program, "--appendonly", "yes", "--auto-aof-rewrite-percentage", "0") as server:
            empty = median([server.restart() for _ in range(rounds)])
            server.control.feed(entries(count))
            loading = median([server.restart() for _ in range(rounds)]) - empty
            assert server.control.call("XLEN", "s") == count
            rates[program] = count / max(loading, 1e-3)
    yield Figure(f"AOF load, {count:,} XADDs", "entries/s", rates, less_is_better=False)
