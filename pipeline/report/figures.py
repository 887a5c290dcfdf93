"""The plots of a report, as SVG that takes its colours and its font from the page around it.

Each has two forms: for a desk, and ``narrow`` for a telephone, with fewer marks, legends below and shorter names.
"""

from __future__ import annotations

import io
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl
from matplotlib import dates, ticker
from matplotlib.figure import Figure

from ..times import format_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    Row = dict[str, Any]

# Colours stand for names of the page's style sheet, which knows light from dark.
INK, MUTED, GRID, FACE = "#000101", "#000202", "#000303", "#000404"
SERIES: Final = ("#00010a", "#00020b", "#00030c", "#00040d", "#00050e", "#00060f")
BLUE, ORANGE, GREEN, RED, VIOLET, GREY = SERIES
_NAMES: Final = {
    INK: "ink", MUTED: "muted", GRID: "grid", FACE: "face",
    **{colour: f"series-{number}" for number, colour in enumerate(SERIES, 1)},
}  # fmt: skip
_STYLE: Final[dict[Any, Any]] = {
    "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 10.0, "text.parse_math": False,
    "text.color": INK, "axes.labelcolor": MUTED, "axes.edgecolor": GRID, "xtick.color": MUTED, "ytick.color": MUTED,
    "axes.facecolor": "none", "figure.facecolor": "none", "axes.spines.top": False, "axes.spines.right": False,
    "axes.spines.left": False, "axes.grid": True, "axes.grid.axis": "y", "grid.color": GRID, "grid.linewidth": 0.8,
    "axes.axisbelow": True, "axes.titlesize": 10.5, "axes.titlelocation": "left", "axes.titlepad": 10.0,
    "axes.titleweight": "bold", "xtick.major.size": 0.0, "ytick.major.size": 0.0, "xtick.minor.size": 0.0,
    "legend.frameon": False, "legend.fontsize": 9.5, "lines.linewidth": 1.8, "date.converter": "concise",
}  # fmt: skip
_WIDTH, _NARROW_WIDTH = 10.4, 4.7  # inches of 72 units
_TIMES: Final = (1, 10, 100, 1000, 10_000, 60_000, 600_000, 3_600_000, 36_000_000, 86_400_000, 864_000_000)
_GROUPS: Final = 4
# What the ticks leave out of a date, by what they show (years, months, days, hours, minutes, seconds): as all dates here.
_OFFSETS: Final = ["", "%Y", "%Y-%m", "%Y-%m-%d", "%Y-%m-%d", "%Y-%m-%d %H:%M"]


def _named(key: Sequence[Any], longest: int = 200) -> str:
    """Return a group, of (database, stream, group); the database only if it is not the first one."""
    db, stream, group = key
    return _cut(f"{stream} / {group}" + (f" (db {db})" if db else ""), longest)


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _figure(height: float, *, narrow: bool) -> Figure:
    return Figure(figsize=(_NARROW_WIDTH if narrow else _WIDTH, height), layout="constrained")


def over_time(
    traffic: Sequence[Row], lag: Sequence[Row], groups: Sequence[Row], *, narrow: bool = False
) -> str:
    """Return what happened when, and below how far the busiest groups were behind."""
    keys = [(row["db"], row["stream"], row["group"]) for row in groups[:_GROUPS]]
    with mpl.rc_context(_STYLE):
        figure = _figure(2.6 + 1.65 * len(keys), narrow=narrow)
        axes = figure.subplots(
            1 + len(keys), 1, sharex=True, squeeze=False, height_ratios=[1.45, *[1.0] * len(keys)]
        )[:, 0]
        first, rest = axes[0], axes[1:]
        times = _moments(traffic)
        step = traffic[1]["ms"] - traffic[0]["ms"] if len(traffic) > 1 else 1
        first.fill_between(
            times, _values(traffic, "added"), step="post", color=GREY, alpha=0.28, lw=0, label="added"
        )
        for name, label, colour in (("delivered", "delivered", BLUE), ("acked", "acknowledged", GREEN)):
            first.step(times, _values(traffic, name), where="post", color=colour, label=label, lw=1.5)
        again = _values(traffic, "redelivered")
        first.fill_between(times, again, step="post", color=RED, lw=0, label="delivered again", zorder=4)
        first.set_title("Messages per " + format_duration(step).replace(".0 ", " "))
        if not narrow:
            first.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=4, borderaxespad=0.2)
        for place, (axis, key) in enumerate(zip(rest, keys, strict=True)):
            rows = [row for row in lag if (row["db"], row["stream"], row["group"]) == key]
            waiting, pending = _values(rows, "waiting"), _values(rows, "pending")
            axis.stackplot(
                _moments(rows), pending, waiting, colors=[ORANGE, VIOLET], alpha=0.75, lw=0, step="post",
                labels=["delivered, not acknowledged", "not yet delivered"],
            )  # fmt: skip
            axis.set_title(_named(key, 40 if narrow else 200))
            if not place and not narrow:
                axis.legend(
                    loc="lower right", bbox_to_anchor=(1, 1), ncols=2, borderaxespad=0.2, reverse=True
                )
        for axis in axes:
            _counted(axis)
            axis.margins(x=0)
        if narrow:
            _legend_below(figure, list(axes[:2]))
        marks = (3, 7) if narrow else (5, 10)
        locator = dates.AutoDateLocator(minticks=marks[0], maxticks=marks[1])  # type: ignore[no-untyped-call]
        axes[-1].xaxis.set_major_locator(locator)
        dated = dates.ConciseDateFormatter(locator, tz=UTC, offset_formats=_OFFSETS)  # type: ignore[no-untyped-call]
        axes[-1].xaxis.set_major_formatter(dated)
        axes[-1].set_xlabel("time (UTC)", loc="left")
        return _svg(figure, "time", narrow=narrow)


def ack_times(times: Sequence[Row], *, narrow: bool = False) -> str:
    """Return which share of the messages was acknowledged within which time."""
    with mpl.rc_context({**_STYLE, "axes.grid.axis": "both"}):
        figure = _figure(3.5, narrow=narrow)
        axis: Axes = figure.subplots()
        curves: dict[tuple[Any, ...], list[Row]] = {}
        for row in times:
            curves.setdefault((row["db"], row["stream"], row["group"]), []).append(row)
        lowest, highest = 1e18, 10.0
        for key, colour in zip(list(curves)[: len(SERIES)], SERIES, strict=False):
            rows = curves[key]
            took = [max(row["ms"], 0.5) for row in rows]
            lowest, highest = min(lowest, took[0]), max(highest, took[-1])
            axis.plot(
                took, [row["share"] for row in rows], color=colour, label=_named(key, 40 if narrow else 200)
            )
            for share in (0.5, 0.99):
                at = min(rows, key=lambda row, share=share: abs(row["share"] - share))  # type: ignore[misc]
                axis.plot([max(at["ms"], 0.5)], [at["share"]], "o", color=colour, ms=5)
        axis.set_xscale("log")
        marks = [mark for mark in _TIMES if lowest / 10 <= mark <= highest * 10]
        if narrow:
            marks = marks[:: -(-len(marks) // 4)]
        axis.set_xticks(marks, [format_duration(mark).replace(".0", "") for mark in marks])
        axis.xaxis.set_minor_locator(ticker.NullLocator())
        axis.set_xlim(lowest * 0.8, highest * 1.25)
        axis.set_ylim(0, 1.02)
        axis.yaxis.set_major_formatter(ticker.PercentFormatter(1.0))
        axis.set_title("Acknowledged within …")
        between = "\n" if narrow else " "
        axis.set_xlabel(
            f"from first delivery to acknowledgement{between}(dots: median and 99th percentile)", loc="left"
        )
        if narrow:
            _legend_below(figure, [axis])
        else:
            axis.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=3, borderaxespad=0.2)
        return _svg(figure, "ack", narrow=narrow)


def delivery_counts(repeats: Sequence[Row], *, narrow: bool = False) -> str:
    """Return how many messages were delivered once, twice, and so on."""
    counts: dict[int, int] = {}
    for row in repeats:
        number = min(row["deliveries"], 10)
        counts[number] = counts.get(number, 0) + row["messages"]
    numbers = list(range(1, max([*counts, 4]) + 1))
    with mpl.rc_context(_STYLE):
        figure = _figure(2.7, narrow=narrow)
        axis = figure.subplots()
        colours = [GREEN if number == 1 else ORANGE if number == 2 else RED for number in numbers]
        heights = [counts.get(number, 0) for number in numbers]
        bars = axis.bar(
            [str(number) if number < 10 else "10+" for number in numbers], heights, 0.62, color=colours
        )
        axis.bar_label(bars, [f"{height:,}" if height else "" for height in heights], padding=3, color=INK)
        axis.set_yscale("symlog", linthresh=1)
        axis.set_ylim(0, max([*heights, 1]) * 4)
        axis.yaxis.set_major_formatter(ticker.StrMethodFormatter("{x:,.0f}"))
        axis.yaxis.set_major_locator(ticker.SymmetricalLogLocator(base=10, linthresh=1))
        axis.set_title("Messages by how often they were delivered")
        axis.set_xlabel("deliveries", loc="left")
        return _svg(figure, "repeats", narrow=narrow)


def scoreboard(consumers: Sequence[Row], *, narrow: bool = False) -> str:
    """Return what became of the deliveries to each consumer."""
    rows = list(reversed(consumers[:14]))
    parts = (
        ("acked", "acknowledged", GREEN),
        ("repeated", "delivered to it again", VIOLET),
        ("taken_away", "taken over by others", RED),
        ("given_back", "given back", BLUE),
        ("lost", "ended otherwise", GREY),
        ("pending", "still pending", ORANGE),
    )
    with mpl.rc_context({**_STYLE, "axes.grid.axis": "x"}):
        figure = _figure(1.15 + (0.52 if narrow else 0.36) * len(rows), narrow=narrow)
        axis = figure.subplots()
        names = [_consumer_name(row, narrow=narrow) for row in rows]
        places = range(len(rows))
        lefts = [0] * len(rows)
        for field, label, colour in parts:
            widths = _values(rows, field)
            if any(widths):
                axis.barh(places, widths, 0.66, left=lefts, color=colour, label=label)
                lefts = [left + width for left, width in zip(lefts, widths, strict=True)]
        axis.set_yticks(places, names)
        axis.tick_params(axis="y", labelcolor=INK)
        axis.xaxis.set_major_formatter(ticker.StrMethodFormatter("{x:,.0f}"))
        axis.xaxis.set_major_locator(ticker.MaxNLocator(4 if narrow else 8, integer=True))
        if narrow:
            axis.set_title("Deliveries by what became of them")
            _legend_below(figure, [axis])
        else:
            axis.set_title("Deliveries to each consumer, by what became of them", pad=24)
            axis.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=6, borderaxespad=0.2)
        return _svg(figure, "consumers", narrow=narrow)


def _consumer_name(row: Row, *, narrow: bool) -> str:
    group = (row["db"], row["stream"], row["group"])
    if narrow:
        return f"{_cut(str(row['consumer']), 18)}\n{_named(group, 20)}"
    return f"{row['consumer']}  ({_named(group)})"


def _legend_below(figure: Figure, axes: Sequence[Axes]) -> None:
    handles, labels = [], []
    for axis in axes:
        more = axis.get_legend_handles_labels()
        handles += more[0]
        labels += more[1]
    figure.legend(handles, labels, loc="outside lower left", ncols=1 if max(map(len, labels)) > 24 else 2)


def _values(rows: Sequence[Row], name: str) -> list[int]:
    return [row[name] or 0 for row in rows]


def _moments(rows: Sequence[Row]) -> list[datetime]:
    return [datetime.fromtimestamp(row["ms"] / 1000, UTC) for row in rows]


def _counted(axis: Axes) -> None:
    axis.set_ylim(bottom=0)
    axis.yaxis.set_major_locator(ticker.MaxNLocator(4, integer=True))
    axis.yaxis.set_major_formatter(ticker.StrMethodFormatter("{x:,.0f}"))


def _svg(figure: Figure, name: str, *, narrow: bool) -> str:
    """Return the picture as an element of a page."""
    out = io.StringIO()
    with mpl.rc_context(
        {"svg.hashsalt": f"{name}-narrow" if narrow else name}
    ):  # ids that differ from those of the other pictures
        figure.savefig(
            out, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None}
        )
    text = out.getvalue()
    text = text[text.index("<svg") :]
    for colour, called in _NAMES.items():
        text = text.replace(colour, f"var(--{called})")
    text = re.sub(r"(font: (?:[\w.]+ )*?[\d.]+px) [^;\"]*", r"\1 var(--font)", text)
    text = re.sub(r'<svg ([^>]*?)width="[^"]*"', r"<svg \1", text, count=1)
    text = re.sub(r'<svg ([^>]*?)height="[^"]*"', r'<svg \1role="img"', text, count=1)
    return re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
