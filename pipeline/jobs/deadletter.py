"""``rillet pipeline deadletter list|show|requeue|move STREAM``: show dead letters, requeue them, or create some.

Requeueing adds the entry to its stream again, with a new id because streams only grow, and deletes the letter in the
same transaction. So the entry is always in exactly one of the two streams.

``move`` does for chosen messages what group mode does for poison messages (``maxDeliveries``): it moves a pending
entry to the dead-letter stream and acknowledges it.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from ..cli.argument_types import argument
from ..group.dead_letters import DeadLetter, move_to_dead_letters
from ..group.member import Idle, Member
from ..group.repeated_batch import leave_out_of_any
from ..redis import ids
from ..redis.connection import Connection, checked
from ..redis.key_names import key_of, printable_name
from ..redis.shards import connect
from ..source.options import expression
from ..times import format_time

_PAGE: Final = 500


class Letter(NamedTuple):
    """An entry of a dead-letter stream, with its id in that stream."""

    letter_id: int
    dead: DeadLetter


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``deadletter``."""
    from ..cli.endpoint_arguments import add_endpoint_arguments

    parser.add_argument(
        "action",
        choices=("list", "show", "requeue", "move"),
        help="count by reason, show, give another chance, or move pending entries there",
    )
    parser.add_argument("letters", metavar="STREAM", help="the dead-letter stream")
    parser.add_argument(
        "ids",
        nargs="*",
        type=argument(ids.parse),
        metavar="ID",
        help="only these letters (ids in the dead-letter stream); of move: the pending entries",
    )
    parser.add_argument("--stream", help="only letters of this stream; of move: where the entries are")
    parser.add_argument("--group", help="only letters of this group; of move: in which they are pending")
    parser.add_argument(
        "--reason",
        type=argument(expression),
        metavar="REGEX",
        help="only letters whose reason has this in it",
    )
    parser.add_argument(
        "--because", default="moved by hand", metavar="TEXT", help="of move: the reason in the letters"
    )
    parser.add_argument("--to", metavar="STREAM", help="requeue here instead of the stream it came from")
    parser.add_argument(
        "--all", action="store_true", help="requeue all letters: asked for where nothing else is said"
    )
    add_endpoint_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """List, show, requeue or create dead letters.

    Return the exit status: 1 if some could not be moved, 2 if it is unclear which to requeue.
    """
    from ..cli.endpoint_arguments import endpoint_options
    from ..redis.options import Endpoint

    is_chosen = bool(arguments.ids or arguments.stream or arguments.group or arguments.reason)
    if arguments.action == "requeue" and not (is_chosen or arguments.all):
        sys.stderr.write(
            "rillet pipeline deadletter: say which to requeue: ids, --stream, --group, --reason or --all\n"
        )
        return 2
    if arguments.action == "move" and not (arguments.ids and arguments.stream and arguments.group):
        sys.stderr.write("rillet pipeline deadletter: say what to move: ids, --stream and --group\n")
        return 2
    with connect(Endpoint.of(endpoint_options(arguments)), at_start=True) as connection:
        if arguments.action == "move":
            moved = move(
                connection,
                arguments.letters,
                arguments.stream,
                arguments.group,
                arguments.ids,
                arguments.because,
            )
            missed = len(set(arguments.ids)) - moved
            sys.stdout.write(
                f"{_entries(moved)} moved to {arguments.letters}\n"
                f"acknowledged in group {arguments.group}; a query that stands goes on without them when it is started again\n"
            )
            if missed:
                sys.stderr.write(f"{_entries(missed)} not pending, or deleted: nothing to move\n")
            return 1 if missed else 0
        found = (
            each
            for each in read_letters(connection, arguments.letters, arguments.ids)
            if arguments.stream in {None, each.dead.stream}
            and arguments.group in {None, each.dead.group}
            and re.search(arguments.reason or "", each.dead.reason)
        )
        if arguments.action == "requeue":
            moved = requeue(connection, arguments.letters, found, arguments.to)
            sys.stdout.write(f"{moved:,} letters were requeued\n")
        else:
            lines = _shown(found) if arguments.action == "show" else _counted(found)
            sys.stdout.writelines(f"{line}\n" for line in lines)
    return 0


def read_letters(connection: Connection, stream: str, wanted: list[int] | None = None) -> Iterator[Letter]:
    """Yield the letters of a dead-letter stream, oldest first; skip entries that are not dead letters.

    ``wanted`` selects entry ids; None selects all.

    Raises RedisError: the key is not a stream, or the server is unreachable.
    """
    key = key_of(stream)
    if wanted:
        pages = [connection.call("XRANGE", key, text, text) for text in map(ids.text, wanted)]
        yield from (letter for page in pages for letter in _letters(page))
        return
    after = "-"
    while page := connection.call("XRANGE", key, after, "+", "COUNT", _PAGE):
        yield from _letters(page)
        after = f"({page[-1][0].decode()}"


def requeue(connection: Connection, stream: str, letters: Iterator[Letter], to: str | None = None) -> int:
    """Move letters back to their streams, each exactly once; return how many were moved.

    ``to``: a stream for all of them; None: each goes to the stream it came from.

    If two callers requeue the same letters at once, each letter moves once: the dead-letter stream is watched.
    Raises RedisError: the server refuses, or is unreachable; the remaining letters may be requeued again.
    """
    moved = 0
    key = key_of(stream)
    for letter in letters:
        text = ids.text(letter.letter_id)
        while True:
            connection.call("WATCH", key)
            if not connection.call("XRANGE", key, text, text):
                connection.call("UNWATCH")
                break
            target = key_of(to or letter.dead.stream)
            replies = checked(
                connection.pipeline(
                    [("MULTI",), ("XADD", target, "*", *letter.dead.fields), ("XDEL", key, text), ("EXEC",)]
                )
            )
            if replies[-1] is not None:
                checked(replies[-1])
                moved += 1
                break
    return moved


def move(
    connection: Connection, letters: str, stream: str, group: str, wanted: list[int], reason: str
) -> int:
    """Move pending entries to a dead-letter stream and acknowledge them; return how many.

    Raises RedisError: the group does not exist, or the server refuses or is unreachable; moved entries are no longer
    pending.

    Args:
        group: the group in which they are pending, with any consumer.
        reason: a text for the reader of the letter.
    """
    by_owner: dict[str, list[Idle]] = {}
    texts = dict.fromkeys(map(ids.text, wanted))
    for each in Member(connection, group, "").pending(stream, list(texts)):
        by_owner.setdefault(each.owner, []).append(each)
    moved = 0
    for owner, pending in by_owner.items():
        leave_out_of_any(connection, group, owner, stream, [each.stream_id for each in pending])
        moved += move_to_dead_letters(Member(connection, group, owner), stream, letters, pending, reason)[0]
    return moved


def _entries(count: int) -> str:
    return f"{count:,} entry was" if count == 1 else f"{count:,} entries were"


def _letters(page: list[Any]) -> Iterator[Letter]:
    for letter_id, words in page:
        try:
            yield Letter(ids.parse(letter_id), DeadLetter.of_words(words))
        except ValueError:
            continue


def _counted(letters: Iterator[Letter]) -> Iterator[str]:
    counts = Counter((each.dead.stream, each.dead.group, each.dead.reason) for each in letters)
    if not counts:
        yield "no letters"
    for (stream, group, reason), count in counts.most_common():
        yield f"{count:>8,}  {printable_name(stream)} > {group}: {reason}"


def _shown(letters: Iterator[Letter]) -> Iterator[str]:
    for letter_id, dead in letters:
        when = format_time(ids.split(letter_id)[0])
        yield f"{ids.text(letter_id)}  {when}  {printable_name(dead.stream)} {ids.text(dead.stream_id)}"
        yield f"    {dead.group}, {dead.consumer}: {dead.reason}"
        pairs = zip(dead.fields[::2], dead.fields[1::2], strict=False)
        for name, value in pairs:
            yield f"    {name.decode(errors='backslashreplace')} = {value.decode(errors='backslashreplace')}"
