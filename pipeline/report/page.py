"""The page of a report: one HTML file that needs nothing else, in the reader's light or dark.

``page.html`` is a Jinja2 template that escapes every value; what is markup says so with ``Markup``.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from ..times import format_duration, format_time

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .tables import Bounds, Settings

    Row = dict[str, Any]

WHOLE: Final = frozenset({"times", "repeats", "traffic", "lag"})  # curves need all their rows


@dataclass(frozen=True)
class Report:
    """All that a page shows.

    Attributes:
        aof: the folder that was read.
        settings: what the user chose.
        bounds: what the ledger spans.
        sums: figures of the whole ledger; ``owners``: what each consumer had pending.
        tables: the rows to show, by table.
        counts: how many rows the tables have.
    """

    aof: Path
    settings: Settings
    bounds: Bounds
    sums: dict[str, Any]
    tables: dict[str, list[Row]]
    counts: dict[str, int]


class Column(NamedTuple):
    """A column of a table: its heading, the CSS class of its cells, and what a cell shows."""

    heading: str
    kind: str
    cell: Callable[[Row], str]


class Tile(NamedTuple):
    """A figure at the top of the page."""

    label: str
    value: str
    below: str
    kind: str = ""


def render(report: Report) -> str:
    """Return the HTML."""
    folder = files(__package__)
    lines = folder.joinpath("page.html").read_text(encoding="utf-8").splitlines()
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    minute = partial(format_time, precise=False)
    environment.filters |= {"duration": format_duration, "moment": format_time, "minute": minute}
    template = environment.from_string("".join(map(str.strip, lines)))
    return template.render(
        report=report,
        bounds=report.bounds,
        settings=report.settings,
        headline=_headline(report),
        story=_story(report),
        tiles=_tiles(report),
        figures=_figures(report),
        columns=_COLUMNS,
        style=Markup(folder.joinpath("page.css").read_text(encoding="utf-8")),  # noqa: S704 - a file of ours
    )


# Words


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
    """Return what a colleague would say in a few sentences."""
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


def _figures(report: Report) -> dict[str, Markup]:
    """Return the plots, by name; empty where a plot has no rows."""
    from . import figures

    tables = report.tables
    plots: dict[str, tuple[str, tuple[str, ...], Callable[..., str]]] = {
        "over_time": ("traffic", ("traffic", "lag", "groups"), figures.over_time),
        "ack_times": ("times", ("times",), figures.ack_times),
        "delivery_counts": ("repeats", ("repeats",), figures.delivery_counts),
        "scoreboard": ("consumers", ("consumers",), figures.scoreboard),
    }
    return {
        name: Markup(draw(*map(tables.__getitem__, drawn)) if tables[needed] else "")  # noqa: S704 - matplotlib's SVG
        for name, (needed, drawn, draw) in plots.items()
    }


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


def _moment(field: str, heading: str) -> Column:
    return Column(heading, "t", lambda row: format_time(row[field], precise=False))


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
    """Return the line that ends the pending state of a message; nothing where it has ended."""
    if row["state"] != "pending":
        return Markup("")
    words = [
        "redis-cli",
        *(["-n", str(row["db"])] if row["db"] else []),
        "XACK",
        row["stream"],
        row["group"],
        row["entry_id"],
    ]
    return Markup("<code>{}</code>").format(shlex.join(words))


def _take_over(row: Row) -> str:
    """Return the line that gives what a silent consumer has to another one."""
    if not row["pending"]:
        return Markup("")
    words = [
        "redis-cli",
        *(["-n", str(row["db"])] if row["db"] else []),
        "XAUTOCLAIM",
        row["stream"],
        row["group"],
    ]
    return Markup("<code>{} <i>consumer</i> {} 0</code>").format(shlex.join(words), row["silent_ms"])


def _group(row: Row) -> str:
    name = Markup("{} <i>/</i> {}").format(row["stream"], row["group"])
    return name + Markup(" <small>db {}</small>").format(row["db"]) if row["db"] else name


def _consumer(row: Row) -> str:
    return Markup("<b>{}</b>").format(row["consumer"]) if row["consumer"] else Markup("<i>nobody</i>")


_GROUP: Final = Column("stream / group", "", _group)
_CONSUMER: Final = Column("consumer", "", _consumer)
_ENTRY: Final = Column("entry", "", lambda row: Markup("<code>{}</code>").format(row["entry_id"]))
_COLUMNS: Final = {
    "groups": (
        _GROUP, _number("messages"), _number("deliveries"),
        Column("delivered again", "n", lambda row: _share(row["redelivered"], row["messages"])),
        _number("acked"), _number("pending"), _length("ack_p50", "p50"), _length("ack_p90", "p90"),
        _length("ack_p99", "p99"), _length("ack_max", "slowest"), _length("total_p50", "p50 since added"),
    ),
    "poison": (
        _GROUP, _ENTRY, _number("deliveries"), Column("handed from one to the next", "path", _path),
        Column("now", "", _state), _moment("first_ms", "first delivered"), _moment("last_ms", "last delivered"),
        Column("to let it go", "command", _let_go),
    ),
    "consumers": (
        _CONSUMER, _GROUP, _number("deliveries"), _number("acked"), _number("taken_over", "took over"),
        _number("taken_away", "taken away"), _number("pending"), _length("ack_p50", "p50"), _length("ack_p99", "p99"),
        _moment("last_seen_ms", "last seen"),
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
    "pending": (
        _GROUP, _ENTRY, _CONSUMER, _number("deliveries"), _moment("delivered_ms", "delivered"),
        _length("idle_ms", "idle"),
    ),
}  # fmt: skip
