"""What a run has found: rows of load and single figures, as tables for people and as JSON for programs."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Final

from servers import LABELS, PROGRAMS

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_NAMES: Final = " | ".join(LABELS.values())
_RATIOS: Final = " | ".join(f"vs {LABELS[name]}" for name in PROGRAMS[1:])
_LOAD_HEAD: Final = (
    f"| workload | load | req/s {_NAMES} | {_RATIOS} | CPU µs {_NAMES} | {_RATIOS} | p50 / p99 ms {_NAMES} | floor |\n"
    "| --- | --- |" + " ---: |" * (5 * len(PROGRAMS) - 1)
)
_FIGURE_HEAD: Final = f"| figure | unit | {_NAMES} | {_RATIOS} | floor |\n| --- | --- |" + " ---: |" * (
    2 * len(PROGRAMS)
)


@dataclass(frozen=True)
class Measured:
    """The medians of one server's rounds."""

    requests_per_second: float
    cpu_microseconds: float
    p50_milliseconds: float
    p99_milliseconds: float


@dataclass(frozen=True)
class Row:
    """One workload in one mode; the floor is for the ratio of processor time to Redis'."""

    workload: str
    load: str
    servers: dict[str, Measured]
    floor: float = 0.0

    def rate_ratio(self, other: str) -> float:
        """How many times as many requests as another server."""
        return self.servers["rillet"].requests_per_second / self.servers[other].requests_per_second

    def cost_ratio(self, other: str) -> float:
        """How many times cheaper than another server."""
        return self.servers[other].cpu_microseconds / max(self.servers["rillet"].cpu_microseconds, 1e-9)

    @property
    def is_below(self) -> bool:
        """Whether the floor is not held."""
        return self.cost_ratio("redis-server") < self.floor

    def line(self) -> str:
        """For the terminal."""
        everyone = [self.servers[name] for name in PROGRAMS]
        others = PROGRAMS[1:]
        cells = [
            self.workload,
            self.load,
            *[f"{each.requests_per_second:,.0f}" for each in everyone],
            *[f"{self.rate_ratio(name):.2f}" for name in others],
            *[f"{each.cpu_microseconds:.2f}" for each in everyone],
            *[f"{self.cost_ratio(name):.2f}" for name in others],
            *[f"{each.p50_milliseconds:.2f} / {each.p99_milliseconds:.2f}" for each in everyone],
            f"{self.floor:g}{' ✗' * self.is_below}" if self.floor else "",
        ]
        return "| " + " | ".join(cells) + " |"


@dataclass(frozen=True)
class Figure:
    """One number for each server. The floor is for the ratio to Redis, in which above 1 means that Rillet is better."""

    name: str
    unit: str
    servers: dict[str, float]
    less_is_better: bool = True
    floor: float = 0.0

    def ratio(self, other: str) -> float:
        """How many times better than another server."""
        ours, theirs = (max(self.servers[name], 1e-9) for name in ("rillet", other))
        return theirs / ours if self.less_is_better else ours / theirs

    @property
    def is_below(self) -> bool:
        """Whether the floor is not held."""
        return self.ratio("redis-server") < self.floor

    def line(self) -> str:
        """For the terminal."""
        cells = [
            self.name,
            self.unit,
            *[_shown(self.servers[name]) for name in PROGRAMS],
            *[f"{self.ratio(name):.2f}" for name in PROGRAMS[1:]],
            f"{self.floor:.3g}{' ✗' * self.is_below}" if self.floor else "",
        ]
        return "| " + " | ".join(cells) + " |"


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


@dataclass
class Results:
    """A whole run; printed while it is made."""

    date: str
    machine: str
    versions: str
    settings: str
    rows: list[Row] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)

    @property
    def head(self) -> str:
        """What was measured, where and when."""
        return f"{self.date}; {self.versions}; {self.machine}; {self.settings}."

    def add_row(self, row: Row) -> None:
        """Keep and print it."""
        if not self.rows:
            print(f"\n{_LOAD_HEAD}")
        self.rows.append(row)
        print(row.line(), flush=True)

    def add_figures(self, figures: Iterable[Figure]) -> None:
        """Keep and print them."""
        for figure in figures:
            if not self.figures:
                print(f"\n{_FIGURE_HEAD}")
            self.figures.append(figure)
            print(figure.line(), flush=True)

    @property
    def below(self) -> int:
        """How many floors are not held."""
        return sum(each.is_below for each in (*self.rows, *self.figures))

    def write(self, path: Path) -> None:
        """As JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")


def read(path: Path) -> Results:
    """What `write` wrote."""
    content = json.loads(path.read_text(encoding="utf-8"))
    rows = [
        Row(**{**row, "servers": {name: Measured(**each) for name, each in row["servers"].items()}})
        for row in content.pop("rows")
    ]
    return Results(**{**content, "rows": rows, "figures": [Figure(**each) for each in content["figures"]]})


_BEGIN: Final = "<!-- benchmarks -->\n"
_END: Final = "<!-- /benchmarks -->"


def put_into(text: str, results: Results) -> str:
    """Put these results between the two markers of a page, in place of the earlier ones."""
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise SystemExit(f"no {_BEGIN.strip()} … {_END} to put the table between")
    return before + begin + summary(results) + end + after


def summary(results: Results) -> str:
    """The tables of docs/benchmarks.md: 50 clients at once, pipelines for XADD only, and the single figures."""
    load = "50 clients"
    lines = [
        results.head,
        "",
        f"| {load} | CPU µs: {_NAMES} | {_RATIOS} | requests/s | vs Redis | p99 ms | Redis' |",
        "| --- |" + " ---: |" * (2 * len(PROGRAMS) + 3),
    ]
    for row in results.rows:
        if row.load == load or (row.workload == "XADD" and row.load.startswith(load)):
            ours, redis = row.servers["rillet"], row.servers["redis-server"]
            cells = [
                row.workload + row.load.removeprefix(load),
                *[f"{each.cpu_microseconds:,.1f}" for each in (row.servers[name] for name in PROGRAMS)],
                *[f"{row.cost_ratio(name):.2f}" for name in PROGRAMS[1:]],
                f"{ours.requests_per_second:,.0f}",
                f"{row.rate_ratio('redis-server'):.2f}",
                f"{ours.p99_milliseconds:.2f}",
                f"{redis.p99_milliseconds:.2f}",
            ]
            lines.append("| " + " | ".join(cells) + " |")
    lines += ["", f"| | unit | {_NAMES} | {_RATIOS} |", "| --- | --- |" + " ---: |" * (2 * len(PROGRAMS) - 1)]
    lines += [figure.line().rsplit("|", 2)[0] + "|" for figure in results.figures]
    return "\n".join(lines) + "\n"
