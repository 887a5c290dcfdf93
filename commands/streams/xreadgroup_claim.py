"""XREADGROUP CLAIM: entries that are idle for long enough, before new ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...storage.groups.deliveries import UNOWNED_MS
from ...storage.groups.redelivery import claim_oldest
from .group_propagation import propagate_claims

if TYPE_CHECKING:
    from ...storage.groups.deliveries import Consumer
    from ...storage.groups.group import Group
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
    """Let the consumer have the entries that are idle for long enough (see ``storage.groups.redelivery``).

    Returns:
        How many, and the items one after the other.
    """
    now = client.server.keyspace.now
    assert allowance.claim is not None
    most = allowance.within(count)
    must_propagate = client.server.propagation.active
    items, changes = claim_oldest(
        group, stream, consumer, allowance.claim, most, now, allowance, with_changes=must_propagate
    )
    if items:
        if must_propagate:
            propagate_claims(client, key, group_name, group, changes)
        consumer.active_ms = now
    return len(items), b"".join(items)


def claimable_after(group: Group, claim: int, now: int) -> int:
    """The millisecond after which some entry of the group may be claimed, or at which it is worth another look."""
    oldest = group.oldest_ms()
    if oldest is None:
        return now + max(claim, _PATIENCE)
    due = now if oldest == UNOWNED_MS else oldest + claim
    return due if due > now else now + _PATIENCE
