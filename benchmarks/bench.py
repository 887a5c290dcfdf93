"""Rillet beside redis-server and valkey-server, in one run: requests per second, the server's processor time, p50, p99.

    .venv/bin/python benchmarks/bench.py                 everything: `make bench`
    .venv/bin/python benchmarks/bench.py --quick         50 clients, short rounds: `make bench QUICK=1`
    .venv/bin/python benchmarks/bench.py xadd xclaim     what has one of the words in its name
    .venv/bin/python benchmarks/bench.py memory wake     the same for single figures: see FIGURES below

The servers take turns on one core while the load comes from another; each figure is the median of the rounds. A
ratio above 1 means that Rillet is the better one. `--keep`, `--json`, `--markdown` and `--readme` keep what was
found.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from footprint import idle_connections, memory
from loads import MANY, by_turns
from results import Measured, Results, Row, keep, put_into, read, slowest_first, summary
from servers import (
    LOAD_CORE,
    PROGRAMS,
    SECURE_PROGRAMS,
    Server,
    commit,
    machine,
    matches,
    pin,
    require,
    versions,
)
from starting import start_up
from waits import time_to_wake
from workloads import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Callable

    from loads import Sample
    from workloads import Workload

FIGURES: Final = {
    "memory per entry and pending entry": lambda asked: memory(asked.entries, packed=not asked.quick),
    "idle connections": lambda asked: idle_connections(10_000, asked.seconds),
    "time to wake blocked readers": lambda asked: time_to_wake(asked.rounds, 5 if asked.quick else 50),
    "start-up": lambda asked: start_up(asked.rounds),
}


def main() -> int:
    """Measure what was asked for and print it as Markdown."""
    asked = _options()
    if asked.shown:
        write_pages(asked, read(asked.shown), save=True)
        return 0
    require(*PROGRAMS, "redis-benchmark")
    pin(LOAD_CORE)
    settings = f"server on one core, load on another; medians of {asked.rounds} rounds of {asked.seconds:g} s"
    results = Results(time.strftime("%Y-%m-%d"), machine(), versions(), settings, commit())
    results.load_averages.append(os.getloadavg()[0])
    write_pages(asked, results)  # the same for markers that are not there
    print(results.head)
    measure([each for each in WORKLOADS if matches(each.name, asked.names)], asked, results)
    for name, figures in FIGURES.items():
        if matches(name, asked.names):
            results.add_figures(figures(asked))
    results.load_averages.append(os.getloadavg()[0])
    if asked.json:
        results.write(asked.json)
    if asked.keep:
        keep(results, asked.keep)
    write_pages(asked, results, save=True)
    return 0


def write_pages(asked: argparse.Namespace, results: Results, *, save: bool = False) -> None:
    """Put the tables into the pages that were asked for; without ``save`` only see that they have a place there."""
    everyday = {each.name for each in WORKLOADS if each.everyday}
    pages: list[tuple[Path | None, str, Callable[[], str]]] = [
        (asked.markdown, "benchmarks", lambda: summary(results)),
        (asked.readme, "speed", lambda: slowest_first(results, everyday)),
    ]
    for page, name, content in pages:
        if page is not None:
            text = put_into(page.read_text(encoding="utf-8"), name, content())
            if save:
                page.write_text(text, encoding="utf-8")


def measure(chosen: list[Workload], asked: argparse.Namespace, results: Results) -> None:
    """Run workloads: all servers by turns, and a row for each mode."""
    with ExitStack() as stack:
        started: dict[tuple[bool, tuple[str, ...]], list[Server]] = {}
        for load in chosen:
            modes = [
                mode
                for mode in load.modes
                if (asked.mode in mode.name if asked.mode else mode == MANY or not asked.quick)
            ]
            if not modes:
                continue
            kind = load.secure, load.flags
            if kind not in started:
                started[kind] = [
                    stack.enter_context(Server(name, *load.flags, secure=load.secure))
                    for name in (SECURE_PROGRAMS if load.secure else PROGRAMS)
                ]
            servers = started[kind]
            for server in servers:
                load.prepare(server)
            for mode in modes:
                samples = by_turns(load.run, servers, mode, asked.rounds, asked.seconds)
                medians = {name: _medians(each) for name, each in samples.items()}
                results.add_row(Row(load.name, mode.name, medians))


def _medians(samples: list[Sample]) -> Measured:
    requests = sum(each.requests for each in samples)
    user = sum(each.user for each in samples) / requests * 1e6
    return Measured(
        median([each.requests / each.seconds for each in samples]),
        median([each.cpu / each.requests * 1e6 for each in samples]),
        median([each.p50 for each in samples]),
        median([each.p99 for each in samples]),
        user,
        max(sum(each.cpu for each in samples) / requests * 1e6 - user, 0.0),
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("names", nargs="*", help="only what has one of these in its name")
    parser.add_argument("--quick", action="store_true", help="shorter rounds, one load, smaller data")
    parser.add_argument("--mode", help="only loads whose names contain this (`1 client`, `pipeline`)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each server (5)")
    parser.add_argument("--seconds", type=float, help="length of a round (0.5)")
    parser.add_argument("--entries", type=int, help="entries for memory and loading (1,000,000)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    parser.add_argument(
        "--keep", type=Path, metavar="FOLDER", help="the same, by date and commit, with a list"
    )
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="put the tables between its markers")
    parser.add_argument(
        "--show", dest="shown", type=Path, metavar="FILE", help="a kept run, instead of measuring"
    )
    parser.add_argument(
        "--readme", type=Path, metavar="FILE", help="put the slowest first between its markers"
    )
    asked = parser.parse_args()
    asked.seconds = asked.seconds or (0.06 if asked.quick else 0.5)
    asked.entries = asked.entries or (100_000 if asked.quick else 1_000_000)
    return asked


if __name__ == "__main__":
    sys.exit(main())
