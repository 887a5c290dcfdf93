"""Render the page of a report: one self-contained HTML file, light or dark as the reader's system.

``page.html`` is a Jinja2 template with all texts and tables; it escapes every value. This module prepares the charts.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup

from ...console import style as shared
from ..times import format_duration, format_time
from .stories import BEGAN, ENDED, Message, redis_cli, stories_of, story_key

if TYPE_CHECKING:
    from .tables import Bounds, Settings

    Row = dict[str, Any]

# The tables of which the page needs all rows.
WHOLE: Final = frozenset({"times", "repeats", "traffic", "lag", "histories"})


_GROUPS: Final = 4  # the busiest, that have a chart over time
_LINES: Final = 6  # colours of the style sheet
_FEWEST: Final = 2  # points that make a line
_MANY: Final = 10  # deliveries, from which on messages are counted together


@dataclass(frozen=True)
class Report:
    """Everything that the page of a report shows."""

    aof: str  # the folder that was read
    settings: Settings  # the user's choices
    bounds: Bounds  # the times that the ledger covers
    sums: dict[str, Any]  # totals of the ledger; ``owners``: the pending entries of each consumer
    tables: dict[str, list[Row]]  # the rows to show, by table
    counts: dict[str, int]  # the number of rows of each table
    contents: dict[Message, list[bytes]] | None = None  # fields and values by message; None: do not show them


class Chart(NamedTuple):
    """The lines of one chart on the page of a report, which the shared ``chart.js`` draws."""

    title: str  # the heading
    kind: str  # the x axis: ``time`` or ``share``
    data: str  # names and rows as JSON


def render(report: Report) -> str:
    """Return the HTML page of a report."""
    folder, common = files(__package__), files(shared)
    tile, base, plot_style, plot, chart = (
        common.joinpath(*path.split("/")).read_text(encoding="utf-8")
        for path in (
            "templates/tile.html", "static/base.css", "static/uplot.min.css", "static/uplot.min.js", "static/chart.js",
        )
    )  # fmt: skip
    lines = folder.joinpath("page.html").read_text(encoding="utf-8").splitlines()
    environment = Environment(
        loader=DictLoader({"tile.html": tile}), autoescape=True, undefined=StrictUndefined
    )
    environment.filters |= {
        "duration": format_duration, "moment": format_time, "minute": partial(format_time, precise=False),
        "number": "{:,}".format, "counted": _counted, "share": _share,
    }  # fmt: skip
    template = environment.from_string("".join(map(str.strip, lines)))
    tables = report.tables
    stories = stories_of(tables["histories"], report.contents, [*tables["poison"], *tables["pending"]])
    return template.render(
        report=report,
        bounds=report.bounds,
        settings=report.settings,
        sums=report.sums,
        tables=tables,
        streams=len({(row["db"], row["stream"]) for row in tables["groups"]}),
        over_time=_over_time(report),
        ack_times=_ack_times(report),
        repeats=_repeats(report),
        stories=stories,
        anchors={story_key(story.row): story.anchor for story in stories},
        began=BEGAN,
        ended=ENDED,
        redis_cli=redis_cli,
        style=Markup(plot_style + base + folder.joinpath("page.css").read_text(encoding="utf-8")),  # noqa: S704 - files of ours
        script=Markup(plot + chart),  # noqa: S704 - files of ours
    )


def _counted(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _share(part: float, whole: float) -> str:
    if not whole:
        return "0 %"
    share = 100 * part / whole
    if 0 < share < 0.1:
        return "< 0.1 %"
    return f"{share:.1f} %" if share < 99.95 or part == whole else "> 99.9 %"


# Charts


def _over_time(report: Report) -> list[Chart]:
    """Return the chart of events over time, and of the lag of the busiest groups."""
    traffic, tables = report.tables["traffic"], report.tables
    if len(traffic) < _FEWEST:
        return []
    words = {
        "added": "added", "delivered": "delivered", "acked": "acknowledged", "redelivered": "delivered again",
    }  # fmt: skip
    step = format_duration(traffic[1]["ms"] - traffic[0]["ms"]).replace(".0 ", " ")
    charts = [_chart(f"Messages per {step}", traffic, words)]
    for group in tables["groups"][:_GROUPS]:
        rows = [row for row in tables["lag"] if _key(row) == _key(group)]
        if len(rows) >= _FEWEST:
            words = {"waiting": "not yet delivered", "pending": "delivered, not acknowledged"}
            charts.append(_chart(_named(group), rows, words))
    return charts


def _ack_times(report: Report) -> list[Chart]:
    """Return the chart of acknowledgement times: the share of messages acknowledged within a time, for the busiest groups."""
    lines: dict[str, list[Row]] = {}
    for row in report.tables["times"]:
        lines.setdefault(_named(row), []).append(row)
    names = list(lines)[:_LINES]
    if not names:
        return []
    # All groups have the same shares. The logarithmic axis needs values above zero.
    rows = [[row["share"] for row in lines[names[0]]]]
    rows += [[max(row["ms"], 0.5) for row in lines[name]] for name in names]
    return [Chart("Acknowledged within", "share", json.dumps({"names": names, "rows": rows}))]


def _repeats(report: Report) -> list[Row]:
    """Return the chart of how many messages were delivered once, twice, and so on."""
    counts: Counter[int] = Counter()
    for row in report.tables["repeats"]:
        counts[min(row["deliveries"], _MANY)] += row["messages"]
    return [
        {"deliveries": f"{number}+" if number == _MANY else number, "messages": counts[number]}
        for number in sorted(counts)
    ]


def _chart(title: str, rows: list[Row], columns: dict[str, str]) -> Chart:
    data = [[row["ms"] / 1000 for row in rows], *([row[field] or 0 for row in rows] for field in columns)]
    return Chart(title, "time", json.dumps({"names": list(columns.values()), "rows": data}))


def _key(row: Row) -> tuple[Any, ...]:
    return row["db"], row["stream"], row["group"]


def _named(row: Row) -> str:
    return f"{row['stream']} / {row['group']}" + (f" (db {row['db']})" if row["db"] else "")
