"""Groups with very many pending entries: searches for idle ones, and XREADGROUP CLAIM that finds few.

    .venv/bin/python benchmarks/big_groups.py [entries]

What is not idle must cost nothing. No Redis that knows CLAIM is here to compare with; the figure is set beside the same read of ten new entries.
"""

from __future__ import annotations

import re
import sys
import time
from typing import TYPE_CHECKING, Final

from results import Figure
from servers import PROGRAMS, Server
from workloads import deliver_all, entry_id, filled

if TYPE_CHECKING:
    from collections.abc import Iterator

_SEARCHES: Final = (
    ("XPENDING IDLE, none idle", ("XPENDING", "s", "g", "IDLE", "3600000", "-", "+", "10"), 100),
    ("XAUTOCLAIM COUNT 100, none idle", ("XAUTOCLAIM", "s", "g", "d", "3600000", "0", "COUNT", "100"), 0),
)
_SECONDS: Final = 0.3
_TIMES: Final = 200
_CLAIMABLE: Final = 10
_AT_MOST: Final = 8.0  # times a read of as many new entries
_HOUR: Final = 3_600_000
_CLAIM: Final = ("XREADGROUP", "GROUP", "g", "d", "COUNT", _CLAIMABLE, "CLAIM", _HOUR, "STREAMS", "s", ">")
_READ: Final = ("XREADGROUP", "GROUP", "h", "d", "COUNT", _CLAIMABLE, "STREAMS", "s", ">")


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


def measure_few_claimable(entries: int) -> int:
    """Print a table; 1 if claiming is dearer than it may be."""
    with Server("rillet") as server:
        filled(server, entries)
        deliver_all(server, entries)
        call = server.control.call
        call("XGROUP", "CREATE", "s", "h", "0")
        new = _microseconds(server, lambda _: None, _READ)
        # Scattered over the stream, and idle for two hours again each time.
        step = entries // _CLAIMABLE

        def let_idle(turn: int) -> None:
            ids = [entry_id(at * step + turn + 1) for at in range(_CLAIMABLE)]
            call("XCLAIM", "s", "g", "c", 0, *ids, "IDLE", 2 * _HOUR, "JUSTID")

        idle = _microseconds(server, let_idle, _CLAIM)
        given_back = _microseconds(
            server,
            lambda turn: call(
                "XNACK", "s", "g", "FAIL", "IDS", _CLAIMABLE,
                *[entry_id(at * step + turn + 1) for at in range(_CLAIMABLE)],
            ),
            _CLAIM,
        )  # fmt: skip
    print(f"\n| XREADGROUP of ten entries, {entries:,} pending | µs | times a read | at most |")
    print("| --- | ---: | ---: | ---: |")
    print(f"| new ones | {new:.1f} | 1.0 | |")
    for name, cost in (("CLAIM, ten are idle", idle), ("CLAIM, ten were given back", given_back)):
        print(f"| {name} | {cost:.1f} | {cost / new:.1f} | {_AT_MOST:g}{' ✗' * (cost > new * _AT_MOST)} |")
    return int(max(idle, given_back) > new * _AT_MOST)


def _microseconds(server: Server, before: object, words: tuple[object, ...]) -> float:
    """What the server says one XREADGROUP took; each must answer ten entries."""
    call = server.control.call
    call("CONFIG", "RESETSTAT")
    for turn in range(_TIMES):
        before(turn)  # type: ignore[operator]
        [[_, items]] = call(*words)  # type: ignore[misc]
        assert len(items) == _CLAIMABLE
    statistics = call("INFO", "commandstats")
    assert isinstance(statistics, bytes)
    found = re.search(rb"cmdstat_xreadgroup:.*usec_per_call=([0-9.]+)", statistics)
    assert found is not None
    return float(found[1])


if __name__ == "__main__":
    sys.exit(measure_few_claimable(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000))
