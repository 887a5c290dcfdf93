r"""Propagate group commands to the AOF and the replicas.

XREADGROUP, XCLAIM and XAUTOCLAIM are never propagated as sent. Each entry that got a new owner is propagated as
``XCLAIM key group consumer 0 id TIME ms RETRYCOUNT n FORCE JUSTID LASTID id``: its values are absolute, so it applies
to any state. Where versions of Redis differ, ``compat`` decides.
"""

from __future__ import annotations

from typing import Final

from ...protocol.replies import command
from ...storage.groups.claiming import Change
from ...storage.groups.consumer import NEVER, Consumer
from ...storage.groups.group import Group
from ...storage.groups.pending import UNOWNED_MS
from ...storage.keyspace import notifications as events
from ...storage.streams import ids as stream_id
from ..runtime.client import Client

# The pieces of a record: up to the ID, up to the delivery count, up to the LASTID. The records of one command share most
# pieces and are joined from them; encoding each record word by word takes ten times as long.
_HEAD: Final = b"*14\r\n$6\r\nXCLAIM\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n$1\r\n0\r\n"
_TIME: Final = b"$4\r\nTIME\r\n$%d\r\n%b\r\n$10\r\nRETRYCOUNT\r\n"
_COUNT: Final = b"$%d\r\n%b\r\n$5\r\nFORCE\r\n$6\r\nJUSTID\r\n$6\r\nLASTID\r\n"
_SETID: Final = b"*7\r\n$6\r\nXGROUP\r\n$5\r\nSETID\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n"


def new_consumer(client: Client, key: bytes, group: Group, name: bytes) -> Consumer:
    """Create a consumer as a side effect of a command: count a change and send the event, but propagate nothing."""
    return join(client, key, group, Consumer(name, client.server.keyspace.now))


def join(client: Client, key: bytes, group: Group, consumer: Consumer) -> Consumer:
    """Add an existing consumer object to its group, with the side effects of ``new_consumer``."""
    group.add_consumer(consumer)
    client.db.changed(key)
    client.server.keyspace.notify(events.STREAM, b"xgroup-createconsumer", key, client.db)
    return consumer


def claimant(client: Client, key: bytes, group: Group, name: bytes) -> Consumer:
    """Create a missing consumer of XCLAIM or XAUTOCLAIM; up to 7.0 it joins the group only if it claims an entry."""
    if client.server.compat.claims_see_consumers:
        return new_consumer(client, key, group, name)
    return Consumer(name, NEVER)


def _head(key: bytes, group: bytes, consumer: bytes) -> bytes:
    """Encode the words of an XCLAIM up to the ID."""
    return _HEAD % (len(key), key, len(group), group, len(consumer), consumer)


def _id(number: int) -> bytes:
    text = stream_id.encode(number)
    return b"$%d\r\n%b\r\n" % (len(text), text)


def _time(ms: int) -> bytes:
    """Encode the words of an XCLAIM after the ID, up to the delivery count."""
    text = b"%d" % ms
    return _TIME % (len(text), text)


def _count(count: int) -> bytes:
    """Encode the delivery count of an XCLAIM and the words after it, up to the LASTID."""
    text = b"%d" % count
    return _COUNT % (len(text), text)


def propagate_claims(client: Client, key: bytes, name: bytes, group: Group, changes: list[Change]) -> None:
    """Propagate claimed and dropped entries in this order, each as an XCLAIM; join them to one record.

    The XCLAIM of a dropped entry repeats its owner, time and count: the receiver lacks its message and drops it, too.
    A dropped entry without an owner cannot be propagated like that; it is propagated as XACK.
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
    client: Client, key: bytes, name: bytes, group: Group, consumer: bytes, texts: list[bytes], before: int
) -> None:
    """Propagate the first delivery of entries by XREADGROUP, each as an XCLAIM.

    Args:
        group: the group, after the read.
        before: the group's last ID before the read.
    """
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
    """Propagate the group's last ID and entries-read counter as XGROUP SETID."""
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
    """Propagate a new consumer as XGROUP CREATECONSUMER."""
    propagation = client.server.propagation
    since = len(propagation.effects)
    client.propagate((b"XGROUP", b"CREATECONSUMER", key, group, consumer))
    propagation.exempt(since)
