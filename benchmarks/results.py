"""What `make bench` has found: rows of load and single figures, as tables for people and as JSON for programs.

The last run is kept in `docs/benchmarks/`, named by date and commit.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Final

from servers import LABELS, PROGRAMS
from tables import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from pathlib import Path

_MANY: Final = "50 clients"
_SLOWEST: Final = 10
_NAMES: Final = " | ".join(LABELS.values())
_RATIOS: Final = " | ".join(f"vs {LABELS[name]}" for name in PROGRAMS[1:])


@dataclass(frozen=True)
class Measured:
    """The medians of one server's rounds."""

    requests_per_second: float
    cpu_microseconds: float
    p50_milliseconds: float
    p99_milliseconds: float


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


@dataclass(frozen=True)
class Figure:
    """One number for each server; less is better."""

    name: str
    unit: str
    servers: dict[str, float]

    def cells(self) -> list[str]:
        """A line of the table: the numbers, and how many times better than each other server the first is."""
        numbers = [self.servers[name] for name in PROGRAMS]
        shown = [f"{each:,.0f}" if each >= 100 else f"{each:.3g}" for each in numbers]
        ratios = [f"{max(each, 1e-9) / max(numbers[0], 1e-9):.2f}" for each in numbers[1:]]
        return [self.name, self.unit, *shown, *ratios]


@dataclass
class Results:
    """A whole run."""

    date: str
    machine: str
    versions: str
    settings: str
    commit: str
    load_averages: list[float]
    rows: list[Row] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)

    @property
    def head(self) -> str:
        """What was measured, where and when."""
        loads = " and ".join(f"{each:.1f}" for each in self.load_averages)
        parts = (self.date, f"commit {self.commit}", self.versions, self.machine, self.settings)
        return f"{'; '.join(parts)}; load average {loads}, before and after."

    def add_rows(self, rows: Iterable[Row]) -> None:
        """Keep and print them."""
        print()
        head = f"workload | load | req/s {_NAMES} | {_RATIOS} | CPU µs {_NAMES} | {_RATIOS} | p50 / p99 ms {_NAMES}"
        table = Table(head, words=2)
        for row in rows:
            self.rows.append(row)
            table.add(
                row.workload,
                row.load,
                *row.cells(lambda each: f"{each.requests_per_second:,.0f}"),
                *row.ratios(row.rate_ratio),
                *row.cells(lambda each: f"{each.cpu_microseconds:.2f}"),
                *row.ratios(row.cost_ratio),
                *row.cells(lambda each: f"{each.p50_milliseconds:.2f} / {each.p99_milliseconds:.2f}"),
            )

    def add_figures(self, figures: Iterable[Figure]) -> str:
        """Keep and print them; return the table."""
        print()
        table = Table(f"figure | unit | {_NAMES} | {_RATIOS}", words=2)
        for figure in figures:
            self.figures.append(figure)
            table.add(*figure.cells())
        return table.text

    def keep(self, folder: Path) -> None:
        """Write all of it as JSON into the folder, in place of the last run."""
        folder.mkdir(parents=True, exist_ok=True)
        for earlier in folder.glob("*-bench.json"):
            earlier.unlink()
        path = folder / f"{self.date}-{self.commit.removesuffix('+')}-bench.json"
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")


def slowest_first(results: Results, names: Collection[str]) -> str:
    """The table of README.md: of these workloads, as 50 clients send them, what costs most beside Redis."""
    rows = [row for row in results.rows if row.load == _MANY and row.workload in names]
    others = " | ".join(f"of {LABELS[name]}" for name in PROGRAMS[1:])
    table = Table(f"work per processor second | {others} | requests/s, of Redis", quiet=True)
    for row in sorted(rows, key=lambda row: row.cost_ratio("redis-server"))[:_SLOWEST]:
        table.add(row.workload, *row.ratios(row.cost_ratio), f"{row.rate_ratio('redis-server'):.2f}")
    return f"{table.text}\n{results.head}\n"


def summary(results: Results, figures: str) -> str:
    """The tables of docs/benchmarks.md: 50 clients at once, pipelines for XADD only, and the single figures."""
    table = Table(
        f"{_MANY} | CPU µs: {_NAMES} | {_RATIOS} | requests/s | vs Redis | p99 ms | Redis'", quiet=True
    )
    for row in results.rows:
        if row.load == _MANY or (row.workload == "XADD" and row.load.startswith(_MANY)):
            ours, redis = row.servers["rillet"], row.servers["redis-server"]
            table.add(
                row.workload + row.load.removeprefix(_MANY),
                *row.cells(lambda each: f"{each.cpu_microseconds:,.1f}"),
                *row.ratios(row.cost_ratio),
                f"{ours.requests_per_second:,.0f}",
                f"{row.rate_ratio('redis-server'):.2f}",
                f"{ours.p99_milliseconds:.2f}",
                f"{redis.p99_milliseconds:.2f}",
            )
    return f"{results.head}\n\n{table.text}\n{figures}"
