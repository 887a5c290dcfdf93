"""Rillet beside redis-server and valkey-server, in one run: requests per second, the server's processor time, p50, p99.

    .venv/bin/python benchmarks/bench.py                 everything: `make bench`
    .venv/bin/python benchmarks/bench.py --quick         50 clients, short rounds: `make bench QUICK=1`
    .venv/bin/python benchmarks/bench.py xadd xclaim     what has one of the words in its name
    .venv/bin/python benchmarks/bench.py memory wake     the same for single figures: see figures.py

The servers take turns on one core while the load comes from another; each figure is the median of the rounds. A
ratio above 1 means that Rillet is the better one.
"""

from __future__ import annotations

import os
import time
from statistics import median
from typing import TYPE_CHECKING

from figures import figures
from loads import MANY
from results import Measured, Results, Row, slowest_first, summary
from servers import PROGRAMS, ROOT, commit, labelled, machine, pin, require
from tables import options, publish
from workloads import WORKLOADS, play

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from loads import Sample


def main() -> None:
    """Measure what was asked for and print it as Markdown."""
    asked = _options()
    require(*PROGRAMS, "redis-benchmark")
    pin()
    settings = f"server on one core, load on another; medians of {asked.rounds} rounds of {asked.seconds:g} s"
    loads = [os.getloadavg()[0]]
    results = Results(
        time.strftime("%Y-%m-%d"), machine(), ", ".join(map(labelled, PROGRAMS)), settings, commit(), loads
    )
    print(results.head)
    results.add_rows(_rows(asked))
    shown = results.add_figures(figures(asked))
    loads.append(os.getloadavg()[0])
    if asked.publish:
        results.keep(ROOT / "docs/benchmarks")
    publish(asked, "docs/benchmarks.md", "benchmarks", summary(results, shown))
    everyday = {each.name for each in WORKLOADS if each.everyday}
    publish(asked, "README.md", "speed", slowest_first(results, everyday))


def _rows(asked: argparse.Namespace) -> Iterator[Row]:
    for workload, mode, samples in play(asked, PROGRAMS):
        yield Row(workload.name, mode.name, {name: _medians(each) for name, each in samples.items()})


def _medians(samples: list[Sample]) -> Measured:
    return Measured(
        median(each.requests / each.seconds for each in samples),
        median(each.cost * 1e6 for each in samples),
        median(each.p50 for each in samples),
        median(each.p99 for each in samples),
    )


def _options() -> argparse.Namespace:
    parser = options(__doc__, "names", "--quick", "--mode", "--seconds", "--entries", "--publish", rounds=5)
    asked = parser.parse_args()
    asked.mode = asked.mode or (MANY.name if asked.quick else "")
    asked.seconds = asked.seconds or (0.06 if asked.quick else 0.5)
    return asked


if __name__ == "__main__":
    main()
