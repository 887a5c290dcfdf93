r"""What group commands propagate to the AOF and the replicas.

A client's XREADGROUP, XCLAIM or XAUTOCLAIM is never replayed itself: each entry that changed hands is, as
``XCLAIM key group consumer 0 id TIME ms RETRYCOUNT n FORCE JUSTID LASTID id``, an absolute statement that can be
applied to any state. Where versions of Redis differ, ``compat`` says what to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...protocol.replies import bulk
from ...storage.groups.deliveries import UNOWNED_MS
from ...storage.keyspace import notifications as events
from ...storage.streams import ids as stream_id

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ...storage.groups.claims import Change
    from ...storage.groups.deliveries import Consumer
    from ...storage.groups.group import Group
    from ..runtime.client import Client

_XCLAIM: Final = b"*14\r\n$6\r\nXCLAIM\r\n"
_SETID: Final = b"*7\r\n$6\r\nXGROUP\r\n$5\r\nSETID\r\n"


def new_consumer(client: Client, key: bytes, group: Group, name: bytes) -> Consumer:
    """Create a consumer in passing: it counts as a change and is an event, but says nothing to the AOF."""
    keyspace = client.server.keyspace
    consumer = group.create_consumer(name, keyspace.now)
    keyspace.dirty += 1
    keyspace.notify(events.STREAM, b"xgroup-createconsumer", key, client.db)
    return consumer


def claim_pieces(key: bytes, group: bytes, consumer: bytes, ms: int, count: int) -> tuple[bytes, bytes]:
    """An XCLAIM without its two ids: the record is head, id as a bulk string, tail, LASTID as a bulk string."""
    head = b"%b%b%b%b$1\r\n0\r\n" % (_XCLAIM, bulk(key), bulk(group), bulk(consumer))
    tail = b"$4\r\nTIME\r\n%b$10\r\nRETRYCOUNT\r\n%b$5\r\nFORCE\r\n$6\r\nJUSTID\r\n$6\r\nLASTID\r\n" % (
        bulk(b"%d" % ms),
        bulk(b"%d" % count),
    )
    return head, tail


def propagate_claims(
    client: Client, key: bytes, name: bytes, group: Group, changes: Iterable[Change]
) -> None:
    """Propagate entries that got another owner or were dropped, one XCLAIM each, in this order.

    A dropped entry is stated with the facts that it had: the receiver lacks its message and drops it, too. One without
    owner cannot be stated like that; it is acknowledged.
    """
    add = client.server.propagation.add_encoded
    db = client.db.index
    last_id = bulk(stream_id.encode(group.last_id))
    pieces: dict[tuple[bytes, int, int], tuple[bytes, bytes]] = {}
    for words, consumer, ms, count in changes:
        if ms == UNOWNED_MS:
            client.propagate((b"XACK", key, name, *words))
            continue
        found = pieces.get((consumer, ms, count))
        if found is None:
            head, tail = claim_pieces(key, name, consumer, ms, count)
            found = pieces[consumer, ms, count] = head, tail + last_id
        head, tail = found
        for word in words:
            add(db, b"%b$%d\r\n%b\r\n%b" % (head, len(word), word, tail))


def propagate_read(
    client: Client,
    key: bytes,
    name: bytes,
    group: Group,
    consumer: bytes,
    ids: Iterable[bytes],
    before: int,
) -> None:
    """Entries were delivered now, for the first time, by a group that stood at ``before``."""
    head, tail = claim_pieces(key, name, consumer, client.server.keyspace.now, 1)
    compat = client.server.compat
    add = client.server.propagation.add_encoded
    index = client.db.index
    if compat.reads_propagate_own_lastid:
        for text in ids:
            word = b"$%d\r\n%b\r\n" % (len(text), text)
            add(index, b"%b%b%b%b" % (head, word, tail, word))
    else:
        tail += bulk(stream_id.encode(before))
        for text in ids:
            add(index, b"%b$%d\r\n%b\r\n%b" % (head, len(text), text, tail))
    if compat.reads_propagate_setid:
        propagate_position(client, key, name, group)


def propagate_position(client: Client, key: bytes, name: bytes, group: Group) -> None:
    """The group's place has changed: XGROUP SETID with both counters."""
    read = group.entries_read
    client.server.propagation.add_encoded(
        client.db.index,
        b"%b%b%b%b$11\r\nENTRIESREAD\r\n%b"
        % (
            _SETID,
            bulk(key),
            bulk(name),
            bulk(stream_id.encode(group.last_id)),
            bulk(b"%d" % (-1 if read is None else read)),
        ),
    )


def propagate_consumer(client: Client, key: bytes, group: bytes, consumer: bytes) -> None:
    """A consumer was created: XGROUP CREATECONSUMER."""
    client.propagate((b"XGROUP", b"CREATECONSUMER", key, group, consumer))
