"""This checkout beside an earlier commit of it, in one run: what a change costs, workload by workload.

    .venv/bin/python benchmarks/compare.py --base main                 everything: `make bench-compare BASE=main`
    .venv/bin/python benchmarks/compare.py --base v0.1 xclaim --mode 'pipeline 16'
    .venv/bin/python benchmarks/compare.py --base main --beside redis-server

Both run with this Python and its packages, on the same core by turns, and a third server where it is asked for. *Slower*
is the median over the rounds of this checkout's processor time for a request divided by the base's in the same round, so
that what slows the machine slows both. It ends with 1 if a workload is more than 3 % slower.
"""

from __future__ import annotations

import os
import stat
import sys
from statistics import median
from typing import TYPE_CHECKING, Final

from loads import MANY
from servers import ROOT, export, git, machine, pin, require
from tables import Table, options
from workloads import play

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable
    from pathlib import Path

    from loads import Sample

_ALLOWED: Final = 1.03
_STARTER: Final = """#!{python}
import sys
sys.path.insert(0, {folder!r})
from rillet.__main__ import main
sys.exit(main())
"""


def main() -> int:
    """Measure what was asked for and print it as Markdown."""
    asked = _options()
    require("redis-benchmark")
    os.environ["RILLET_PEER_BASE"] = str(program_of(asked.base))
    pin()
    print(f"base: {git('log', '-1', '--format=%h %s', asked.base)}; {machine()}; {asked.rounds} rounds\n")
    beside = f" | CPU µs {asked.beside} | its work" if asked.beside else ""
    table = Table(f"workload | load | CPU µs base | CPU µs here | slower | requests/s{beside}", words=2)
    slow = 0
    programs = ("base", "rillet", *[asked.beside] * bool(asked.beside))
    for workload, mode, samples in play(asked, programs):
        base, here = samples["base"], samples["rillet"]
        slower = _ratio(here, base, _cost)
        slow += slower > _ALLOWED
        cells = [_microseconds(base), _microseconds(here), f"{slower:.3f}"]
        cells.append(f"{_ratio(here, base, lambda each: each.requests / each.seconds):.3f}")
        if asked.beside in samples:
            third = samples[asked.beside]
            cells += [_microseconds(third), f"{_ratio(third, here, _cost):.2f}"]
        table.add(workload.name, mode.name, *cells)
    print(f"\n{slow} slower by more than 3 %")
    return 1 if slow else 0


def _cost(sample: Sample) -> float:
    return sample.cost


def _microseconds(samples: list[Sample]) -> str:
    return f"{median(map(_cost, samples)) * 1e6:.2f}"


def _ratio(one: list[Sample], other: list[Sample], value: Callable[[Sample], float]) -> float:
    """The median of the ratios of the rounds."""
    return median(value(a) / value(b) for a, b in zip(one, other, strict=True))


def program_of(commit: str) -> Path:
    """Check a commit out, once, and return a program that runs its server."""
    name = git("rev-parse", "--short=12", f"{commit}^{{commit}}")
    folder = ROOT / "build" / "compare" / name
    if not folder.exists():
        export(name, folder / "rillet")
    program = folder / "rillet-server"
    program.write_text(_STARTER.format(python=sys.executable, folder=str(folder)), encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def _options() -> argparse.Namespace:
    parser = options(__doc__, "names", "--mode", "--seconds", rounds=5)
    parser.set_defaults(seconds=0.5, mode=MANY.name)
    parser.add_argument("--base", required=True, help="the commit to compare with")
    parser.add_argument("--beside", help="a third server: redis-server, redis-8.10 or valkey-server")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
