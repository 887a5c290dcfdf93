"""XCLAIM: a consumer becomes the owner of pending entries that it names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...protocol import replies
from ...protocol.errors import ReplyError, shown
from ...storage.groups.claiming import claim, find_run
from ...storage.groups.claims import ClaimTerms
from ..runtime.arguments import parse_integer
from ..spec.command import handles
from . import specs
from .group_propagation import new_consumer, propagate_claims, propagate_position
from .lookup import find_group, latest_delivery, leading_ids, parse_id

if TYPE_CHECKING:
    from ...storage.groups.claiming import EntryRun
    from ...storage.streams.stream import Stream
    from ..runtime.client import Client

_OPTION_WORDS: Final = 10  # words of all options of an XCLAIM, each once
_RUN: Final = 13  # words of a command from which on looking for a run pays: eight IDs


def _parse_options(args: list[bytes], at: int, now: int, latest: int) -> tuple[ClaimTerms, int]:
    """Read [IDLE ms] [TIME ms] [RETRYCOUNT n] [FORCE] [JUSTID] [LASTID id], in any order; the last of each counts.

    Returns:
        The terms of the claim, and the LASTID (0 without one).
    """
    terms = ClaimTerms(latest, now)
    last_id = 0
    while at < len(args):
        word = args[at].upper()
        more = at + 1 < len(args)
        if word == b"FORCE":
            terms.force = True
        elif word == b"JUSTID":
            terms.just_id = True
        elif word == b"IDLE" and more:
            at += 1
            terms.ms = now - parse_integer(args[at], b"ERR Invalid IDLE option argument for XCLAIM")
        elif word == b"TIME" and more:
            at += 1
            terms.ms = parse_integer(args[at], b"ERR Invalid TIME option argument for XCLAIM")
        elif word == b"RETRYCOUNT" and more:
            at += 1
            terms.retry_count = parse_integer(args[at], b"ERR Invalid RETRYCOUNT option argument for XCLAIM")
        elif word == b"LASTID" and more:
            at += 1
            last_id = parse_id(args[at])
        else:
            raise ReplyError(b"ERR Unrecognized XCLAIM option '%b'" % shown(args[at]))
        at += 1
    if not 0 <= terms.ms <= now:
        terms.ms = now
    return terms, last_id


@handles(specs.XCLAIM)
def xclaim(client: Client, args: list[bytes]) -> bytes:
    """Claim the given entries and return those that were claimed, in the order of the arguments.

    Redis checks the key and the group before any other word, and every word before it changes anything.
    """
    stream, group = find_group(client, args[1], args[2])
    consumer = group.consumers.get(args[3])
    server = client.server
    now = server.keyspace.now
    latest = latest_delivery(args[4], now, b"ERR Invalid min-idle-time argument for XCLAIM")
    books = group.plain_for(len(args) - 5)
    singles = None if books is None else books.named(args, 5)
    run: EntryRun | None = None
    numbers: list[int] = []
    if singles is not None:
        at = 5 + len(singles)
    else:
        run = _find_run(stream, args) if len(args) >= _RUN and not args[6][:1].isalpha() else None
        if run is None:
            numbers = leading_ids(args, 5)
        at = 5 + (len(numbers) if run is None else len(run.ids))
    terms, last_id = _parse_options(args, at, now, latest) if at < len(args) else (ClaimTerms(latest, now), 0)

    is_moved = last_id > group.last_id
    if is_moved:
        group.last_id = last_id
    if consumer is None:
        consumer = new_consumer(client, args[1], group, args[3])
    consumer.seen_ms = now
    if client.db.meter is not None:
        client.db.changed(args[1], 0)
    is_propagated = server.propagation.active
    if books is not None and singles is not None:
        claimed = books.claim(stream, consumer, singles, terms, len(singles), with_changes=is_propagated)
    else:
        claimed = claim(group, stream, consumer, args[5:at], numbers, run, terms)
    changed = claimed.count + len(claimed.deleted)
    if claimed.count:
        consumer.active_ms = now
    if changed:
        server.keyspace.dirty += changed
        if is_propagated:
            propagate_claims(client, args[1], args[2], group, claimed.changes)
    elif is_moved:
        server.keyspace.dirty += 1
        if is_propagated:
            propagate_position(client, args[1], args[2], group)
    if terms.just_id:
        return replies.bulk_array(claimed.ids)
    return b"*%d\r\n" % claimed.count + b"".join(claimed.items)


def _find_run(stream: Stream, args: list[bytes]) -> EntryRun | None:
    """The two or more entries that an XCLAIM names, if they are neighbours in the stream; their IDs need no other check."""
    end = len(args)
    if b"-" not in args[-1] or b"-" not in args[-2]:
        # Options begin with letters.
        end = next((at for at in range(max(7, end - _OPTION_WORDS), end) if args[at][:1].isalpha()), end)
    return find_run(stream, args[5:end])
