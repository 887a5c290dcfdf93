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

import os
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from footprint import idle_connections, memory
from results import Measured, Results, Row, slowest_first, summary
from servers import LOAD_CORE, PROGRAMS, commit, machine, matches, pin, require, versions
from tables import options, publish
from waits import time_to_wake
from workloads import WORKLOADS, play

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from loads import Sample

FIGURES: Final = {
    "memory per entry and pending entry": lambda asked: memory(asked.entries, packed=not asked.quick),
    "idle connections": lambda asked: idle_connections(10_000, asked.seconds),
    "time to wake blocked readers": lambda asked: time_to_wake(asked.rounds, 5 if asked.quick else 50),
}


def main() -> None:
    """Measure what was asked for and print it as Markdown."""
    asked = _options()
    require(*PROGRAMS, "redis-benchmark")
    pin(LOAD_CORE)
    settings = f"server on one core, load on another; medians of {asked.rounds} rounds of {asked.seconds:g} s"
    loads = [os.getloadavg()[0]]
    results = Results(time.strftime("%Y-%m-%d"), machine(), versions(), settings, commit(), loads)
    print(results.head)
    results.add_rows(_rows(asked))
    results.add_figures(
        figure for name, measure in FIGURES.items() if matches(name, asked.names) for figure in measure(asked)
    )
    loads.append(os.getloadavg()[0])
    if asked.json:
        results.write(asked.json)
    if asked.keep:
        results.keep(asked.keep)
    publish(asked.markdown, "benchmarks", summary(results))
    publish(asked.readme, "speed", slowest_first(results, {each.name for each in WORKLOADS if each.everyday}))


def _rows(asked: argparse.Namespace) -> Iterator[Row]:
    for workload, mode, samples in play(asked, PROGRAMS, every_mode=not asked.quick):
        yield Row(workload.name, mode.name, {name: _medians(each) for name, each in samples.items()})


def _medians(samples: list[Sample]) -> Measured:
    return Measured(
        median(each.requests / each.seconds for each in samples),
        median(each.cost * 1e6 for each in samples),
        median(each.p50 for each in samples),
        median(each.p99 for each in samples),
    )


def _options() -> argparse.Namespace:
    parser = options(__doc__, "names", "--quick", "--markdown", rounds=5)
    parser.add_argument("--mode", help="only loads whose names contain this (`1 client`, `pipeline`)")
    parser.add_argument("--seconds", type=float, help="length of a round (0.5)")
    parser.add_argument("--entries", type=int, help="entries for memory (1,000,000)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="the same, by date and commit")
    parser.add_argument("--readme", type=Path, metavar="FILE", help="put the slowest first there")
    asked = parser.parse_args()
    asked.seconds = asked.seconds or (0.06 if asked.quick else 0.5)
    asked.entries = asked.entries or (100_000 if asked.quick else 1_000_000)
    return asked


if __name__ == "__main__":
    main()
