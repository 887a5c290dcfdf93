"""Rillet beside redis-server, in one run: requests per second and the server's processor time per request.

    .venv/bin/python benchmarks/bench.py                 everything, several minutes
    .venv/bin/python benchmarks/bench.py --quick         about a minute
    .venv/bin/python benchmarks/bench.py xadd xclaim     the workloads whose names contain one of the words
    .venv/bin/python benchmarks/bench.py memory idle     bytes per entry and pending entry; idle searches
    .venv/bin/python benchmarks/bench.py few             XREADGROUP CLAIM of few among many

The servers take turns on one core while the load comes from another; each figure is the median of the rounds. A
ratio above 1 means that Rillet is the better one.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from contextlib import ExitStack
from statistics import median
from typing import TYPE_CHECKING, Final

from big_groups import measure_big_groups
from few_claimable import measure_few_claimable
from servers import LOAD_CORE, Server, binary, pin
from workloads import MODES, WORKLOADS, cores

if TYPE_CHECKING:
    from workloads import Mode, Sample, Workload

_PROGRAMS: Final = ("rillet", "redis-server")
_AOF_FLAGS: Final = ("--appendonly", "yes", "--appendfsync", "everysec")


def main() -> int:
    """Measure what was asked for and print it as a Markdown table; 1 if a floor of DESIGN.md 6 is not held."""
    options = _options()
    pin(LOAD_CORE)
    chosen = [load for load in WORKLOADS if _matches(load.name, options.names)]
    modes = [mode for mode in MODES if options.mode is None or options.mode in mode.name]
    below = 0
    if chosen:
        print(_head(options))
        below += measure(chosen, modes, options.rounds, options.seconds)
    if _matches("memory and idle searches", options.names):
        below += measure_big_groups(_PROGRAMS, options.entries)
    if _matches("claim few idle ones", options.names):
        below += measure_few_claimable(options.entries)
    if below:
        print(f"\n{below} below the floor of DESIGN.md 6.")
    return 1 if below and options.strict else 0


def measure(chosen: list[Workload], modes: list[Mode], rounds: int, seconds: float) -> int:
    """Run workloads and print a line for each; answers how many are below their floor."""
    print(
        "| workload | load | Rillet req/s | Redis req/s | ratio | Rillet CPU µs | Redis CPU µs | ratio | floor |"
    )
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    below = 0
    with ExitStack() as stack:
        pairs: dict[bool, list[Server]] = {}
        for load in chosen:
            if load.aof not in pairs:
                flags = _AOF_FLAGS if load.aof else ()
                pairs[load.aof] = [stack.enter_context(Server(name, *flags)) for name in _PROGRAMS]
            servers = pairs[load.aof]
            for server in servers:
                load.prepare(server)
            for mode in modes:
                samples: dict[str, list[Sample]] = {name: [] for name in _PROGRAMS}
                for turn in range(rounds):
                    for server in servers if turn % 2 == 0 else reversed(servers):
                        samples[server.program].append(load.run(server, mode, seconds))
                below += _print_line(load, mode, samples)
    return below


def _print_line(load: Workload, mode: Mode, samples: dict[str, list[Sample]]) -> bool:
    """One line of the table; True if Rillet's ratio of processor time is below the floor."""
    rates = [median([sample.requests / sample.seconds for sample in samples[name]]) for name in _PROGRAMS]
    costs = [median([sample.cpu / sample.requests * 1e6 for sample in samples[name]]) for name in _PROGRAMS]
    ratio = costs[1] / max(costs[0], 1e-9)
    floor = load.floors.get(mode.name, 0.0)
    is_below = ratio < floor
    shown = f"{floor:g}{' ✗' if is_below else ''}" if floor else ""
    print(
        f"| {load.name} | {mode.name} | {rates[0]:,.0f} | {rates[1]:,.0f} | {rates[0] / rates[1]:.2f} "
        f"| {costs[0]:.2f} | {costs[1]:.2f} | {ratio:.2f} | {shown} |",
        flush=True,
    )
    return is_below


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("names", nargs="*", help="only workloads whose names contain one of these")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds, a smaller group")
    parser.add_argument("--mode", help="only loads whose names contain this (`1 client`, `pipeline`)")
    parser.add_argument("--rounds", type=int, help="rounds of each server (5)")
    parser.add_argument("--seconds", type=float, help="length of a round (1.0)")
    parser.add_argument("--entries", type=int, help="entries for the memory figures (1,000,000)")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a floor is not held")
    options = parser.parse_args()
    options.rounds = options.rounds or (2 if options.quick else 5)
    options.seconds = options.seconds or (0.2 if options.quick else 1.0)
    options.entries = options.entries or (200_000 if options.quick else 1_000_000)
    for program in (*_PROGRAMS, "redis-benchmark"):
        if binary(program) is None:
            parser.error(f"{program} is not installed (apt install redis-server redis-tools; make install)")
    return options


def _matches(name: str, words: list[str]) -> bool:
    return not words or any(word.lower() in name.lower() for word in words)


def _head(options: argparse.Namespace) -> str:
    version = subprocess.run(
        [str(binary("redis-server")), "--version"], capture_output=True, text=True, check=True
    )
    number = version.stdout.split("v=", 1)[-1].split(" ", 1)[0]
    python = sys.version.split(" ", 1)[0]
    return f"Python {python}, redis-server {number}, {cores()}; {options.rounds} rounds of {options.seconds:g} s, medians.\n"


if __name__ == "__main__":
    sys.exit(main())
