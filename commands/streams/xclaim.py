"""XCLAIM: make a consumer the owner of the named pending entries."""

from __future__ import annotations

from ...protocol import replies
from ...protocol.errors import ReplyError, shown
from ...storage.groups.claiming import ClaimTerms, claim, named
from ...storage.streams.ids import parse
from ..runtime.arguments import parse_integer
from ..runtime.client import Client
from ..spec.command import handles
from . import specs
from .group_propagation import claimant, join, propagate_claims, propagate_position
from .lookup import find_group, latest_delivery


def _parse_options(args: list[bytes], at: int, terms: ClaimTerms) -> int:
    """Parse [IDLE ms] [TIME ms] [RETRYCOUNT n] [FORCE] [JUSTID] [LASTID id] in any order; the last of each wins.

    Return the LASTID (0 without one).
    """
    now, last_id = terms.now, 0
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
            last_id = parse(args[at])
        else:
            raise ReplyError(b"ERR Unrecognized XCLAIM option '%b'" % shown(args[at]))
        at += 1
    if not 0 <= terms.ms <= now:
        terms.ms = now
    return last_id


@handles(specs.XCLAIM)
def xclaim(client: Client, args: list[bytes]) -> bytes:
    """Claim the given entries and reply with the claimed ones, in the order of the arguments.

    Redis checks the key and the group before any other word, and every word before it changes anything.
    """
    stream, group = find_group(client, args[1], args[2])
    server = client.server
    now = server.keyspace.now
    latest = latest_delivery(args[4], now, b"ERR Invalid min-idle-time argument for XCLAIM")
    entries, are_canonical = named(group, args, 5)
    at = 5 + len(entries)
    terms = ClaimTerms(latest, now, sees_always=server.compat.claims_see_consumers)
    last_id = _parse_options(args, at, terms) if at < len(args) else 0

    is_moved = last_id > group.last_id
    if is_moved:
        group.last_id = last_id
    consumer = group.consumers.get(args[3]) or claimant(client, args[1], group, args[3])
    if client.db.meter is not None:
        client.db.changed(args[1], 0)
    words = None if are_canonical else args[5:at]
    claimed = claim(group, stream, consumer, entries, terms, len(entries), words)
    if claimed.items and args[3] not in group.consumers:
        join(client, args[1], group, consumer)
    if claimed.changes:
        server.keyspace.dirty += len(claimed.changes)
        if server.propagation.active:
            propagate_claims(client, args[1], args[2], group, claimed.changes)
    elif is_moved:
        server.keyspace.dirty += 1
        if server.propagation.active:
            propagate_position(client, args[1], args[2], group)
    if terms.just_id:
        return replies.bulk_array(claimed.items)
    return b"*%d\r\n" % len(claimed.items) + b"".join(claimed.items)
