"""``rillet top``: streams and groups as a live table in the terminal."""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import TYPE_CHECKING, Final

from . import names
from .command import with_password
from .link import Link
from .poller import Poller
from .render import count, duration, rate, size
from .style import POISON_DELIVERIES

if TYPE_CHECKING:
    from rich.console import Group as Lines

    from .model import Stream
    from .poller import Overview

_COLUMNS: Final = ("stream / group", "length", "memory", "in", "out", "lag", "pending", "oldest", "tries")


def main(words: list[str]) -> int:
    """Show the table until Ctrl-C, or once; return 1 if the server cannot be reached for ``--once``."""
    made = argparse.ArgumentParser(
        prog="rillet top", description="Streams and groups, the worst first, read-only."
    )
    made.add_argument("url", help="as for rillet console")
    made.add_argument("--once", action="store_true", help="print one table and end, for scripts")
    options = made.parse_args(words)
    try:
        link = Link(with_password(options.url))
    except ValueError as error:
        made.error(str(error))
    try:
        import rich  # noqa: F401
    except ImportError as error:
        print(f"rillet top needs more packages: pip install 'rillet[console]' ({error})", file=sys.stderr)  # noqa: T201 - a command-line tool
        return 1
    try:
        return asyncio.run(_once(link) if options.once else _live(link))
    except KeyboardInterrupt:
        return 0


async def _once(link: Link) -> int:
    from rich.console import Console

    from .link import GoneError

    async with link:
        poller = Poller(link)
        try:
            await poller.round()
        except GoneError as error:
            print(f"{link.shown}: {error}", file=sys.stderr)  # noqa: T201 - a command-line tool
            return 1
        Console().print(table(poller.overview, link.shown, rows=1_000))
    return 0


async def _live(link: Link) -> int:
    from rich.live import Live

    async with link:
        poller = Poller(link)
        task = asyncio.ensure_future(poller.run())
        with Live(auto_refresh=False, screen=True) as live:
            async with poller.viewing([]):
                while not task.done():
                    live.update(
                        table(poller.overview, link.shown, rows=live.console.height - 5), refresh=True
                    )
                    await poller.ticked()
        task.result()
    return 0


def table(overview: Overview, address: str, rows: int) -> Lines:
    """Return the table: a line for each stream and group, as many as fit, the streams in trouble first."""
    from rich.console import Group as Lines
    from rich.table import Table
    from rich.text import Text

    made = Table(box=None, expand=True, pad_edge=False, header_style="dim")
    for column in _COLUMNS:
        made.add_column(column, justify="left" if column == _COLUMNS[0] else "right", no_wrap=True)
    left = rows
    for stream in sorted(overview.streams.values(), key=lambda one: one.trouble, reverse=True):
        for cells, style in _lines(stream):
            if left > 0:
                made.add_row(*(Text(cell) for cell in cells), style=style)
            left -= 1
    facts = overview.facts
    what = f"{facts.kind} {facts.version}" if facts else "connecting"
    state = f"gone: {overview.gone}" if overview.gone else what
    head = Text(f"{address}  {state}  {len(overview.streams):,} streams of {overview.keys:,} keys")
    foot = Text(f"{-left:,} more lines" if left < 0 else "", style="dim")
    return Lines(head, Text(), made, foot)


def _lines(stream: Stream) -> list[tuple[tuple[str, ...], str]]:
    """Return the cells of a stream and of its groups, each with a style; a mark says the same as its colour."""
    own = (
        names.name(stream.key),
        count(stream.length),
        size(stream.memory),
        rate(stream.rate_in),
        rate(stream.rate_out),
    )
    found: list[tuple[tuple[str, ...], str]] = [
        ((*own, count(stream.worst_lag), count(stream.pending), duration(stream.oldest_idle), ""), "bold")
    ]
    for group in stream.groups:
        poison = group.most_deliveries >= POISON_DELIVERIES
        tries = f"{'▲ ' if poison else ''}{group.most_deliveries}x" if group.pending else ""
        cells = (f"  {names.name(group.name)}", "", "", "", "", count(group.lag), count(group.pending))
        found.append(((*cells, duration(group.oldest_idle), tries), "red" if poison else ""))
    return found
