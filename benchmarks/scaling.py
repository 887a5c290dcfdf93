"""Whether commands cost what their documentation says when there is more of everything: makes docs/scaling.md.

    .venv/bin/python benchmarks/scaling.py                       to ten million, about half an hour, 15 GB
    .venv/bin/python benchmarks/scaling.py --quick               to a million
    .venv/bin/python benchmarks/scaling.py --quick pending keys  only what has one of the words in its name

Each figure is processor time of the server for one request, read from the system; requests come pipelined, in five
rounds, and up to a hundred thousand from three servers one after another; medians. Growth is what a request costs more than its
documented complexity says, between any size and a later one.
"""

from __future__ import annotations

import argparse
import math
import resource
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

import hiredis
from scaling_cases import BIG, GROWING, QUICK_BIG
from servers import LABELS, LOAD_CORE, PROGRAMS, Connection, Server, machine, pin, version

if TYPE_CHECKING:
    from scaling_cases import Case, Growing

_AT_MOST: Final = 1.5
_ROUNDS: Final = 5
_REQUESTS: Final = 40
_SERVERS: Final = 3  # that are filled and measured, where it is done soon
_SMALL: Final = 100_000
_ENOUGH: Final = 20_000  # elements that a round of requests answers
_DOCS: Final = Path(__file__).resolve().parents[1] / "docs" / "scaling.md"


@dataclass
class Line:
    """What one command costs, by size."""

    case: Case
    documented: str
    costs: dict[int, float]

    @property
    def growth(self) -> float:
        """The most that it grows beyond what is documented."""
        per_unit = [max(cost, 0.1) / _expected(self.case.growth, size) for size, cost in self.costs.items()]
        later = [max(per_unit[at:]) / each for at, each in enumerate(per_unit)]
        return max(later)

    @property
    def is_too_much(self) -> bool:
        """Whether it grows more than documented."""
        return self.growth > _AT_MOST


def _expected(growth: str, n: int) -> float:
    return {"1": 1.0, "log": math.log2(n), "n": float(n)}[growth]


def main() -> int:
    """Measure, print, and write the document; 1 if something grows too much and --strict was given."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("names", nargs="*", help="only what has one of these in its name; writes no document")
    parser.add_argument("--quick", action="store_true", help="to a million instead of ten")
    parser.add_argument("--strict", action="store_true", help="exit with 1 if a command grows too much")
    parser.add_argument(
        "--program", default="rillet", choices=PROGRAMS, help="another server, to compare with"
    )
    parser.add_argument("--out", type=Path, help="where the document goes (docs/scaling.md)")
    asked = parser.parse_args()
    pin(LOAD_CORE)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # ten thousand clients; the server inherits it
    sections = []
    too_much = []
    for growing in GROWING:
        if asked.names and not any(name in growing.what for name in asked.names):
            continue
        lines = measure(growing, asked.program, growing.sizes or (QUICK_BIG if asked.quick else BIG))
        sections.append(_section(growing, lines))
        print(sections[-1], flush=True)
        too_much += [
            f"- `{line.case.line}` with many {growing.what}: {line.growth:.1f} times"
            for line in lines
            if line.is_too_much
        ]
    closing = "\n".join([f"## What grows more than {_AT_MOST} times", "", *(too_much or ["Nothing."])])
    print(closing)
    if asked.out or not asked.names:
        (asked.out or _DOCS).write_text(
            "\n".join([_head(asked.program), *sections, closing, ""]), encoding="utf-8"
        )
    return 1 if too_much and asked.strict else 0


def measure(growing: Growing, program: str, sizes: tuple[int, ...]) -> list[Line]:
    """All commands at all sizes; another server need not know them all."""
    lines: list[Line] = []
    for n in sizes:
        costs: list[list[float]] = [[] for _ in growing.cases]
        for _ in range(_SERVERS if n <= _SMALL else 1):
            with Server(program, "--maxclients", "12000") as server:
                lines = lines or [Line(case, _documented(server, case), {}) for case in growing.cases]
                kept = growing.prepare(server, n)
                server.settled_bytes()
                used_up = 0
                for case, found in zip(growing.cases, costs, strict=True):
                    found.append(_cost(server, case, n, used_up) * 1e6)
                    used_up += _REQUESTS * (_ROUNDS + 1) * case.uses_up
                for connection in kept or ():
                    connection.close()
        for line, found in zip(lines, costs, strict=True):
            line.costs[n] = median(found)
    return [line for line in lines if not any(map(math.isnan, line.costs.values()))]


def _cost(server: Server, case: Case, n: int, used_up: int) -> float:
    """Seconds of the server's processor for one request; the first round is not counted."""
    rounds = 0 if case.once else _ROUNDS
    at_once = 1 if case.once else _REQUESTS
    if case.growth == "n":
        at_once = max(1, min(at_once, _ENOUGH // n))
    costs = []
    for start in range(used_up, used_up + (rounds + 1) * at_once, at_once):
        requests = [case.request(turn, n) for turn in range(start, start + at_once)]
        before = server.cpu_seconds()
        try:
            server.control.pipeline(requests)
        except hiredis.ReplyError:
            if server.program == "rillet":
                raise
            server.control = Connection(server.port)  # the other replies are still to come
            return math.nan
        costs.append((server.cpu_seconds() - before) / at_once)
    return median(costs[1:] or costs)


def _documented(server: Server, case: Case) -> str:
    """The complexity as COMMAND DOCS tells it."""
    found = server.control.call("COMMAND", "DOCS", case.command)
    if not found:
        return ""
    [_, told] = found  # type: ignore[misc]
    return str(dict(zip(told[::2], told[1::2], strict=True))[b"complexity"].decode())


def _head(program: str) -> str:
    return (
        "# What commands cost when there is more of everything\n\n"
        "Processor time of the server for one request, in microseconds. *Growth* is what the dearest costs more "
        "than the documented complexity says (1: as much whatever N is; log: with its logarithm; n: with N); up to "
        f"{_AT_MOST} is as documented.\n\n"
        f"Made by `benchmarks/scaling.py`, {time.strftime('%Y-%m-%d')}, {LABELS[program]} {version(program)}, {machine()}.\n"
    )


def _section(growing: Growing, lines: list[Line]) -> str:
    sizes = list(lines[0].costs)
    rows = [
        f"## N {growing.what}",
        "",
        "| command | documented | as | " + " | ".join(f"{size:,}" for size in sizes) + " | growth |",
        "| --- | --- | --- |" + " ---: |" * (len(sizes) + 1),
    ]
    for line in lines:
        documented = (
            line.documented if len(line.documented) <= 60 else line.documented.split(".")[0][:60] + " …"
        )
        note = f" ({line.case.note})" if line.case.note else ""
        costs = " | ".join(f"{cost:,.1f}" for cost in line.costs.values())
        shown = f"**{line.growth:.1f}**" if line.is_too_much else f"{line.growth:.1f}"
        rows.append(f"| `{line.case.line}` | {documented}{note} | {line.case.growth} | {costs} | {shown} |")
    return "\n".join([*rows, ""])


if __name__ == "__main__":
    sys.exit(main())
