"""The picture of a run, docs/benchmarks.png: python benchmarks/plot.py docs/benchmarks/<run>.json picture.png."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from results import read
from servers import LABELS, PROGRAMS

try:
    import matplotlib as mpl
except ImportError as error:
    raise SystemExit("a plot needs matplotlib: pip install --editable '.[spark]'") from error

mpl.use("Agg")
from matplotlib import pyplot as plt

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from results import Results

_COLOURS: Final = {
    "rillet": "#2a6f97",
    "redis-server": "#c44536",
    "redis-8.10": "#e08e79",
    "valkey-server": "#9a8c98",
}
_LOADS: Final = ("50 clients", "50 clients, pipeline 16")


def draw(results: Results, path: Path) -> None:
    """How many times Redis' speed (by processor time) for each workload, and what an entry takes."""
    found = [[row for row in results.rows if row.load == load] for load in _LOADS]
    panels = [(load, rows) for load, rows in zip(_LOADS, found, strict=True) if rows]
    if not panels:
        print("Nothing to draw: no workload was measured with 50 clients.")
        return
    sizes = [figure for figure in results.figures if figure.unit == "bytes" and "entry" in figure.name]
    height = 1.6 + 0.27 * max(len(rows) for _, rows in panels)
    plt.rcParams.update({"font.family": "DejaVu Sans", "font.size": 8.5})
    figure, axes = plt.subplots(
        1,
        len(panels) + bool(sizes),
        figsize=(5.0 * (len(panels) + bool(sizes)), height),
        squeeze=False,
        layout="constrained",
    )
    for axis, (load, rows) in zip(axes[0], panels, strict=False):
        names = [row.workload for row in rows]
        for program, offset in (("rillet", -0.27), ("redis-8.10", 0), ("valkey-server", 0.27)):
            ratios = [
                row.servers["redis-server"].cpu_microseconds
                / max(row.servers[program].cpu_microseconds, 1e-9)
                for row in rows
            ]
            _bars(axis, ratios, offset, program, 0.25, start=1)
        axis.set_yticks(range(len(names)), names)
        axis.set_title(f"{load}: work per CPU second, Redis = 1", loc="left", fontsize=9.5)
        axis.set_xscale("log", base=2)
        axis.xaxis.set_major_formatter("{x:g}")
        axis.axvline(1, color=_COLOURS["redis-server"], linewidth=1.2)
    if sizes:
        axis = axes[0][-1]
        for program, offset in zip(PROGRAMS, (-0.3, -0.1, 0.1, 0.3), strict=True):
            _bars(axis, [each.servers[program] for each in sizes], offset, program, 0.19, label="{:,.0f}")
        axis.set_yticks(
            range(len(sizes)),
            [each.name.removeprefix("memory per ").replace(", ", "\n") for each in sizes],
        )
        axis.set_title("memory, bytes", loc="left", fontsize=9.5)
    for axis in axes[0]:
        axis.invert_yaxis()
        axis.margins(x=0.14, y=0.01)
        axis.spines[["top", "right", "left"]].set_visible(False)
        axis.tick_params(axis="y", length=0)
    figure.legend(
        handles=[plt.Rectangle((0, 0), 1, 1, color=_COLOURS[name], label=LABELS[name]) for name in PROGRAMS],
        frameon=False,
        ncols=len(PROGRAMS),
        loc="outside upper right",
    )
    figure.supxlabel(results.head, fontsize=6.5, color="#666666")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=140, metadata={"Software": None})
    plt.close(figure)


def _bars(
    axis: Axes,
    values: list[float],
    offset: float,
    program: str,
    width: float,
    start: float = 0,
    label: str = "{:.2g}",
) -> None:
    places = [at + offset for at in range(len(values))]
    lengths = [value - start for value in values]
    bars = axis.barh(places, lengths, width, left=start, color=_COLOURS[program])
    axis.bar_label(bars, [label.format(value) for value in values], padding=2, fontsize=6.5, color="#444444")


if __name__ == "__main__":
    draw(read(Path(sys.argv[1])), Path(sys.argv[2]))
