"""This checkout beside an earlier commit of it, in one run: what a change costs, workload by workload.

    .venv/bin/python benchmarks/compare.py --base main                 everything: `make bench-compare BASE=main`
    .venv/bin/python benchmarks/compare.py --base v0.1 xclaim --mode 'pipeline 16'

Both run with this Python and its packages, on the same core by turns. *Slower* is the median over the rounds of this
checkout's processor time for a request divided by the base's in the same round, so that what slows the machine for a
while slows both. It ends with 1 if a workload is slower by more than `--allow` says.
"""

from __future__ import annotations

import argparse
import os
import stat
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from loads import MANY
from servers import LOAD_CORE, Server, machine, pin, require
from workloads import WORKLOADS

if TYPE_CHECKING:
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
    os.environ["BENCH_BASE"] = str(program_of(asked.base))
    pin(LOAD_CORE)
    print(f"base: {_git('log', '-1', '--format=%h %s', asked.base)}; {machine()}; {asked.rounds} rounds\n")
    print(
        "| workload | load | CPU µs base | CPU µs here | slower | user | requests/s |\n| --- | --- |"
        + " ---: |" * 5
    )
    slow = 0
    for load in WORKLOADS:
        if not asked.names or any(word.lower() in load.name.lower() for word in asked.names):
            for mode in load.modes:
                if asked.mode in mode.name if asked.mode else mode == MANY:
                    slow += compare(load, mode, asked.rounds, asked.seconds) > 1 + asked.allow / 100
    print(f"\n{slow} slower by more than {asked.allow:g} %")
    return 1 if slow else 0


def compare(load: Workload, mode: Mode, rounds: int, seconds: float) -> float:
    """Print a row; return how many times the processor time of the base this checkout needs."""
    pairs: list[tuple[Sample, Sample]] = []
    with Server("base", *load.flags) as base, Server("rillet", *load.flags) as here:
        for server in (base, here):
            load.prepare(server)
        for turn in range(rounds):
            both = (base, here) if turn % 2 == 0 else (here, base)
            samples = {server: load.run(server, mode, seconds) for server in both}
            pairs.append((samples[base], samples[here]))
    ratio = median([_cost(ours) / _cost(theirs) for theirs, ours in pairs])
    user = median([_user(ours) / _user(theirs) for theirs, ours in pairs])
    rate = median([(ours.requests / ours.seconds) / (old.requests / old.seconds) for old, ours in pairs])
    costs = [median([_cost(pair[which]) for pair in pairs]) * 1e6 for which in (0, 1)]
    print(
        f"| {load.name} | {mode.name} | {costs[0]:.2f} | {costs[1]:.2f} | {ratio:.3f} | {user:.3f} | {rate:.3f} |",
        flush=True,
    )
    return ratio


def _cost(sample: Sample) -> float:
    return max(sample.cpu, 1e-9) / sample.requests


def _user(sample: Sample) -> float:
    return max(sample.user, 1e-9) / sample.requests


def program_of(commit: str) -> Path:
    """Check a commit out, once, and return a program that runs its server."""
    name = _git("rev-parse", "--short=12", f"{commit}^{{commit}}")
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


def _git(*words: str) -> str:
    return subprocess.run(
        ["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True
    ).stdout.strip()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("names", nargs="*", help="only what has one of these in its name")
    parser.add_argument("--base", required=True, help="the commit to compare with")
    parser.add_argument("--mode", help="loads whose names contain this instead of `50 clients`")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each (5)")
    parser.add_argument("--seconds", type=float, default=0.5, help="length of a round (0.5)")
    parser.add_argument("--allow", type=float, default=3, help="so many per cent slower are allowed (3)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
