"""Store the result of SUNIONSTORE, ZRANGESTORE, GEOSEARCHSTORE and similar commands."""

from __future__ import annotations

from ...protocol import replies
from ...storage.collections.base import Collection
from ..runtime.client import Client
from .lifecycle import delete


def store_result(
    client: Client,
    args: list[bytes],
    name: bytes,
    value: Collection,
    event_class: int,
    event: bytes,
    changes: int = 1,
    *,
    is_fitted: bool = False,
) -> bytes:
    """Store a collection at a key, or delete the key if the collection is empty; propagate the command.

    Return the encoded reply: the length of the collection.

    Args:
        args: the command, which is propagated as it is.
        event_class: the class of the keyspace event, see ``storage.keyspace.notifications``.
        changes: the number of changes to add to those since the last save.
        is_fitted: the result already has its encoding; else it gets the most compact one that the limits allow.
    """
    db = client.db
    keyspace = db.keyspace
    if not len(value):
        if name in db.entries:  # even an expired key: Redis does not look it up
            delete(client, name)
            client.propagate(args)
        return replies.ZERO
    before = db.write(name)
    if not is_fitted:
        value.choose_encoding(keyspace.limits)
    db.overwrite(name, value, before, event_class, event)
    keyspace.dirty += changes
    client.propagate(args)
    return replies.integer(len(value))
