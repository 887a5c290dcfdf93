"""Render the page of a report: one self-contained HTML file, light or dark as the reader's system.

``page.html`` is a Jinja2 template that escapes every value except ``Markup``.
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
from .stories import BEGAN, ENDED, Message, Story, message_of, redis_cli, stories_of, story_key

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .tables import Bounds, Settings

    Row = dict[str, Any]

__all__ = ["WHOLE", "Message", "Report", "message_of", "render", "story_key"]

WHOLE: Final = frozenset(
    {"times", "repeats", "traffic", "lag", "histories"}
)  # of which the page needs all rows


_GROUPS: Final = 4  # the busiest, that have a chart over time
_LINES: Final = 6  # colours of the style sheet
_FEWEST: Final = 2  # points that make a line
_MANY: Final = 10  # deliveries, from which on messages are counted together


@dataclass(frozen=True)
class Report:
    """All data of a page.

    Attributes:
        aof: the folder that was read.
        settings: the user's choices.
        bounds: the times that the ledger covers.
        sums: totals of the ledger; ``owners``: the pending entries of each consumer.
        tables: the rows to show, by table.
        counts: the number of rows of each table.
        contents: fields and values by message; None: do not show them.
    """

    aof: Path
    settings: Settings
    bounds: Bounds
    sums: dict[str, Any]
    tables: dict[str, list[Row]]
    counts: dict[str, int]
    contents: dict[Message, list[bytes]] | None = None


class Column(NamedTuple):
    """A column of a table: its heading, the CSS class of its cells, and a function for their contents."""

    heading: str
    kind: str
    cell: Callable[[Row], str]


class Tile(NamedTuple):
    """A number at the top of the page."""

    label: str
    value: str
    below: str
    kind: str = ""


class Chart(NamedTuple):
    """Lines that the shared ``chart.js`` draws.

    Attributes:
        title: the heading.
        kind: the x axis: ``time`` or ``share``.
        data: names and rows as JSON.
    """

    title: str
    kind: str
    data: str


def render(report: Report) -> str:
    """Return the HTML."""
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
    minute = partial(format_time, precise=False)
    environment.filters |= {"duration": format_duration, "moment": format_time, "minute": minute}
    template = environment.from_string("".join(map(str.strip, lines)))
    shown = report.tables
    stories = stories_of(shown["histories"], report.contents, [*shown["poison"], *shown["pending"]])
    return template.render(
        report=report,
        bounds=report.bounds,
        settings=report.settings,
        headline=_headline(report),
        story=_story(report),
        tiles=_tiles(report),
        over_time=_over_time(report),
        ack_times=_ack_times(report),
        repeats=_repeats(report),
        columns=_columns({story_key(story.row): story for story in stories}),
        stories=stories,
        style=Markup(plot_style + base + folder.joinpath("page.css").read_text(encoding="utf-8")),  # noqa: S704 - files of ours
        script=Markup(plot + chart),  # noqa: S704 - files of ours
    )


# Texts


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _share(part: float, whole: float) -> str:
    if not whole:
        return "0 %"
    share = 100 * part / whole
    if 0 < share < 0.1:
        return "< 0.1 %"
    return f"{share:.1f} %" if share < 99.95 or part == whole else "> 99.9 %"


def _headline(report: Report) -> str:
    sums = report.sums
    if not sums["messages"]:
        return "No message was delivered to any consumer group"
    if not sums["pending"]:
        return f"All {sums['messages']:,} messages were acknowledged or let go"
    return f"{sums['pending']:,} of {_count(sums['messages'], 'delivered message')} still unacknowledged"


def _story(report: Report) -> Markup:
    """Return a summary of the report in a few sentences."""
    sums, tables = report.sums, report.tables
    streams = len({(row["db"], row["stream"]) for row in tables["groups"]})
    sentences = [
        Markup("In {}, {} came in, and {} on {} took {} of {}.").format(
            format_duration(sums["span_ms"]),
            _count(sums["added"], "entry", "entries"),
            _count(report.counts["groups"], "consumer group"),
            _count(streams, "stream"),
            _count(sums["deliveries"], "delivery", "deliveries"),
            _count(sums["messages"], "message"),
        )
    ]
    if sums["redelivered"]:
        sentences.append(
            Markup("<b>{}</b> of the messages needed more than one delivery.").format(
                _share(sums["redelivered"], sums["messages"])
            )
        )
    if sums["p50"] is not None:
        sentences.append(
            Markup(
                "Half were acknowledged within <b>{}</b>, 99 % within <b>{}</b> of their first delivery."
            ).format(format_duration(sums["p50"]), format_duration(sums["p99"]))
        )
    gone = [row for row in tables["abandoned"] if row["pending"]]
    if gone:
        worst = gone[0]
        sentences.append(
            Markup("<b>{}</b> has {} in its hands and has been silent for {}.").format(
                worst["consumer"], _count(worst["pending"], "message"), format_duration(worst["silent_ms"])
            )
        )
    elif tables["abandoned"]:
        worst = tables["abandoned"][0]
        sentences.append(
            Markup("<b>{}</b> fell silent; others took over {} it had.").format(
                worst["consumer"], _count(worst["taken_away"], "message")
            )
        )
    if tables["poison"]:
        worst = tables["poison"][0]
        sentences.append(
            Markup("The most stubborn message, <code>{}</code> of {}, was delivered {}.").format(
                worst["entry_id"], worst["stream"], _count(worst["deliveries"], "time")
            )
        )
    return Markup(" ").join(sentences)


def _tiles(report: Report) -> list[Tile]:
    sums, counts = report.sums, report.counts
    silent = sum(1 for row in report.tables["abandoned"] if row["pending"])
    return [
        Tile("messages delivered", f"{sums['messages']:,}", f"{sums['deliveries']:,} deliveries"),
        Tile(
            "delivered again",
            _share(sums["redelivered"], sums["messages"]),
            _count(sums["redelivered"], "message"),
        ),
        Tile("time to ack", format_duration(sums["p50"]), f"median · p99 {format_duration(sums['p99'])}"),
        Tile(
            "pending at the end",
            f"{sums['pending']:,}",
            _share(sums["pending"], sums["messages"]),
            "warn" * bool(sums["pending"]),
        ),
        Tile(
            "poison messages",
            f"{counts['poison']:,}",
            f"{report.settings.poison_from} deliveries or more",
            "bad" * bool(counts["poison"]),
        ),
        Tile("gone consumers", f"{counts['abandoned']:,}", f"{silent} with messages", "bad" * bool(silent)),
    ]


def _over_time(report: Report) -> list[Chart]:
    """Return the chart of events over time, and of the lag of the busiest groups."""
    traffic, tables = report.tables["traffic"], report.tables
    if len(traffic) < _FEWEST:
        return []
    words = {
        "added": "added", "delivered": "delivered", "acked": "acknowledged", "redelivered": "delivered again",
    }  # fmt: skip
    step = format_duration(traffic[1]["ms"] - traffic[0]["ms"]).replace(".0 ", " ")
    charts = [_chart(f"Messages per {step}", "time", "ms", traffic, words)]
    for group in tables["groups"][:_GROUPS]:
        rows = [row for row in tables["lag"] if _key(row) == _key(group)]
        if len(rows) >= _FEWEST:
            words = {"waiting": "not yet delivered", "pending": "delivered, not acknowledged"}
            charts.append(_chart(_named(group), "time", "ms", rows, words))
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
    return [{"deliveries": number, "messages": counts[number]} for number in sorted(counts)]


def _chart(title: str, kind: str, x: str, rows: list[Row], columns: dict[str, str]) -> Chart:
    data = [[row[x] / 1000 for row in rows], *([row[field] or 0 for row in rows] for field in columns)]
    return Chart(title, kind, json.dumps({"names": list(columns.values()), "rows": data}))


def _key(row: Row) -> tuple[Any, ...]:
    return row["db"], row["stream"], row["group"]


def _named(row: Row) -> str:
    return f"{row['stream']} / {row['group']}" + (f" (db {row['db']})" if row["db"] else "")


# Columns


def _number(field: str, heading: str | None = None) -> Column:
    def cell(row: Row) -> str:
        value = row[field]
        if value is None:
            return "-"
        return "FATAL" if value > 1 << 60 else f"{value:,}" if value else Markup('<span class="nil">0</span>')

    return Column(heading or field, "n", cell)


def _length(field: str, heading: str) -> Column:
    return Column(heading, "n", lambda row: format_duration(row[field]))


def _moment(field: str, heading: str, *, precise: bool = False) -> Column:
    return Column(heading, "t", lambda row: format_time(row[field], precise=precise))


def _held(row: Row) -> int | None:
    if row["ended_ms"] is None or row["began_ms"] is None:
        return None
    held: int = row["ended_ms"] - row["began_ms"]
    return max(held, 0)


def _path(row: Row) -> str:
    steps: list[str] = row["path"].split(" → ")
    if len(steps) > 5:
        steps = [*steps[:2], f"… {len(steps) - 4} more …", *steps[-2:]]
    return " → ".join(steps)


def _state(row: Row) -> str:
    state = row["state"]
    kind = "good" if state == "acked" else "open" if state == "pending" else "gone"
    return Markup('<span class="state {}">{}</span>').format(kind, state)


def _let_go(row: Row) -> str:
    """Return the command that ends the pending state of a message; empty if it has ended."""
    if row["state"] != "pending":
        return Markup("")
    return Markup("<code>{}</code>").format(
        redis_cli(row, "XACK", row["stream"], row["group"], row["entry_id"])
    )


def _take_over(row: Row) -> str:
    """Return the command that gives the entries of a silent consumer to another one."""
    if not row["pending"]:
        return Markup("")
    line = redis_cli(row, "XAUTOCLAIM", row["stream"], row["group"])
    return Markup("<code>{} <i>consumer</i> {} 0</code>").format(line, row["silent_ms"])


def _group(row: Row) -> str:
    name = Markup("{} <i>/</i> {}").format(row["stream"], row["group"])
    return name + Markup(" <small>db {}</small>").format(row["db"]) if row["db"] else name


def _consumer(row: Row) -> str:
    return Markup("<b>{}</b>").format(row["consumer"]) if row["consumer"] else Markup("<i>nobody</i>")


_GROUP: Final = Column("stream / group", "", _group)
_CONSUMER: Final = Column("consumer", "", _consumer)


def _columns(stories: dict[tuple[Any, ...], Story]) -> dict[str, tuple[Column, ...]]:
    """Return the columns of each table; an entry links to its story."""

    def link(row: Row) -> str:
        story = stories.get(story_key(row))
        shown = Markup("<code>{}</code>").format(row["entry_id"])
        return Markup('<a href="#{}">{}</a>').format(story.anchor, shown) if story else shown

    entry = Column("entry", "", link)
    return {
        "groups": (
            _GROUP, _number("messages"), _number("deliveries"),
            Column("delivered again", "n", lambda row: _share(row["redelivered"], row["messages"])),
            _number("acked"), _number("pending"), _length("ack_p50", "p50"), _length("ack_p90", "p90"),
            _length("ack_p99", "p99"), _length("ack_max", "slowest"), _length("total_p50", "p50 since added"),
        ),
        "poison": (
            _GROUP, entry, _number("deliveries"), Column("handed from one to the next", "path", _path),
            Column("now", "", _state), _moment("first_ms", "first delivered"), _moment("last_ms", "last delivered"),
            Column("to let it go", "command", _let_go),
        ),
        "consumers": (
            _CONSUMER, _GROUP, _number("deliveries"), _number("acked"), _number("taken_over", "took over"),
            _number("repeated", "again"), _number("taken_away", "taken away"), _number("given_back", "given back"),
            _number("lost", "ended otherwise"), _number("pending"), _length("ack_p50", "p50"), _length("ack_p99", "p99"),
            _moment("last_seen_ms", "last seen"),
        ),
        "repeats": (
            Column("deliveries", "n", lambda row: f"{row['deliveries']}" + "+" * (row["deliveries"] == _MANY)),
            _number("messages"),
        ),
        "abandoned": (
            _CONSUMER, _GROUP, _number("pending", "still in its hands"), _number("taken_away", "taken over by others"),
            _moment("last_seen_ms", "last seen"), _length("silent_ms", "silent for"),
            Column("to take its messages over", "command", _take_over),
        ),
        "owners": (
            _GROUP, _CONSUMER, _number("messages"), _number("deliveries", "most deliveries"),
            _length("oldest_ms", "idle longest"), _length("newest_ms", "idle shortest"),
        ),
        "steps": (
            Column("step", "n", lambda row: f"{row['step']:,}"),
            Column("what", "", lambda row: BEGAN.get(row["began"]) or str(row["began"])),
            _CONSUMER, _moment("began_ms", "when", precise=True),
            Column("held for", "n", lambda row: format_duration(_held(row))),
            Column("until", "", lambda row: ENDED.get(row["ended"]) or str(row["ended"])),
        ),
        "pending": (
            _GROUP, entry, _CONSUMER, _number("deliveries"), _moment("delivered_ms", "delivered"),
            _length("idle_ms", "idle"),
        ),
    }  # fmt: skip
