"""XAUTOCLAIM: walk the PEL and claim the entries that are idle for long enough."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...protocol import replies
from ...protocol.errors import SYNTAX, ReplyError
from ...storage.groups.claiming import ClaimTerms, autoclaim
from ...storage.streams.stream import Stream
from ..runtime.arguments import INT64_MAX, parse_integer
from ..spec.command import handles
from . import specs
from .deferral import require_group
from .group_propagation import new_consumer, no_such_group, propagate_claims
from .ids import parse_start

if TYPE_CHECKING:
    from ..runtime.client import Client

_COUNT: Final = 100  # without COUNT


@handles(specs.XAUTOCLAIM)
def xautoclaim(client: Client, args: list[bytes]) -> bytes:
    """Walk the PEL from ``start`` and claim what is idle; returns [cursor, entries, deleted IDs]."""
    start, count, terms = _parse(args, client.server.keyspace.now)
    stream = client.read_value(args[1], Stream)
    group = None if stream is None else stream.groups.get(args[2])
    if stream is None or group is None:
        raise no_such_group(args[1], args[2])
    if group.pending_cleanup is not None:
        require_group(client, group)

    server = client.server
    now = server.keyspace.now
    consumer = group.consumers.get(args[3])
    if consumer is None:
        consumer = new_consumer(client, args[1], group, args[3])
    consumer.seen_ms = now
    must_propagate = server.propagation.active
    claimed = autoclaim(group, stream, consumer, start, count, terms, with_changes=must_propagate)
    if claimed.count:
        consumer.active_ms = now
    server.keyspace.dirty += claimed.count + len(claimed.deleted)
    if must_propagate and claimed.changes:
        propagate_claims(client, args[1], args[2], group, claimed.changes)
    if terms.just_id:
        entries = replies.bulk_array(claimed.ids)
    else:
        entries = b"*%d\r\n%b" % (claimed.count, b"".join(claimed.items))
    deleted = replies.bulk_array(claimed.deleted) if claimed.deleted else replies.EMPTY_ARRAY
    return b"*3\r\n$%d\r\n%b\r\n%b%b" % (len(claimed.cursor), claimed.cursor, entries, deleted)


def _parse(args: list[bytes], now: int) -> tuple[int, int, ClaimTerms]:
    """Read min-idle-time, start, [COUNT count] and [JUSTID]: the start, the COUNT and the terms of the claim."""
    min_idle = parse_integer(args[4], b"ERR Invalid min-idle-time argument for XAUTOCLAIM")
    start = parse_start(args[5])
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
    terms = ClaimTerms(now - min_idle if min_idle > 0 else INT64_MAX, now)
    terms.just_id = just_id
    return start, count, terms
