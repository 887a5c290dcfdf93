"""What a run has found: rows of load and single figures, as tables for people and as JSON for programs.

The last run is kept in `docs/benchmarks/`, named by date and commit.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Final

from servers import LABELS, PROGRAMS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from pathlib import Path

_MANY: Final = "50 clients"
_SLOWEST: Final = 10
_NAMES: Final = " | ".join(LABELS.values())
_RATIOS: Final = " | ".join(f"vs {LABELS[name]}" for name in PROGRAMS[1:])
_LOAD_HEAD: Final = (
    f"| workload | load | req/s {_NAMES} | {_RATIOS} | CPU µs {_NAMES} | {_RATIOS} | p50 / p99 ms {_NAMES} |\n"
    "| --- | --- |" + " ---: |" * (5 * len(PROGRAMS) - 2)
)
_FIGURE_HEAD: Final = f"| figure | unit | {_NAMES} | {_RATIOS} |\n| --- | --- |" + " ---: |" * (
    2 * len(PROGRAMS) - 1
)


@dataclass(frozen=True)
class Measured:
    """The medians of one server's rounds; of user and system time, which the system counts in ticks of 10 ms, the means."""

    requests_per_second: float
    cpu_microseconds: float
    p50_milliseconds: float
    p99_milliseconds: float
    user_microseconds: float = 0.0
    system_microseconds: float = 0.0


@dataclass(frozen=True)
class Row:
    """One workload in one mode. By TLS it has fewer servers, whose cells are empty then."""

    workload: str
    load: str
    servers: dict[str, Measured]

    def rate_ratio(self, other: str) -> float:
        """How many times as many requests as another server."""
        return self.servers["rillet"].requests_per_second / self.servers[other].requests_per_second

    def cost_ratio(self, other: str) -> float:
        """How many times cheaper than another server."""
        return self.servers[other].cpu_microseconds / max(self.servers["rillet"].cpu_microseconds, 1e-9)

    def cells(self, shown: Callable[[Measured], str]) -> list[str]:
        """Something of each server."""
        return [shown(self.servers[name]) if name in self.servers else "" for name in PROGRAMS]

    def ratios(self, ratio: Callable[[str], float]) -> list[str]:
        """A ratio to each of the others."""
        return [f"{ratio(name):.2f}" if name in self.servers else "" for name in PROGRAMS[1:]]

    def line(self) -> str:
        cells = [
            self.workload,
            self.load,
            *self.cells(lambda each: f"{each.requests_per_second:,.0f}"),
            *self.ratios(self.rate_ratio),
            *self.cells(lambda each: f"{each.cpu_microseconds:.2f}"),
            *self.ratios(self.cost_ratio),
            *self.cells(lambda each: f"{each.p50_milliseconds:.2f} / {each.p99_milliseconds:.2f}"),
        ]
        return "| " + " | ".join(cells) + " |"


@dataclass(frozen=True)
class Figure:
    """One number for each server."""

    name: str
    unit: str
    servers: dict[str, float]
    less_is_better: bool = True

    def ratio(self, other: str) -> float:
        """How many times better than another server."""
        ours, theirs = (max(self.servers[name], 1e-9) for name in ("rillet", other))
        return theirs / ours if self.less_is_better else ours / theirs

    def line(self) -> str:
        cells = [
            self.name,
            self.unit,
            *[_shown(self.servers[name]) for name in PROGRAMS],
            *[f"{self.ratio(name):.2f}" for name in PROGRAMS[1:]],
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
    commit: str = ""
    load_averages: list[float] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)

    @property
    def head(self) -> str:
        """What was measured, where and when."""
        parts = [
            self.date,
            f"commit {self.commit}" if self.commit else "",
            self.versions,
            self.machine,
            self.settings,
        ]
        if self.load_averages:
            parts.append(
                f"load average {' and '.join(f'{each:.1f}' for each in self.load_averages)}, before and after"
            )
        return "; ".join(filter(None, parts)) + "."

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


def keep(results: Results, folder: Path) -> None:
    """Write a run into the folder in place of the last one."""
    for earlier in folder.glob("*-bench.json"):
        earlier.unlink()
    results.write(folder / f"{results.date}-{results.commit.removesuffix('+')}-bench.json")


def put_into(text: str, name: str, content: str) -> str:
    """Put a table between the two markers of a page that have its name, in place of the earlier one."""
    before, begin, rest = text.partition(f"<!-- {name} -->\n")
    _, end, after = rest.partition(f"<!-- /{name} -->")
    if not begin or not end:
        raise SystemExit(f"no <!-- {name} --> … <!-- /{name} --> to put the table between")
    return before + begin + content + end + after


def slowest_first(results: Results, names: Collection[str]) -> str:
    """The table of README.md: of these workloads, as 50 clients send them, what costs most beside Redis."""
    rows = [row for row in results.rows if row.load == _MANY and row.workload in names]
    others = " | ".join(f"of {LABELS[name]}" for name in PROGRAMS[1:])
    lines = [
        f"| work per processor second | {others} | requests/s, of Redis |",
        "| --- |" + " ---: |" * len(PROGRAMS),
    ]
    for row in sorted(rows, key=lambda row: row.cost_ratio("redis-server"))[:_SLOWEST]:
        ratios = " | ".join(f"{row.cost_ratio(name):.2f}" for name in PROGRAMS[1:])
        lines.append(f"| {row.workload} | {ratios} | {row.rate_ratio('redis-server'):.2f} |")
    return "\n".join(lines) + f"\n\n{results.head}\n"


def summary(results: Results) -> str:
    """The tables of docs/benchmarks.md: 50 clients at once, pipelines for XADD only, and the single figures."""
    lines = [
        results.head,
        "",
        f"| {_MANY} | CPU µs: {_NAMES} | {_RATIOS} | requests/s | vs Redis | p99 ms | Redis' |",
        "| --- |" + " ---: |" * (2 * len(PROGRAMS) + 3),
    ]
    for row in results.rows:
        if row.load == _MANY or (row.workload == "XADD" and row.load.startswith(_MANY)):
            ours, redis = row.servers["rillet"], row.servers["redis-server"]
            cells = [
                row.workload + row.load.removeprefix(_MANY),
                *row.cells(lambda each: f"{each.cpu_microseconds:,.1f}"),
                *row.ratios(row.cost_ratio),
                f"{ours.requests_per_second:,.0f}",
                f"{row.rate_ratio('redis-server'):.2f}",
                f"{ours.p99_milliseconds:.2f}",
                f"{redis.p99_milliseconds:.2f}",
            ]
            lines.append("| " + " | ".join(cells) + " |")
    lines += ["", _FIGURE_HEAD, *[figure.line() for figure in results.figures]]
    return "\n".join(lines) + "\n"
