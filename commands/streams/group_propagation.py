r"""The records of group commands in the AOF and for the replicas.

A client's XREADGROUP, XCLAIM or XAUTOCLAIM is never replayed itself: each entry that changed hands is, as
``XCLAIM key group consumer 0 id TIME ms RETRYCOUNT n FORCE JUSTID LASTID id``, an absolute statement that can be
applied to any state. Where versions of Redis differ, ``compat`` says what to do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...protocol.replies import bulk, command
from ...storage.groups.pending import NEVER, UNOWNED_MS, Consumer
from ...storage.keyspace import notifications as events
from ...storage.streams import ids as stream_id

if TYPE_CHECKING:
    from ...storage.groups.claiming import Change
    from ...storage.groups.group import Group
    from ..runtime.client import Client

# The pieces of a record: before the ID, before the delivery count, before the LASTID. The records of one command have
# most of them in common and are joined from them; encoding each word by word takes ten times as long.
_HEAD: Final = b"*14\r\n$6\r\nXCLAIM\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n$1\r\n0\r\n"
_TIME: Final = b"$4\r\nTIME\r\n$%d\r\n%b\r\n$10\r\nRETRYCOUNT\r\n"
_COUNT: Final = b"$%d\r\n%b\r\n$5\r\nFORCE\r\n$6\r\nJUSTID\r\n$6\r\nLASTID\r\n"
_SETID: Final = b"*7\r\n$6\r\nXGROUP\r\n$5\r\nSETID\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n"


def new_consumer(client: Client, key: bytes, group: Group, name: bytes) -> Consumer:
    """Create a consumer in passing: it counts as a change and is an event, but says nothing to the AOF."""
    return _join(client, key, group, Consumer(name, client.server.keyspace.now))


def _join(client: Client, key: bytes, group: Group, consumer: Consumer) -> Consumer:
    group.add_consumer(consumer)
    client.db.changed(key)
    client.server.keyspace.notify(events.STREAM, b"xgroup-createconsumer", key, client.db)
    return consumer


def claimant(client: Client, key: bytes, group: Group, name: bytes) -> Consumer:
    """Return the consumer of XCLAIM or XAUTOCLAIM: it is seen, and made if need be; up to 7.0 only by ``got_entries``."""
    consumer = group.consumers.get(name)
    if client.server.compat.claims_see_consumers:
        if consumer is None:
            consumer = new_consumer(client, key, group, name)
        consumer.see(client.server.keyspace.now)
    elif consumer is None:
        consumer = Consumer(name, NEVER)  # a stranger to the group so far
    return consumer


def got_entries(client: Client, key: bytes, group: Group, consumer: Consumer) -> None:
    """Note that a claim gave its consumer entries."""
    now = consumer.active_ms = client.server.keyspace.now
    consumer.see(now)
    if consumer.name not in group.consumers:
        _join(client, key, group, consumer)


def _head(key: bytes, group: bytes, consumer: bytes) -> bytes:
    """The words before the ID in the XCLAIM of an entry."""
    return _HEAD % (len(key), key, len(group), group, len(consumer), consumer)


def _id(number: int) -> bytes:
    return bulk(stream_id.encode(number))


def _time(ms: int) -> bytes:
    """The words after the ID there, up to the delivery count."""
    text = b"%d" % ms
    return _TIME % (len(text), text)


def _count(count: int) -> bytes:
    """The delivery count there, and the words after it up to the LASTID."""
    text = b"%d" % count
    return _COUNT % (len(text), text)


def propagate_claims(client: Client, key: bytes, name: bytes, group: Group, changes: list[Change]) -> None:
    """Propagate entries that got another owner or were dropped, one XCLAIM each, in this order.

    A dropped entry is stated with the facts that it had: the receiver lacks its message and drops it, too. One without
    owner cannot be stated like that; it is acknowledged.
    """
    last_id = _id(group.last_id)
    parts: list[bytes] = []
    head, owner = b"", None
    time, its_ms = b"", UNOWNED_MS
    for word, consumer, ms, count in changes:
        if ms == UNOWNED_MS:
            parts.append(command((b"XACK", key, name, word)))
            continue
        if consumer != owner:
            head, owner = _head(key, name, consumer), consumer
        if ms != its_ms:
            time, its_ms = _time(ms), ms
        parts += (head, b"$%d\r\n%b\r\n" % (len(word), word), time, _count(count), last_id)
    propagation = client.server.propagation
    since = len(propagation.effects)
    propagation.add_joined(client.db.index, b"".join(parts), len(changes))
    propagation.exempt(since)


def propagate_read(
    client: Client,
    key: bytes,
    name: bytes,
    group: Group,
    consumer: bytes,
    texts: list[bytes],
    before: int,
) -> None:
    """Entries with these IDs were delivered now, for the first time, by a group that stood at ``before``."""
    head = _head(key, name, consumer)
    tail = _time(client.server.keyspace.now) + _count(1)
    words = [b"$%d\r\n%b\r\n" % (len(text), text) for text in texts]
    compat = client.server.compat
    if compat.reads_propagate_own_lastid:
        records = head + head.join([b"%b%b%b" % (word, tail, word) for word in words])
    else:
        tail += _id(before)
        records = head + (tail + head).join(words) + tail
    propagation = client.server.propagation
    since = len(propagation.effects)
    propagation.add_joined(client.db.index, records, len(words))
    propagation.exempt(since)
    if compat.reads_propagate_setid:
        propagate_position(client, key, name, group)


def propagate_position(client: Client, key: bytes, name: bytes, group: Group) -> None:
    """The group's place has changed: XGROUP SETID with both counters."""
    read = b"-1" if group.entries_read is None else b"%d" % group.entries_read
    record = b"%b%b$11\r\nENTRIESREAD\r\n$%d\r\n%b\r\n" % (
        _SETID % (len(key), key, len(name), name),
        _id(group.last_id),
        len(read),
        read,
    )
    propagation = client.server.propagation
    since = len(propagation.effects)
    propagation.add_encoded(client.db.index, record)
    propagation.exempt(since)


def propagate_consumer(client: Client, key: bytes, group: bytes, consumer: bytes) -> None:
    """A consumer was created: XGROUP CREATECONSUMER."""
    propagation = client.server.propagation
    since = len(propagation.effects)
    client.propagate((b"XGROUP", b"CREATECONSUMER", key, group, consumer))
    propagation.exempt(since)
