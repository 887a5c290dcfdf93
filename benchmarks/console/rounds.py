"""What the console costs a server, and itself: one round over all streams and groups, and memory over many rounds.

    make bench-console [ARGS='--rounds 5']

The poller runs here, on a core of its own, as it does behind the pages. Every round reads everything, while a few
streams grow. Medians; of the time the quickest round as well, for on a busy machine others take most of it.
"""

from __future__ import annotations

import asyncio
import os
import time
from datetime import UTC, datetime
from statistics import median
from typing import Final

from servers import LABELS, LOAD_CORE, Server, encode, machine, pin, require, resident_bytes, version
from tables import Table, options, publish

from rillet.console.link import Link
from rillet.console.poller import SHARE, TICK, Poller

_PROGRAMS: Final = ("rillet", "redis-server")
_STREAMS: Final = (10, 100, 1_000)
_GROUPS: Final = 10
_ENTRIES: Final = 20
_REMEMBERED: Final = 10  # streams while memory is measured
_COLUMNS: Final = (
    "a round, ms | the quickest | CPU of the server, ms | CPU of the console, ms | share of the server"
)


def fill(server: Server, streams: int) -> None:
    """Make streams whose groups lag and hold entries."""
    for number in range(streams):
        name = f"stream:{number}"
        words = [("XADD", name, "*", "field", f"value {at}") for at in range(_ENTRIES)]
        for at in range(_GROUPS):
            words.append(("XGROUP", "CREATE", name, f"group:{at}", "0"))
            words.append(("XREADGROUP", "GROUP", f"group:{at}", "Bob", "COUNT", "5", "STREAMS", name, ">"))
        server.control.pipeline([encode(*each) for each in words])


def grow(server: Server, turn: int) -> None:
    """Add to ten streams, so that rates and series have something to show."""
    server.control.pipeline([encode("XADD", f"stream:{turn % 10}", "*", "f", "v") for _ in range(10)])


async def measure(server: Server, rounds: int) -> tuple[float, float, float, float]:
    """Return seconds of a round, median and least, and medians of processor time: of the server, of the console."""
    link = Link(f"redis://127.0.0.1:{server.port}")
    poller = Poller(link)
    found: list[tuple[float, float, float]] = []
    for turn in range(rounds + 2):
        grow(server, turn)
        begun, ours, theirs = time.perf_counter(), time.process_time(), server.cpu_seconds()
        await poller.round()
        found.append((time.perf_counter() - begun, server.cpu_seconds() - theirs, time.process_time() - ours))
    await link.close()
    seconds, of_server, of_console = zip(*found[2:], strict=True)  # the first ones find the keys
    return median(seconds), min(seconds), median(of_server), median(of_console)


def table(rounds: int) -> str:
    """Return a table with a line for each number of streams and server."""
    made = Table(f"streams, with {_GROUPS} groups each | server | {_COLUMNS}", words=2)
    for streams in _STREAMS:
        for program in _PROGRAMS:
            with Server(program) as server:
                fill(server, streams)
                taken, least, of_server, of_console = asyncio.run(measure(server, rounds))
                times = [f"{each * 1000:.1f}" for each in (taken, least, of_server, of_console)]
                share = of_server / (taken + max(TICK, SHARE * taken))
                made.add(f"{streams:,}", f"{LABELS[program]} {version(program)}", *times, f"{share:.2%}")
    return made.text


async def _memory(server: Server, rounds: int) -> list[int]:
    before = resident_bytes(os.getpid())
    link = Link(f"redis://127.0.0.1:{server.port}")
    poller = Poller(link)
    found = []
    for turn in range(rounds + 1):
        grow(server, turn)
        await poller.round()
        if turn % (rounds // 4) == 0:
            found.append(resident_bytes(os.getpid()) - before)
    await link.close()
    return found


def memory(rounds: int) -> str:
    """Return a sentence on what the console remembers over many rounds."""
    with Server("rillet") as server:
        fill(server, _REMEMBERED)
        found = asyncio.run(_memory(server, rounds))
    shown = ", ".join(f"{each / 1e6:.1f}" for each in found)
    return (
        f"{_REMEMBERED} streams add to the memory of the console, after the first of {rounds:,} rounds and after each "
        f"quarter of them: {shown} MB."
    )


def main() -> None:
    """Print the table, or put it into a page."""
    parser = options(__doc__, "--markdown", rounds=9)
    parser.add_argument("--memory-rounds", type=int, default=1_500)
    asked = parser.parse_args()
    require(*_PROGRAMS)
    pin(LOAD_CORE)
    print(remembered := memory(asked.memory_rounds))  # first, while no freed memory can be used again
    print(head := f"Medians of {asked.rounds} rounds on {datetime.now(UTC).date()}, {machine()}.\n")
    publish(asked.markdown, "rounds", f"{head}\n{table(asked.rounds)}\n{remembered}\n")


if __name__ == "__main__":
    main()
