"""``rillet redrive``: send dead letters back to their stream, on the command line."""

from __future__ import annotations

import asyncio
import sys
from typing import Final

from redis.exceptions import RedisError

from ..arguments import Parser
from .actions import Progress
from .command import say, with_password
from .connection import GoneError, Link
from .connection_advice import cannot_read
from .names import command_line, quote, unquote
from .redrive import ORIGIN, Sent, Wanted, send_back

_INTERRUPTED: Final = 130


def main(words: list[str]) -> int:
    """Send dead letters back; return 0 if all matching ones were sent, else 1."""
    made = Parser(
        prog="rillet redrive",
        description="Send the messages of a dead-letter stream back to the stream that they came from. Each is added there "
        "and deleted here in one step, so this can be stopped at any time and run again.",
    )
    made.add_argument("url", help="as for rillet console")
    made.add_argument("stream", help="the dead-letter stream, as redis-cli takes it")
    made.add_argument(
        "--filter",
        action="append",
        default=[],
        metavar="FIELD=PART",
        help="only messages whose field has this in its value; may repeat",
    )
    made.add_argument(
        "--to", default="", metavar="STREAM", help="send to this one, whatever the messages name"
    )
    made.add_argument(
        "--origin", default="origin-stream", metavar="FIELD", help="names the stream (%(default)s)"
    )
    made.add_argument(
        "--leave",
        action="append",
        metavar="FIELD",
        help="is not sent; may repeat (origin-stream, origin-group and origin-id)",
    )
    made.add_argument("--rate", default="", metavar="N/s", help="so many a second at most")
    made.add_argument("--dry-run", action="store_true", help="only count, and show the commands")
    options = made.parse_args(words)
    pairs = [one.partition("=") for one in options.filter]
    number = options.rate.removesuffix("/s")
    if not all(mark for _, mark, _ in pairs):
        made.error("--filter is FIELD=PART")
    if options.rate and not (number.isdecimal() and 0 < int(number) < 1 << 31):
        made.error("--rate is a whole number of messages a second, such as 50/s")
    try:
        wanted = Wanted(
            unquote(options.stream),
            (),
            tuple((unquote(name), unquote(part)) for name, _, part in pairs),
            unquote(options.to),
            unquote(options.origin),
            tuple(map(unquote, options.leave)) if options.leave else ORIGIN,
        )
        link = Link(with_password(options.url))
    except ValueError as error:
        made.error(str(error))
    sent = Sent()
    try:
        return asyncio.run(_redrive(link, wanted, sent, int(number or 0), dry_run=options.dry_run))
    except KeyboardInterrupt:
        _note(f"\nstopped: {sent.total:,} were sent back; run it again for the others.")
        return _INTERRUPTED


async def _redrive(link: Link, wanted: Wanted, sent: Sent, rate: int, *, dry_run: bool) -> int:
    progress = Progress()

    def tell() -> None:
        if sys.stderr.isatty():
            of = f" of {progress.total:,}" if progress.total else ""
            _note(f"\r{progress.done:,}{of} sent back", end="")

    link.read_only = dry_run
    try:
        async with link:
            await send_back(link, wanted, progress, sent, dry_run=dry_run, rate=rate, tell=tell)
    except GoneError as error:
        again = f"{sent.total:,} were sent back; run it again for the others."
        _note(f"{cannot_read(link.shown, error)} {again}")
        return 1
    except RedisError as error:
        _note(f"{error}; {sent.total:,} were sent back.")
        return 1
    if sys.stderr.isatty():
        _note("")
    for target, count in sent.to.items():
        say(f"{count:,} {'would be sent' if dry_run else 'sent'} back to {quote(target)}")
        if dry_run:
            say(command_line(wanted.words(target, ["<IDs>"])))
    if not sent.to and not sent.stay:
        say("no message fits")
    for reason in sent.reasons:
        _note(reason)
    return 1 if sent.stay else 0


def _note(line: str, end: str = "\n") -> None:
    print(line, end=end, file=sys.stderr, flush=True)  # noqa: T201 - a command-line tool
