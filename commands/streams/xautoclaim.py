"""XAUTOCLAIM: walk the PEL and claim the entries that are idle for long enough."""

from __future__ import annotations

from typing import Final

from ...protocol import replies
from ...protocol.errors import SYNTAX, ReplyError
from ...storage.groups.claiming import ClaimTerms, claim
from ...storage.streams.ids import parse_interval_start
from ..runtime.arguments import INT64_MAX, parse_integer
from ..runtime.client import Client
from ..spec.command import handles
from . import specs
from .deferral import require_order
from .group_propagation import claimant, join, propagate_claims
from .lookup import find_group, latest_delivery

_COUNT: Final = 100  # without COUNT


@handles(specs.XAUTOCLAIM)
def xautoclaim(client: Client, args: list[bytes]) -> bytes:
    """Walk the PEL from ``start``, inclusive, and claim idle entries; reply ``[cursor, entries, deleted IDs]``."""
    server = client.server
    now = server.keyspace.now
    try:
        latest = latest_delivery(args[4], now, b"ERR Invalid min-idle-time argument for XAUTOCLAIM")
        start = parse_interval_start(args[5])
        count, just_id = _parse_options(args) if len(args) > 6 else (_COUNT, False)
    except ReplyError:
        client.db.read(args[1])  # counts a hit or a miss: Redis looks up the key before it parses the options
        raise
    stream, group = find_group(client, args[1], args[2])
    require_order(client, group)
    consumer = group.consumers.get(args[3]) or claimant(client, args[1], group, args[3])
    terms = ClaimTerms(latest, now, sees_always=server.compat.claims_see_consumers)
    terms.just_id = just_id
    claimed = claim(group, stream, consumer, group.pel.order.walk(start), terms, count)
    if claimed.items and args[3] not in group.consumers:
        join(client, args[1], group, consumer)
    client.db.changed(args[1], len(claimed.changes))
    if server.propagation.active and claimed.changes:
        propagate_claims(client, args[1], args[2], group, claimed.changes)
    if just_id:
        entries = replies.bulk_array(claimed.items)
    else:
        entries = b"*%d\r\n%b" % (len(claimed.items), b"".join(claimed.items))
    deleted = replies.bulk_array(claimed.deleted) if claimed.deleted else replies.EMPTY_ARRAY
    return b"*3\r\n$%d\r\n%b\r\n%b%b" % (len(claimed.cursor), claimed.cursor, entries, deleted)


def _parse_options(args: list[bytes]) -> tuple[int, bool]:
    """Parse [COUNT count] and [JUSTID]; return the count, and True for JUSTID."""
    count = _COUNT
    just_id = False
    at = 6
    while at < len(args):
        word = args[at].upper()
        if word == b"COUNT" and at + 1 < len(args):
            at += 1
            count = parse_integer(args[at], b"ERR COUNT must be > 0")
            if not 0 < count <= INT64_MAX // 16:
                raise ReplyError(b"ERR COUNT must be > 0")
        elif word == b"JUSTID":
            just_id = True
        else:
            raise ReplyError(SYNTAX)
        at += 1
    return count, just_id
