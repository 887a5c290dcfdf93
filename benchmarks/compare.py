"""This checkout beside an earlier commit of it, in one run: what a change costs, workload by workload.

    .venv/bin/python benchmarks/compare.py --base main                 everything: `make bench-compare BASE=main`
    .venv/bin/python benchmarks/compare.py --base v0.1 xclaim --mode 'pipeline 16'
    .venv/bin/python benchmarks/compare.py --base main --beside redis-server

Both run with this Python and its packages, on the same core by turns, and a third server where it is asked for. *Slower*
is the median over the rounds of this checkout's processor time for a request divided by the base's in the same round, so
that what slows the machine slows both. It ends with 1 if a workload is slower by more than `--allow` says.
"""

from __future__ import annotations

import argparse
import os
import stat
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from loads import MANY, by_turns
from servers import LOAD_CORE, Server, git, machine, matches, pin, require
from workloads import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Callable

    from loads import Mode, Sample
    from workloads import Workload

ROOT: Final = Path(__file__).parent.parent
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
    pin(LOAD_CORE)
    print(f"base: {git('log', '-1', '--format=%h %s', asked.base)}; {machine()}; {asked.rounds} rounds\n")
    beside = [f"CPU µs {asked.beside}", "its work"] * bool(asked.beside)
    head = ["workload", "load", "CPU µs base", "CPU µs here", "slower", "user", "requests/s", *beside]
    print(f"| {' | '.join(head)} |\n| --- | --- |" + " ---: |" * (len(head) - 2))
    slow = 0
    for load in WORKLOADS:
        if matches(load.name, asked.names):
            for mode in load.modes:
                if asked.mode in mode.name if asked.mode else mode == MANY:
                    slow += compare(load, mode, asked) > 1 + asked.allow / 100
    print(f"\n{slow} slower by more than {asked.allow:g} %")
    return 1 if slow else 0


def compare(load: Workload, mode: Mode, asked: argparse.Namespace) -> float:
    """Print a row; return how many times the processor time of the base this checkout needs."""
    with ExitStack() as stack:
        names = ("base", "rillet", *[asked.beside] * bool(asked.beside))
        servers = [stack.enter_context(Server(name, *load.flags, secure=load.secure)) for name in names]
        for server in servers:
            load.prepare(server)
        samples = by_turns(load.run, servers, mode, asked.rounds, asked.seconds)

    def ratio(one: str, other: str, value: Callable[[Sample], float]) -> float:
        return median([value(a) / value(b) for a, b in zip(samples[one], samples[other], strict=True)])

    costs = {name: median(map(_cost, each)) * 1e6 for name, each in samples.items()}
    slower = ratio("rillet", "base", _cost)
    cells = [f"{costs['base']:.2f}", f"{costs['rillet']:.2f}", f"{slower:.3f}"]
    cells.append(f"{ratio('rillet', 'base', lambda each: max(each.user, 1e-9) / each.requests):.3f}")
    cells.append(f"{ratio('rillet', 'base', lambda each: each.requests / each.seconds):.3f}")
    if asked.beside:
        cells += [f"{costs[asked.beside]:.2f}", f"{ratio(asked.beside, 'rillet', _cost):.2f}"]
    print(f"| {load.name} | {mode.name} | {' | '.join(cells)} |", flush=True)
    return slower


def _cost(sample: Sample) -> float:
    return max(sample.cpu, 1e-9) / sample.requests


def program_of(commit: str) -> Path:
    """Check a commit out, once, and return a program that runs its server."""
    name = git("rev-parse", "--short=12", f"{commit}^{{commit}}")
    folder = ROOT / "build" / "compare" / name
    checkout = folder / "rillet"
    if not checkout.exists():
        folder.mkdir(parents=True, exist_ok=True)
        archive = subprocess.run(
            ["git", "-C", str(ROOT), "archive", "--prefix=rillet/", name], capture_output=True, check=True
        )
        subprocess.run(["tar", "-x", "-C", str(folder)], input=archive.stdout, check=True)
    program = folder / "rillet-server"
    program.write_text(_STARTER.format(python=sys.executable, folder=str(folder)), encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("names", nargs="*", help="only what has one of these in its name")
    parser.add_argument("--base", required=True, help="the commit to compare with")
    parser.add_argument("--beside", help="a third server: redis-server, redis-8.10 or valkey-server")
    parser.add_argument("--mode", help="loads whose names contain this instead of `50 clients`")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each (5)")
    parser.add_argument("--seconds", type=float, default=0.5, help="length of a round (0.5)")
    parser.add_argument("--allow", type=float, default=3, help="so many per cent slower are allowed (3)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
