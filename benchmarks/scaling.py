"""Whether commands cost what their documentation says when there is more of everything: makes docs/scaling.md.

    .venv/bin/python benchmarks/scaling.py --markdown docs/scaling.md    to ten million, about ten minutes, 8 GB
    .venv/bin/python benchmarks/scaling.py --quick                       to a hundred thousand
    .venv/bin/python benchmarks/scaling.py pending keys                  only what has one of the words in its name

Each figure is processor time of the server for one request, read from the system. There is a server for each size, and
they get their requests, which come pipelined, in turn: this machine is not always equally fast. Growth is what a request
costs more than its documented complexity says, between any size and a later one. Where it is too much, redis-server is
measured with the same requests: what grows there as well is the memory of this machine, not Rillet.
"""

from __future__ import annotations

import argparse
import math
import resource
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import accumulate, chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

import hiredis
from scaling_cases import GROWING
from servers import LABELS, LOAD_CORE, Connection, Server, binary, machine, matches, pin, version

if TYPE_CHECKING:
    from scaling_cases import Case, Growing

_AT_MOST: Final = 1.5
_DOCUMENTED: Final = {"1": "O(1)", "log": "O(log N)", "n": "O(N)"}
_RIVAL: Final = "redis-server"
_ROUNDS: Final = 15  # of which the lower quartile counts: others use the machine, too
_FEW_ROUNDS: Final = 5  # where each takes something away and there is little
_REQUESTS: Final = 40
_ENOUGH: Final = 20_000  # elements that a round of requests answers
_QUICK: Final = 100_000
_SETTLED: Final = 120.0  # seconds at most
_REST: Final = 0.05
_ACCOUNTED: Final = 0.0004  # the system reports the time of a process once it has gone to sleep
_LONG: Final = 0.1  # seconds; what takes longer is not done again and again


@dataclass
class Line:
    """What one command costs, by size."""

    case: Case
    costs: dict[int, float]
    rival: float = math.nan  # the growth of the other server

    @property
    def growth(self) -> float:
        """The most that it grows beyond what is documented."""
        # What more of everything makes cheaper was noise.
        costs = list(accumulate(reversed(self.costs.values()), min))[::-1]
        per_unit = [
            max(cost, 0.1) / _expected(self.case.growth, size)
            for size, cost in zip(self.costs, costs, strict=True)
        ]
        later = [max(per_unit[at:]) / each for at, each in enumerate(per_unit)]
        return max(later)

    @property
    def is_too_much(self) -> bool:
        """Whether it grows more than documented."""
        return self.growth > _AT_MOST


def _expected(growth: str, n: int) -> float:
    return {"1": 1.0, "log": math.log2(n), "n": float(n)}[growth]


def main() -> None:
    """Measure, print, and write the document."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("names", nargs="*", help="only what has one of these in its name")
    parser.add_argument("--quick", action="store_true", help=f"to {_QUICK:,}, and Rillet alone")
    parser.add_argument("--markdown", type=Path, help="where the document goes")
    asked = parser.parse_args()
    pin(LOAD_CORE)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # ten thousand clients; the server inherits it
    compares = not asked.quick and binary(_RIVAL) is not None
    begun = time.monotonic()
    sections: list[str] = []
    too_much: list[str] = []
    for growing in GROWING:
        if not matches(growing.what, asked.names):
            continue
        sizes = [n for n in growing.sizes if n <= _QUICK] if asked.quick else growing.sizes
        lines = measure(growing, "rillet", sizes)
        if compares and any(line.is_too_much for line in lines):
            _compare(lines, measure(growing, _RIVAL, sizes))
        sections.append(_section(growing, lines))
        print(sections[-1], flush=True)
        too_much += [
            f"- `{line.case.line}` with many {growing.what}: {_growth(line)}"
            for line in lines
            if line.is_too_much
        ]
    print("\n".join(too_much))
    print(f"\n({time.monotonic() - begun:.0f} seconds)", file=sys.stderr)
    if asked.markdown:
        text = "\n".join([_head(too_much), *sections])
        asked.markdown.write_text(text, encoding="utf-8")


def measure(growing: Growing, program: str, sizes: list[int] | tuple[int, ...]) -> list[Line]:
    """All commands at all sizes, a round of each size in turn; another server need not know them all."""
    with ExitStack() as stack:
        servers = {n: stack.enter_context(Server(program, "--maxclients", "12000")) for n in sizes}
        lines = [Line(case, {}) for case in growing.cases]
        kept = [growing.prepare(server, n) for n, server in servers.items()]
        for server in servers.values():
            server.settled_bytes(_SETTLED)
        turns = dict.fromkeys(servers, 0)
        for line in lines:
            meters = [Meter(server, line.case, n, turns[n]) for n, server in servers.items()]
            while unfinished := [meter for meter in meters if meter.rounds]:
                for meter in unfinished:
                    meter.go_on()
            for meter in meters:
                line.costs[meter.n] = meter.cost * 1e6
                if line.case.uses_up:
                    turns[meter.n] = meter.turn
        for connection in chain(*filter(None, kept)):
            connection.close()
    return [line for line in lines if not any(map(math.isnan, line.costs.values()))]


class Meter:
    """Measures one command on one server, round by round.

    Attributes:
        rounds: how many are still to come.
        turn: the number of the next request.
    """

    def __init__(self, server: Server, case: Case, n: int, turn: int) -> None:
        self.n = n
        self.turn = turn
        self._server = server
        self._case = case
        self._costs: list[float] = []
        self._at_once = max(1, min(_REQUESTS, _ENOUGH // n)) if case.growth == "n" else _REQUESTS
        self.rounds = _FEW_ROUNDS if case.uses_up and n <= 10 * _ROUNDS * _REQUESTS else _ROUNDS
        _let_rest(server)
        if case.alone:
            self._at_once = 1
        if case.once:
            self._at_once = self.rounds = 1
            return
        # The first ones may have to do what they find undone.
        if self._round(1) > _LONG and self._round(1) > _LONG:
            self._at_once = self.rounds = 1
        else:
            self._round(self._at_once)

    def go_on(self) -> None:
        self._costs.append(self._round(self._at_once))
        self.rounds -= 1

    @property
    def cost(self) -> float:
        """Seconds of the server's processor for one request."""
        return sorted(self._costs)[len(self._costs) // 4]

    def _round(self, number: int) -> float:
        requests = [self._case.request(at, self.n) for at in range(self.turn, self.turn + number)]
        self.turn += number
        return _round(self._server, requests, goes_on=self._case.alone)


def _let_rest(server: Server) -> None:
    """Wait until what the last command has left to the background is done."""
    while True:
        before = server.cpu_seconds()
        time.sleep(_REST)
        if server.cpu_seconds() - before < _REST / 10:
            return


def _round(server: Server, requests: list[list[bytes]], *, goes_on: bool) -> float:
    before = server.cpu_seconds()
    try:
        server.control.pipeline(list(chain(*requests)))
    except hiredis.ReplyError:
        if server.program == "rillet":
            raise
        server.control = Connection(server.port)  # the other replies are still to come
        return math.nan
    time.sleep(_ACCOUNTED)
    while server.cpu_seconds() == before:
        time.sleep(_ACCOUNTED)
    if goes_on:
        _let_finish(server)
    return (server.cpu_seconds() - before) / len(requests)


def _let_finish(server: Server) -> None:
    used = -1.0
    while used != (used := server.cpu_seconds()):
        time.sleep(_ACCOUNTED)


def _compare(lines: list[Line], rivals: list[Line]) -> None:
    """Note of those that grow too much how much they grow elsewhere."""
    grown = {rival.case: rival.growth for rival in rivals}
    for line in lines:
        if line.is_too_much:
            line.rival = grown.get(line.case, math.nan)


def _head(too_much: list[str]) -> str:
    grown = "\n".join(too_much) or "Nothing."
    return (
        "# What commands cost as the data grows\n\n"
        "Processor time of the server for one request, in microseconds. Most commands cost the same with a thousand "
        f"entries, keys or clients as with {_QUICK:,}; these grow more than {_AT_MOST} times beyond their documented "
        f"complexity:\n\n{grown}\n\n*Growth* is that factor, over the sizes that were measured. Where it is above "
        f"{_AT_MOST}, the growth of {LABELS[_RIVAL]} {version(_RIVAL)} with the same requests stands beside it, if it was "
        "measured: both fetch from memory what no longer fits into the processor's caches. Old entries of a stream of "
        "more than a thousand are packed (`stream-compress-depth 0` turns that off): scattered reads unpack them, and so "
        "do deletions.\n\n"
        f"Made by `benchmarks/scaling.py`, {time.strftime('%Y-%m-%d')}, Rillet {version('rillet')}, {machine()}.\n"
    )


def _section(growing: Growing, lines: list[Line]) -> str:
    sizes = list(lines[0].costs)
    rows = [
        f"## N {growing.what}",
        "",
        "| command | documented | " + " | ".join(f"{size:,}" for size in sizes) + " | growth |",
        "| --- | --- |" + " ---: |" * (len(sizes) + 1),
    ]
    for line in lines:
        note = f" ({line.case.note})" if line.case.note else ""
        costs = " | ".join(f"{cost:,.1f}" for cost in line.costs.values())
        shown = f"**{_growth(line)}**" if line.is_too_much else _growth(line)
        rows.append(f"| `{line.case.line}` | {_DOCUMENTED[line.case.growth]}{note} | {costs} | {shown} |")
    return "\n".join([*rows, ""])


def _growth(line: Line) -> str:
    if math.isnan(line.rival):
        return f"{line.growth:.1f}"
    return f"{line.growth:.1f} ({LABELS[_RIVAL]}: {line.rival:.1f})"


if __name__ == "__main__":
    main()
