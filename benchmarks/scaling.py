"""Whether commands cost what their documentation says when there is more of everything: makes docs/scaling.md.

    .venv/bin/python benchmarks/scaling.py --publish        to ten million, about ten minutes, 8 GB
    .venv/bin/python benchmarks/scaling.py --quick          to a hundred thousand
    .venv/bin/python benchmarks/scaling.py pending keys     only what has one of the words in its name

Each figure is processor time of the server for one request, read from the system. There is a server for each size, and
they get their requests, which come pipelined, in turn: this machine is not always equally fast. Growth is what a request
costs more than its documented complexity says, between any size and a later one. Where it is too much, redis-server is
measured with the same requests: what grows there as well is the memory of this machine, not Rillet.
"""

from __future__ import annotations

import math
import time
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Final

import hiredis
from scaling_cases import GROWING
from servers import LABELS, ROOT, Connection, Server, labelled, matches, open_files, pin, where
from tables import Table, options

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
            max(cost, 0.1) / {"1": 1.0, "log": math.log2(size), "n": size}[self.case.growth]
            for size, cost in zip(self.costs, costs, strict=True)
        ]
        later = [max(per_unit[at:]) / each for at, each in enumerate(per_unit)]
        return max(later)

    @property
    def is_too_much(self) -> bool:
        """Whether it grows more than documented."""
        return self.growth > _AT_MOST

    @property
    def shown(self) -> str:
        """The growth, beside that of the other server."""
        beside = "" if math.isnan(self.rival) else f" ({LABELS[_RIVAL]}: {self.rival:.1f})"
        return f"{self.growth:.1f}{beside}"


def main() -> None:
    """Measure, print, and write the document."""
    asked = options(__doc__, "names", "--quick", "--publish").parse_args()
    pin()
    open_files(12_000)
    sections: list[str] = []
    too_much: list[str] = []
    for growing in GROWING:
        if not matches(growing.what, asked.names):
            continue
        sizes = [n for n in growing.sizes if n <= _QUICK] if asked.quick else growing.sizes
        lines = measure(growing, "rillet", sizes)
        grown = [line for line in lines if line.is_too_much]
        if grown and not asked.quick:
            rivals = {rival.case: rival.growth for rival in measure(growing, _RIVAL, sizes)}
            for line in grown:
                line.rival = rivals.get(line.case, math.nan)
        sections.append(_section(growing, lines))
        print(sections[-1], flush=True)
        too_much += [f"- `{line.case.line}` with many {growing.what}: {line.shown}" for line in grown]
    print("\n".join(too_much))
    if asked.publish:
        text = "\n".join([_head(too_much), *sections])
        (ROOT / "docs/scaling.md").write_text(text, encoding="utf-8")


def measure(growing: Growing, program: str, sizes: list[int] | tuple[int, ...]) -> list[Line]:
    """All commands at all sizes, a round of each size in turn; another server need not know them all."""
    with ExitStack() as stack:
        servers = {n: stack.enter_context(Server(program, "--maxclients", "12000")) for n in sizes}
        lines = [Line(case, {}) for case in growing.cases]
        for n, server in servers.items():
            growing.prepare(server, n)
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
                if "gone" in line.case.marks:
                    turns[meter.n] = meter.turn
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
        self.rounds = _FEW_ROUNDS if "gone" in case.marks and n <= 10 * _ROUNDS * _REQUESTS else _ROUNDS
        server.rest()  # what the last command has left to the background
        if "alone" in case.marks:
            self._at_once = 1
        if "once" in case.marks:
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
        turns = range(self.turn, self.turn + number)
        self.turn += number
        server, before = self._server, self._server.cpu_seconds()
        try:
            server.control.feed([each for turn in turns for each in self._case.request(turn, self.n)])
        except hiredis.ReplyError:
            if server.program == "rillet":
                raise
            server.control = Connection(server.port)  # the other replies are still to come
            return math.nan
        time.sleep(_ACCOUNTED)
        while server.cpu_seconds() == before:
            time.sleep(_ACCOUNTED)
        used = -1.0
        while "alone" in self._case.marks and used != (used := server.cpu_seconds()):
            time.sleep(_ACCOUNTED)
        return (server.cpu_seconds() - before) / number


def _head(too_much: list[str]) -> str:
    grown = "\n".join(too_much) or "Nothing."
    return (
        "# What commands cost as the data grows\n\n"
        "Processor time of the server for one request, in microseconds. Most commands cost the same with a thousand "
        f"entries, keys or clients as with {_QUICK:,}; these grow more than {_AT_MOST} times beyond their documented "
        f"complexity:\n\n{grown}\n\n*Growth* is that factor, over the sizes that were measured. Where it is above "
        f"{_AT_MOST}, the growth of {labelled(_RIVAL)} with the same requests stands beside it, if it was "
        "measured: both fetch from memory what no longer fits into the processor's caches. Old entries of a stream of "
        "more than a thousand are packed (`stream-compress-depth 0` turns that off): scattered reads unpack them, and so "
        "do deletions.\n\n"
        f"Made by `benchmarks/scaling.py`, {labelled('rillet')}, {where()}.\n"
    )


def _section(growing: Growing, lines: list[Line]) -> str:
    sizes = " | ".join(f"{size:,}" for size in lines[0].costs)
    table = Table(f"command | documented | {sizes} | growth", words=2, quiet=True)
    for line in lines:
        note = f" ({line.case.note})" if line.case.note else ""
        costs = [f"{cost:,.1f}" for cost in line.costs.values()]
        growth = f"**{line.shown}**" if line.is_too_much else line.shown
        table.add(f"`{line.case.line}`", f"{_DOCUMENTED[line.case.growth]}{note}", *costs, growth)
    return f"## N {growing.what}\n\n{table.text}"


if __name__ == "__main__":
    main()
