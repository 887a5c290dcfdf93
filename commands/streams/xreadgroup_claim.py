"""XREADGROUP CLAIM: what others have left lying, before what is new."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...storage.groups.deliveries import UNOWNED_MS
from ...storage.groups.group import MAX_COUNT
from ...storage.groups.pel_pages import texts_of
from .group_propagation import propagate_claims

if TYPE_CHECKING:
    from ...storage.groups.deliveries import Consumer
    from ...storage.groups.group import Group
    from ...storage.groups.pel_pages import Places
    from ...storage.streams.stream import Stream
    from ..runtime.client import Client
    from .read_budget import Allowance

# Waiting for what is due and cannot be claimed (its message is gone): as often as Redis looks when idle.
_PATIENCE: Final = 100


def claim_idle(
    client: Client,
    key: bytes,
    group_name: bytes,
    stream: Stream,
    group: Group,
    consumer: Consumer,
    allowance: Allowance,
    count: int | None,
) -> tuple[int, bytes]:
    """Let the consumer have the entries that are idle for long enough, the longest idle first.

    Entries whose message is gone are passed over and stay. Each item of the reply has four elements: id, fields,
    milliseconds since the delivery before, deliveries before.

    Returns:
        How many, and the items one after the other.
    """
    now = client.server.keyspace.now
    claim = allowance.claim
    assert claim is not None
    count = allowance.within(count)
    places: Places = []
    counts: list[int] = []
    items: list[bytes] = []
    for page, at in group.oldest(now - claim):
        if len(places) == count or allowance.is_spent():
            break
        entry = stream.entry(page.number(at))
        if entry is None:
            continue
        block = page.blocks[at]
        assert block is not None
        item = b"*4%b:%d\r\n:%d\r\n" % (entry[2:], now - max(block.ms, 0), block.count)
        places.append((page, (at,)))
        counts.append(min(block.count + 1, MAX_COUNT))
        items.append(item)
        allowance.add(len(item))
    if places:
        if client.server.propagation.active:
            changes = [
                ((text,), consumer.name, now, deliveries)
                for text, deliveries in zip(texts_of(places), counts, strict=True)
            ]
            propagate_claims(client, key, group_name, group, changes)
        group.reassign_each(consumer, places, now, counts)
        consumer.active_ms = now
    return len(items), b"".join(items)


def claimable_after(group: Group, claim: int, now: int) -> int:
    """The millisecond after which some entry of the group may be claimed, or at which it is worth another look."""
    oldest = group.oldest_ms()
    if oldest is None:
        return now + max(claim, _PATIENCE)
    due = now if oldest == UNOWNED_MS else oldest + claim
    return due if due > now else now + _PATIENCE
