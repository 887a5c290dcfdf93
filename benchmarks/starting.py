"""How long a server takes to be there, and what it takes while nothing is asked of it; and Rillet on each Python.

    .venv/bin/python benchmarks/starting.py             beside fakeredis, too: `make bench-start`
    .venv/bin/python benchmarks/starting.py --pythons                      `make bench-pythons`

Processor time, because the wall time of a start is mostly that of the machine: what else runs, and what is in its
caches. It is that of the whole process, interpreter included, until the reply to a first PING. The Pythons are those of
`.venvs/`, which `make test-pythons` makes. All take turns in each round; medians.
"""

from __future__ import annotations

import os
import time
from functools import partial
from statistics import geometric_mean, median
from typing import TYPE_CHECKING, Final

from loads import PIPED
from servers import PROGRAMS, ROOT, Server, alternate, environment, labelled, pin, require, where
from tables import Table, options, publish
from workloads import WORKLOADS, play

if TYPE_CHECKING:
    import argparse

_FAKEREDIS: Final = "fakeredis[lua]==2.40.0"
_ENVIRONMENT: Final = ROOT / ".frameworks" / "fakeredis"
# Takes the flags that every server gets here, and needs those of the address.
_FAKE_SERVER: Final = """#!{python}
import sys
from fakeredis import TcpFakeServer
port = int(sys.argv[sys.argv.index("--port") + 1])
TcpFakeServer(("127.0.0.1", port), server_type="redis").serve_forever()
"""
_IDLE_SECONDS: Final = 5.0


def install_fakeredis() -> None:
    """Put fakeredis into an environment of its own, and its server where ``servers.binary`` finds it."""
    program = _ENVIRONMENT / "bin" / "fakeredis-server"
    if not program.exists():
        python = environment(_ENVIRONMENT, _FAKEREDIS)
        program.write_text(_FAKE_SERVER.format(python=python), encoding="utf-8")
        program.chmod(0o755)
    os.environ["RILLET_PEER_FAKEREDIS"] = str(program)


def measured(program: str) -> tuple[float, float, int, float]:
    """Start a server once: milliseconds of processor and wall time to the first PONG, idle bytes, idle ms a second."""
    begun = time.perf_counter()
    with Server(program) as server:
        server.control.call("PING")
        wall, cpu = time.perf_counter() - begun, server.cpu_seconds()
        idle_bytes = server.settled_bytes(20)
        before, since = server.cpu_seconds(), time.perf_counter()
        time.sleep(_IDLE_SECONDS)
        idle = (server.cpu_seconds() - before) / (time.perf_counter() - since)
    return cpu * 1000, wall * 1000, idle_bytes, idle * 1000


def table(names: dict[str, str], rounds: int) -> str:
    """Return the table of all servers: medians of the rounds, in which they take turns."""
    for program in names:
        with Server(program):
            pass  # its files are in the caches, and the bytecode of Python is written
    found = alternate(rounds, {program: partial(measured, program) for program in names})
    print(head := f"{where()}; medians of {rounds} starts.\n")
    made = Table(" | processor time to the first PONG | wall time | idle memory | processor time while idle")
    for program, rows in found.items():
        cpu, wall, idle_bytes, idle = (median(column) for column in zip(*rows, strict=True))
        made.add(
            names[program],
            f"{cpu:.0f} ms",
            f"{wall:.0f} ms",
            f"{idle_bytes / 2**20:.1f} MiB",
            f"{idle:.2f} ms/s",
        )
    return f"{head}\n{made.text}"


def pythons() -> dict[str, str]:
    """Return a name for Rillet on each Python that `make test-pythons` has made an environment for."""
    found = sorted((ROOT / ".venvs").glob("3.*/bin/rillet"))
    if len(found) < 2:
        raise SystemExit("needs the environments of several Pythons below .venvs/: make test-pythons")
    names = [path.parents[1].name for path in found]
    os.environ |= {f"RILLET_PEER_{name}": str(path) for name, path in zip(names, found, strict=True)}
    return {name: f"Python {name}" for name in names}


def table_of_commands(names: dict[str, str], asked: argparse.Namespace) -> str:
    """Return the table of pipelined everyday commands: a row for each, a column for each Python."""
    asked.names, asked.mode, asked.seconds = [], PIPED.name, 0.2
    made = Table(f"CPU µs, {PIPED.name}, {asked.rounds} rounds | {' | '.join(names.values())}")
    ratios: list[list[float]] = []
    for workload, _, samples in play(asked, names, [each for each in WORKLOADS if each.everyday]):
        costs = [median(sample.cost for sample in found) * 1e6 for found in samples.values()]
        made.add(workload.name, *[f"{cost:.2f}" for cost in costs])
        ratios.append([cost / costs[0] for cost in costs])
    means = map(geometric_mean, zip(*ratios, strict=True))
    made.add("all of them, mean of the ratios", *[f"{each:.2f}" for each in means])
    return made.text


def main() -> None:
    """Print the table, and put it into a page between its markers."""
    parser = options(__doc__, "--publish", rounds=9)
    parser.add_argument("--pythons", action="store_true", help="Rillet on each Python instead")
    asked = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # a second start finds compiled modules, as everywhere
    pin()
    if asked.pythons:
        require("redis-benchmark")
        names = pythons()
        text = f"{table(names, asked.rounds)}\n{table_of_commands(names, asked)}"
        publish(asked, "docs/running.md", "pythons", text)
    else:
        require(*PROGRAMS)
        install_fakeredis()
        names = {program: labelled(program) for program in PROGRAMS}
        names["fakeredis"] = f"fakeredis, `TcpFakeServer` {_FAKEREDIS.rpartition('=')[2]}"
        publish(asked, "docs/running.md", "starting", table(names, asked.rounds))


if __name__ == "__main__":
    main()
