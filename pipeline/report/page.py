"""The page of a report: one HTML file that needs nothing else, in the reader's light or dark."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from ..cli.times import format_duration, format_time

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from .tables import Bounds, Settings

    Row = dict[str, Any]

WHOLE: Final = frozenset({"times", "repeats", "traffic", "lag"})  # curves need all their rows


@dataclass(frozen=True)
class Report:
    """All a page tells.

    Attributes:
        aof: the folder that was read.
        sums: figures of the whole ledger; ``owners``: who had how much pending.
        tables: the rows to show, by table.
        counts: how many rows the tables have.
    """

    aof: Path
    settings: Settings
    bounds: Bounds
    sums: dict[str, Any]
    tables: dict[str, list[Row]]
    counts: dict[str, int]


def render(report: Report) -> str:
    """The HTML."""
    style = files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    title = escape(_headline(report))
    body = "".join(
        part(report) for part in (_head, _tiles, _over_time, _acks, _repeats, _consumers, _pending, _foot)
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{style}</style></head><body><main>{body}</main></body></html>\n"
    )


# Words


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _share(part: float, whole: float) -> str:
    if not whole:
        return "0 %"
    share = 100 * part / whole
    if 0 < share < 0.1:
        return "&lt; 0.1 %"
    return f"{share:.1f} %" if share < 99.95 or part == whole else "&gt; 99.9 %"


def _headline(report: Report) -> str:
    sums = report.sums
    if not sums["messages"]:
        return "No message was delivered to any consumer group"
    if not sums["pending"]:
        return f"All {sums['messages']:,} messages were acknowledged or let go"
    return f"{sums['pending']:,} of {_count(sums['messages'], 'delivered message')} still unacknowledged"


def _story(report: Report) -> str:
    """What a colleague would say in three sentences."""
    sums, tables = report.sums, report.tables
    streams = len({(row["db"], row["stream"]) for row in tables["groups"]})
    told = []
    told.append(
        f"In {format_duration(sums['span_ms'])}, {_count(sums['added'], 'entry', 'entries')} came in, and "
        f"{_count(report.counts['groups'], 'consumer group')} on {_count(streams, 'stream')} took "
        f"{_count(sums['deliveries'], 'delivery', 'deliveries')} of {_count(sums['messages'], 'message')}."
    )
    if sums["redelivered"]:
        told.append(
            f"<b>{_share(sums['redelivered'], sums['messages'])}</b> of the messages needed more than one delivery."
        )
    if sums["p50"] is not None:
        told.append(
            f"Half were acknowledged within <b>{format_duration(sums['p50'])}</b>, 99 % within "
            f"<b>{format_duration(sums['p99'])}</b> of their first delivery."
        )
    gone = [row for row in tables["abandoned"] if row["pending"]]
    if gone:
        worst = gone[0]
        told.append(
            f"<b>{escape(worst['consumer'])}</b> has {_count(worst['pending'], 'message')} in its hands and has been silent "
            f"for {format_duration(worst['silent_ms'])}."
        )
    elif tables["abandoned"]:
        worst = tables["abandoned"][0]
        told.append(
            f"<b>{escape(worst['consumer'])}</b> fell silent; others took over {_count(worst['taken_away'], 'message')} it had."
        )
    if tables["poison"]:
        worst = tables["poison"][0]
        told.append(
            f"The most stubborn message, <code>{escape(worst['entry_id'])}</code> of {escape(worst['stream'])}, was delivered "
            f"{_count(worst['deliveries'], 'time')}."
        )
    return " ".join(told)


# Parts of the page


def _head(report: Report) -> str:
    bounds = report.bounds
    return (
        f'<header><p class="eyebrow">Delivery report · {escape(str(report.aof))}</p><h1>{escape(_headline(report))}</h1>'
        f'<p class="lead">{_story(report)}</p>'
        f'<p class="note">{format_time(bounds.from_ms, precise=False)} to {format_time(bounds.until_ms, precise=False)} UTC'
        f"{_clock_note(bounds)}</p></header>"
    )


def _clock_note(bounds: Bounds) -> str:
    if not bounds.is_timed:
        return (
            " · The file says only in part when things happened: some times are those of the delivery before. "
            "<code>aof-timestamp-enabled ms</code> makes Rillet write them."
        )
    if not bounds.precise:
        return (
            " · Acknowledgements are timed to the second. <code>aof-timestamp-enabled ms</code> makes Rillet write "
            "milliseconds."
        )
    return ""


def _tiles(report: Report) -> str:
    sums, counts = report.sums, report.counts
    silent = sum(1 for row in report.tables["abandoned"] if row["pending"])
    tiles = (
        ("messages delivered", f"{sums['messages']:,}", f"{sums['deliveries']:,} deliveries", ""),
        (
            "delivered again",
            _share(sums["redelivered"], sums["messages"]),
            _count(sums["redelivered"], "message"),
            "",
        ),
        ("time to ack", format_duration(sums["p50"]), f"median · p99 {format_duration(sums['p99'])}", ""),
        (
            "pending at the end",
            f"{sums['pending']:,}",
            _share(sums["pending"], sums["messages"]),
            "warn" * bool(sums["pending"]),
        ),
        (
            "poison messages",
            f"{counts['poison']:,}",
            f"{report.settings.poison_from} deliveries or more",
            "bad" * bool(counts["poison"]),
        ),
        ("gone consumers", f"{counts['abandoned']:,}", f"{silent} with messages", "bad" * bool(silent)),
    )
    return (
        '<section class="tiles">'
        + "".join(
            f'<div class="tile {kind}"><span>{label}</span><strong>{value}</strong><small>{below}</small></div>'
            for label, value, below, kind in tiles
        )
        + "</section>"
    )


def _over_time(report: Report) -> str:
    from .figures import over_time

    tables = report.tables
    if not tables["traffic"]:
        return ""
    return _section(
        "Over time",
        "Above, what happened; below, how much of each group's work was waiting (not yet delivered) and in hands "
        "(delivered, not acknowledged).",
        _figure(over_time(tables["traffic"], tables["lag"], tables["groups"])),
    )


def _acks(report: Report) -> str:
    from .figures import ack_times

    tables = report.tables
    figure = _figure(ack_times(tables["times"])) if tables["times"] else ""
    columns = (
        _GROUP, _number("messages"), _number("deliveries"),
        ("delivered again", "n", lambda row: _share(row["redelivered"], row["messages"])),
        _number("acked"), _number("pending"), _length("ack_p50", "p50"), _length("ack_p90", "p90"),
        _length("ack_p99", "p99"), _length("ack_max", "slowest"), _length("total_p50", "p50 since added"),
    )  # fmt: skip
    return _section(
        "Time to acknowledge",
        "From the first delivery of a message to its acknowledgement, by group: redeliveries are part of it.",
        figure + _table(report, "groups", columns),
    )


def _repeats(report: Report) -> str:
    from .figures import delivery_counts

    tables = report.tables
    columns = (
        _GROUP, _ENTRY, _number("deliveries"), ("handed from one to the next", "path", _path),
        ("now", "", lambda row: _state(row["state"])), _moment("first_ms", "first delivered"),
        _moment("last_ms", "last delivered"),
    )  # fmt: skip
    lead = (
        f"Messages that were delivered {report.settings.poison_from} times or more make their consumers fail, or wait for "
        "one that does not come."
        if tables["poison"]
        else f"No message was delivered {report.settings.poison_from} times or more."
    )
    figure = _figure(delivery_counts(tables["repeats"])) if tables["repeats"] else ""
    return _section("Redelivery and poison messages", lead, figure + _table(report, "poison", columns))


def _consumers(report: Report) -> str:
    from .figures import scoreboard

    tables = report.tables
    columns = (
        _CONSUMER, _GROUP, _number("deliveries"), _number("acked"), _number("taken_over", "took over"),
        _number("taken_away", "taken away"), _number("pending"), _length("ack_p50", "p50"), _length("ack_p99", "p99"),
        _moment("last_seen_ms", "last seen"),
    )  # fmt: skip
    gone = (
        _CONSUMER, _GROUP, _number("pending", "still in its hands"), _number("taken_away", "taken over by others"),
        _moment("last_seen_ms", "last seen"), _length("silent_ms", "silent for"),
    )  # fmt: skip
    figure = _figure(scoreboard(tables["consumers"])) if tables["consumers"] else ""
    silence = format_duration(report.settings.abandoned_ms)
    below = (
        f"<h3>Abandoned</h3><p>Silent for {silence} or longer at the end, with messages in their hands or taken from "
        f"them.</p>{_table(report, 'abandoned', gone)}"
        if tables["abandoned"]
        else f"<p>No consumer with messages has been silent for {silence}.</p>"
    )
    return _section(
        "Consumers",
        "What became of the deliveries to each consumer. Its p50 and p99 are from a delivery to it to its "
        "acknowledgement.",
        figure + _table(report, "consumers", columns) + below,
    )


def _pending(report: Report) -> str:
    bounds = report.bounds
    at = f"{format_time(bounds.at_ms)} UTC"
    if not report.tables["pending"]:
        return _section("Pending", f"Nothing was pending at {at}.", "")
    owners = (
        _GROUP, _CONSUMER, _number("messages"), _number("deliveries", "most deliveries"),
        _length("oldest_ms", "idle longest"), _length("newest_ms", "idle shortest"),
    )  # fmt: skip
    entries = (
        _GROUP, _ENTRY, _CONSUMER, _number("deliveries"), _moment("delivered_ms", "delivered"),
        _length("idle_ms", "idle"),
    )  # fmt: skip
    return _section(
        "Pending",
        f"The pending lists as of {at}, as XPENDING would have told them. <code>--at</code> asks for any other moment.",
        _rows(report.sums["owners"], owners) + "<h3>Entries</h3>" + _table(report, "pending", entries),
    )


def _foot(report: Report) -> str:
    listed = "".join(
        f"<li><code>tables/{name}</code> {report.counts[name]:,} rows</li>" for name in report.counts
    )
    return (
        "<footer><h2>Tables</h2><p>Everything here, and all rows that did not fit, is beside this page as Parquet: "
        "<code>tables/ledger</code> (one row an event), <code>tables/spans</code> (who held what from when to when) "
        f"and</p><ul>{listed}</ul><p>Made by <code>rillet pipeline report</code> from {report.bounds.events:,} events "
        "of the append-only file.</p></footer>"
    )


# Tables

Column = tuple[str, str, "Callable[[Row], str]"]  # heading, class, cell


def _number(field: str, heading: str | None = None) -> Column:
    def cell(row: Row) -> str:
        value = row[field]
        if value is None:
            return "-"
        return "FATAL" if value > 1 << 60 else f"{value:,}" if value else '<span class="nil">0</span>'

    return heading or field, "n", cell


def _length(field: str, heading: str) -> Column:
    return heading, "n", lambda row: format_duration(row[field])


def _moment(field: str, heading: str) -> Column:
    return heading, "t", lambda row: format_time(row[field], precise=False)


def _path(row: Row) -> str:
    steps = row["path"].split(" → ")
    if len(steps) > 5:
        steps = [*steps[:2], f"… {len(steps) - 4} more …", *steps[-2:]]
    return escape(" → ".join(steps))


def _state(state: str) -> str:
    return f'<span class="state {"good" if state == "acked" else "open" if state == "pending" else "gone"}">{escape(state)}</span>'


_GROUP: Final[Column] = (
    "stream / group", "", lambda row: f"{escape(row['stream'])} <i>/</i> {escape(row['group'])}" + f" <small>db {row['db']}</small>" * bool(row["db"]),
)  # fmt: skip
_CONSUMER: Final[Column] = (
    "consumer",
    "",
    lambda row: f"<b>{escape(row['consumer'])}</b>" if row["consumer"] else "<i>nobody</i>",
)
_ENTRY: Final[Column] = ("entry", "", lambda row: f"<code>{escape(row['entry_id'])}</code>")


def _section(title: str, lead: str, content: str) -> str:
    return f"<section><h2>{title}</h2><p>{lead}</p>{content}</section>"


def _figure(svg: str) -> str:
    return f"<figure>{svg}</figure>"


def _table(report: Report, name: str, columns: Sequence[Column]) -> str:
    rows, count = report.tables[name], report.counts[name]
    if not rows:
        return ""
    rest = f'<p class="note">The first {len(rows)} of {count:,}; all are in <code>tables/{name}</code>.</p>'
    return _rows(rows, columns) + (rest if count > len(rows) else "")


def _rows(rows: Sequence[Row], columns: Sequence[Column]) -> str:
    head = "".join(f'<th class="{kind}">{heading}</th>' for heading, kind, _ in columns)
    body = "".join(
        "<tr>" + "".join(f'<td class="{kind}">{cell(row)}</td>' for _, kind, cell in columns) + "</tr>"
        for row in rows
    )
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
