"""What many entries cost: bytes per entry and per pending entry, and searches for idle ones among many."""

from __future__ import annotations

import time
from typing import Final

from servers import Server
from workloads import deliver_all, filled

_SEARCHES: Final = (
    ("XPENDING IDLE, none idle", ("XPENDING", "s", "g", "IDLE", "3600000", "-", "+", "10")),
    ("XAUTOCLAIM COUNT 100, none idle", ("XAUTOCLAIM", "s", "g", "d", "3600000", "0", "COUNT", "100")),
)
_SECONDS: Final = 0.5


def measure_big_groups(programs: tuple[str, ...], entries: int) -> int:
    """Fill one server after the other and print two tables; answers how many figures are below their floor."""
    memory: list[tuple[float, float]] = []
    searches: list[list[float]] = []
    for program in programs:
        with Server(program) as server:
            empty = server.resident_bytes()
            filled(server, entries)
            full = server.resident_bytes()
            deliver_all(server, entries)
            pending = server.resident_bytes()
            memory.append(((full - empty) / entries, (pending - full) / entries))
            searches.append([_cpu_of(server, words) for _, words in _SEARCHES])
    below = 0
    print(f"\n| memory at {entries:,} entries | Rillet | Redis | times Redis' | at most |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for at, (name, most) in enumerate((("bytes per entry", 3.5), ("bytes per pending entry", 1.5))):
        ours, theirs = memory[0][at], memory[1][at]
        below += ours > theirs * most
        print(
            f"| {name} | {ours:.0f} | {theirs:.0f} | {ours / theirs:.2f} | {most:g}{' ✗' * (ours > theirs * most)} |"
        )
    print(f"\n| idle searches, {entries:,} pending | Rillet CPU µs | Redis CPU µs | ratio | floor |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for at, (name, words) in enumerate(_SEARCHES):
        ours, theirs = searches[0][at], searches[1][at]
        floor = 100 if words[0] == "XPENDING" else 0
        below += theirs / ours < floor
        shown = f"{floor}{' ✗' * (theirs / ours < floor)}" if floor else ""
        print(f"| {name} | {ours:.1f} | {theirs:.1f} | {theirs / ours:.1f} | {shown} |", flush=True)
    return below


def _cpu_of(server: Server, words: tuple[str, ...]) -> float:
    """Microseconds of processor time that a command takes."""
    calls = 0
    before = server.cpu_seconds()
    until = time.monotonic() + _SECONDS
    while calls < 5 or time.monotonic() < until:
        server.control.call(*words)
        calls += 1
    return max(server.cpu_seconds() - before, 0.001) / calls * 1e6
