"""What the console costs a server, and itself: one round over all streams and groups, and memory over many rounds.

    make bench-console [ARGS='--rounds 5']

The poller runs here, on a core of its own, as it does behind the pages. Every round reads everything, while a few
streams grow. Medians; of the time the quickest round as well, for on a busy machine others take most of it.
"""

from __future__ import annotations

import asyncio
import os
import time
from statistics import median
from typing import Final, NamedTuple

from servers import Server, encode, labelled, pin, require, resident_bytes, where
from tables import Table, options, publish

from rillet.console.connection import Link
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
        server.control.feed([encode(*each) for each in words])


def grow(server: Server, turn: int) -> None:
    """Add to ten streams, so that rates and series have something to show."""
    server.control.feed([encode("XADD", f"stream:{turn % 10}", "*", "f", "v") for _ in range(10)])


class Round(NamedTuple):
    """Seconds by the clock and of the processors of the server and of the console; the memory of this process."""

    taken: float
    of_server: float
    of_console: float
    memory: int


async def _play(server: Server, rounds: int) -> list[Round]:
    link = Link(f"redis://127.0.0.1:{server.port}")
    poller = Poller(link)
    found = []
    for turn in range(rounds):
        grow(server, turn)
        begun, ours, theirs = time.perf_counter(), time.process_time(), server.cpu_seconds()
        await poller.round()
        taken, of_console = time.perf_counter() - begun, time.process_time() - ours
        of_server = server.cpu_seconds() - theirs
        found.append(Round(taken, of_server, of_console, resident_bytes(os.getpid())))
    await link.close()
    return found


def table(rounds: int) -> str:
    """Return a table with a line for each number of streams and server."""
    made = Table(f"streams, with {_GROUPS} groups each | server | {_COLUMNS}", words=2)
    for streams in _STREAMS:
        for program in _PROGRAMS:
            with Server(program) as server:
                fill(server, streams)
                played = asyncio.run(_play(server, rounds + 2))[2:]  # the first ones find the keys
            taken, of_server, of_console, _ = map(median, zip(*played, strict=True))
            times = [taken, min(each.taken for each in played), of_server, of_console]
            share = of_server / (taken + max(TICK, SHARE * taken))
            made.add(
                f"{streams:,}", labelled(program), *[f"{each * 1000:.1f}" for each in times], f"{share:.2%}"
            )
    return made.text


def memory(rounds: int) -> str:
    """Return a sentence on what the console remembers over many rounds."""
    with Server("rillet") as server:
        fill(server, _REMEMBERED)
        before = resident_bytes(os.getpid())
        played = asyncio.run(_play(server, rounds + 1))
    shown = ", ".join(f"{(each.memory - before) / 1e6:.1f}" for each in played[:: rounds // 4])
    return (
        f"{_REMEMBERED} streams add to the memory of the console, after the first of {rounds:,} rounds and after each "
        f"quarter of them: {shown} MB."
    )


def main() -> None:
    """Print the table, or put it into a page."""
    parser = options(__doc__, "--publish", rounds=9)
    parser.add_argument("--memory-rounds", type=int, default=1_500)
    asked = parser.parse_args()
    require(*_PROGRAMS)
    pin()
    print(remembered := memory(asked.memory_rounds))  # first, while no freed memory can be used again
    print(head := f"Medians of {asked.rounds} rounds, {where()}.\n")
    publish(asked, "docs/console.md", "rounds", f"{head}\n{table(asked.rounds)}\n{remembered}\n")


if __name__ == "__main__":
    main()
