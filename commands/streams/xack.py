"""XACK: a consumer has done its work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...protocol import replies
from ...storage.streams.stream import Stream
from ..spec.command import handles
from . import specs
from .deferral import require_group
from .ids import parse_id

if TYPE_CHECKING:
    from ..runtime.client import Client


@handles(specs.XACK)
def xack(client: Client, args: list[bytes]) -> bytes:
    """Acknowledge entries. All IDs are validated before any is acknowledged, but only if the group exists."""
    stream = client.read_value(args[1], Stream)
    if stream is None:
        return replies.ZERO
    group = stream.groups.get(args[2])
    if group is None:
        return replies.ZERO
    if group.pending_cleanup is not None:
        require_group(client, group)
    ids = args[3:]
    acknowledged = len(ids) if group.acknowledge_all(ids) else group.acknowledge(list(map(parse_id, ids)))
    if acknowledged:
        server = client.server
        server.keyspace.dirty += acknowledged
        if server.propagation.active:
            client.propagate(args)
    return replies.integer(acknowledged)
