"""``rillet top``: streams and groups as a live table in the terminal."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.console import Group as Lines
from rich.live import Live
from rich.text import Text

from ..arguments import Parser
from . import names
from .api import streams
from .command import with_password
from .connection import GoneError, Link
from .connection_advice import cannot_read, next_step
from .garbage import garbage
from .model import Group, Stream
from .poller import Overview, Poller
from .render import count, duration, rate, size
from .style import POISON_DELIVERIES

COLUMNS: Final = (
    "stream / group", "length", "memory", "in", "out", "lag", "pending", "oldest", "tries", "done",
)  # fmt: skip
# The width of names. If the terminal is too narrow, columns are dropped, in this order:
LEAST_NAME: Final = 16
GOING: Final = ("done", "memory", "out", "in", "length", "tries")
HELP: Final = f"""\
q      end                              up, down, PgUp, PgDn, Home    go through the lines
/      show what has a text in its name; Enter keeps it, Esc drops it
?      this help

▲ marks groups with an entry that was delivered {POISON_DELIVERIES} times or more. "oldest" is the longest idle time of a pending
entry; ~ before it: not all pending entries were looked at yet; "not read": none. "done":
entries that all groups have acknowledged and that nothing trimmed."""
_KEYS: Final = {
    "\x1b[A": "up", "\x1bOA": "up", "k": "up", "\x1b[B": "down", "\x1bOB": "down", "j": "down", "\x1b[5~": "page up",
    "\x1b[6~": "page down", " ": "page down", "\x1b[H": "home", "\x1b[1~": "home",
}  # fmt: skip

Row = tuple[tuple[str, ...], str]  # cells, and a style


def main(words: list[str]) -> int:
    """Show the table until ``q`` or Ctrl-C, or once; return 1 if the server cannot be read at the start."""
    made = Parser(
        prog="rillet top", description="Streams and groups, the worst first, read-only.", epilog=HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    made.add_argument("url", help="as for rillet console")
    made.add_argument(
        "--once", action="store_true", help="print one table and end; so it is where it is piped"
    )
    made.add_argument("--plain", action="store_true", help="all lines once, separated by tabs, for scripts")
    made.add_argument("--json", action="store_true", help="once, as /api/streams of rillet console")
    options = made.parse_args(words)
    try:
        link = Link(with_password(options.url))
    except ValueError as error:
        made.error(str(error))
    once = options.once or options.plain or options.json or not sys.stdout.isatty()
    try:
        return asyncio.run(_once(link, plain=options.plain, as_json=options.json) if once else _live(link))
    except KeyboardInterrupt:
        return 0
    except BrokenPipeError:  # `rillet top … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


async def _once(link: Link, *, plain: bool, as_json: bool) -> int:
    async with link:
        poller = Poller(link)
        try:
            await poller.round()
            while poller.overview.sweeping:
                await poller.round()
        except GoneError as error:
            print(cannot_read(link.shown, error), file=sys.stderr)  # noqa: T201 - a command-line tool
            return 1
        overview = poller.overview
        if as_json:
            print(json.dumps(streams(overview)))  # noqa: T201 - a command-line tool
        elif plain:
            print("\t".join(("stream", "group", *COLUMNS[1:])))  # noqa: T201 - a command-line tool
            for cells in plain_rows(overview):
                print("\t".join(cells))  # noqa: T201 - as above
        else:
            console = Console()
            # A pipe has no width: names stay whole there.
            width = console.width if sys.stdout.isatty() else 10_000
            console.print(table(overview, link.shown, View(rows=1 << 30, width=width)), soft_wrap=True)
    return 0


@dataclass(slots=True)
class View:
    """The state of the table in the terminal: what it shows, and whether it ends."""

    start: int = 0  # the first line shown; ``rows``: how many fit
    rows: int = 20
    width: int = 80
    find: str = ""  # only names that contain this text are shown; ``typing``: it is being typed
    typing: bool = False
    helps: bool = False
    ends: bool = False

    def press(self, key: str) -> None:
        """Handle a key press, given as the bytes that a terminal sends for it."""
        if self.typing:
            self._type(key)
            return
        if self.helps:
            self.helps = False
            return
        what = _KEYS.get(key, key)
        steps = {"up": -1, "down": 1, "page up": -self.rows, "page down": self.rows, "home": -self.start}
        self.start = max(0, self.start + steps.get(what, 0))
        self.ends = what in {"q", "\x03"}
        self.helps = what in {"?", "h"}
        if what == "/":
            self.typing, self.find, self.start = True, "", 0
        elif what == "\x1b":
            self.find, self.start = "", 0

    def _type(self, key: str) -> None:
        if key in {"\r", "\n"}:
            self.typing = False
        elif key.startswith("\x1b"):
            self.typing, self.find = False, ""
        elif key in {"\x7f", "\b"}:
            self.find = self.find[:-1]
        elif key.isprintable():
            self.find += key
        self.start = 0


async def _live(link: Link) -> int:
    async with link:
        poller = Poller(link)
        try:
            await poller.round()
        except GoneError as error:
            print(cannot_read(link.shown, error), file=sys.stderr)  # noqa: T201 - a command-line tool
            return 1
        task = asyncio.ensure_future(poller.run())
        view = View()
        with Live(auto_refresh=False, screen=True) as live, _keys(view, poller):
            async with poller.viewing([]):
                while not task.done() and not view.ends:
                    view.rows, view.width = live.console.height - 5, live.console.width
                    live.update(table(poller.overview, link.shown, view), refresh=True)
                    await poller.ticked()
        poller.stop()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    return 0


@contextlib.contextmanager
def _keys(view: View, poller: Poller) -> Iterator[None]:
    """Read keys as they are pressed, if the system's terminal supports that; Ctrl-C works everywhere."""
    try:
        import termios
        import tty
    except ImportError:  # Windows
        yield
        return
    if not sys.stdin.isatty():
        yield
        return
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)

    def read() -> None:
        text = os.read(fd, 64).decode("utf-8", "replace")
        for key in [text] if text in _KEYS or text.startswith("\x1b") else text:
            view.press(key)
        poller.release()

    tty.setcbreak(fd)
    loop = asyncio.get_running_loop()
    loop.add_reader(fd, read)
    try:
        yield
    finally:
        loop.remove_reader(fd)
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


def table(overview: Overview, address: str, view: View) -> Lines:
    """Return the table: one line per stream and group, as many as fit, streams in trouble first.

    Numbers stay whole at any width: names get shorter, then columns are dropped.
    """
    found = [row for row in _rows(overview) if view.find.lower() in row[0][0].lower()]
    view.start = min(view.start, max(0, len(found) - view.rows))
    shown = found[view.start : view.start + view.rows]
    kept = list(range(len(COLUMNS)))
    widths = [max([len(COLUMNS[at]), *(len(cells[at]) for cells, _ in shown)]) for at in kept]
    for column, least in (*((one, LEAST_NAME) for one in GOING), ("lag", 8), ("pending", 8)):
        if _left_for_names(view.width, kept, widths) >= least:
            break
        kept.remove(COLUMNS.index(column))
    name = max(8, min(widths[0], _left_for_names(view.width, kept, widths)))
    lines = [Text(_line(COLUMNS, kept, widths, name), style="dim")]
    lines += [Text(_line(cells, kept, widths, name), style=style) for cells, style in shown]
    facts = overview.facts
    what = f"{facts.kind} {facts.version}" if facts else "connecting"
    state = f"gone: {overview.gone}. {next_step(overview.gone, address)}" if overview.gone else what
    head = f"{address}  {state}  {len(overview.streams):,} streams of {overview.keys:,} keys"
    after = len(found) - view.start - len(shown)
    foot = [f"{after:,} more lines"] if after else []
    foot += [f"/{view.find}{'_' if view.typing else ''}"] if view.typing or view.find else []
    if view.helps:
        return Lines(Text(_cut(head, view.width)), Text(), Text(HELP))
    return Lines(Text(_cut(head, view.width)), Text(), *lines, Text("  ".join(foot), style="dim"))


def _left_for_names(width: int, kept: list[int], widths: list[int]) -> int:
    return width - sum(widths[at] + 2 for at in kept[1:])


def _line(cells: tuple[str, ...], kept: list[int], widths: list[int], name: int) -> str:
    first = _cut(cells[0], name).ljust(name)
    return first + "".join("  " + cells[at].rjust(widths[at]) for at in kept[1:])


def _cut(text: str, width: int) -> str:
    """Cut the middle of a name: names that begin alike differ at their ends."""
    if len(text) <= width:
        return text
    head = (width - 1) // 2
    return f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"


def _rows(overview: Overview) -> list[Row]:
    streams = sorted(overview.streams.values(), key=lambda one: one.trouble, reverse=True)
    return [row for stream in streams for row in _lines(stream, overview)]


def _oldest(one: Stream | Group, overview: Overview) -> str:
    if one.unread:
        return "not read"
    return ("~" if one.looked is not None and one.pending else "") + duration(overview.aged(one.oldest_idle))


def _lines(stream: Stream, overview: Overview) -> list[Row]:
    """Return the cells of a stream and its groups, each with a style; a mark repeats the meaning of its colour."""
    own = (
        names.name(stream.key),
        count(stream.length),
        "not read" if stream.memory is None else size(stream.memory),
        rate(stream.rate_in),
        rate(stream.rate_out),
    )
    oldest, spare = _oldest(stream, overview), garbage(stream, overview.facts)
    done = ("" if spare.exact else "~") + count(spare.entries) if spare else ""
    found: list[Row] = [((*own, count(stream.worst_lag), count(stream.pending), oldest, "", done), "bold")]
    for group in stream.groups:
        poison = group.most_deliveries >= POISON_DELIVERIES
        times = "fatal" if group.most_deliveries >= (1 << 63) - 1 else f"{group.most_deliveries}x"
        sample = "" if group.looked is None else "~"
        tries = f"{'▲ ' if poison else ''}{sample}{times}" if group.pending and not group.unread else ""
        cells = (f"  {names.name(group.name)}", "", "", "", "", count(group.lag), count(group.pending))
        found.append(((*cells, _oldest(group, overview), tries, ""), "red" if poison else ""))
    return found


def plain_rows(overview: Overview) -> Iterator[tuple[str, ...]]:
    """Yield each stream and group as words for scripts: whole numbers, milliseconds, bytes; empty if unknown."""

    def text(number: float | None) -> str:
        return "" if number is None else f"{number:.2f}".rstrip("0").rstrip(".")

    for stream in sorted(overview.streams.values(), key=lambda one: one.trouble, reverse=True):
        key = names.quote(stream.key)
        numbers = (
            stream.length,
            stream.memory,
            stream.rate_in,
            stream.rate_out,
            stream.worst_lag,
            stream.pending,
        )
        spare = garbage(stream, overview.facts)
        yield (
            key,
            "",
            *map(text, (*numbers, overview.aged(stream.oldest_idle))),
            "",
            str(spare.entries) if spare else "",
        )
        for group in stream.groups:
            tries = group.most_deliveries if group.pending and not group.unread else None
            yield (
                key,
                names.quote(group.name),
                *map(text, (None,) * 4),
                *map(text, (group.lag, group.pending, overview.aged(group.oldest_idle), tries)),
                "",
            )
