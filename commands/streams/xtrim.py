"""XTRIM: remove the oldest entries; ``trim_options`` has its options."""

from __future__ import annotations

from ...protocol import replies
from ...storage.keyspace import notifications as events
from ...storage.streams.stream import Stream
from ..runtime.client import Client
from ..spec.command import handles
from . import specs
from .trim_options import parse_trim_options


@handles(specs.XTRIM)
def xtrim(client: Client, args: list[bytes]) -> bytes:
    """Remove the oldest entries; reply with their number.

    DELREF also removes them from the groups' pending entries; ACKED keeps entries that a group still needs.
    """
    options = parse_trim_options(client, args, adding=False)
    name = args[1]
    stream = client.write_value(name, Stream)
    if stream is None:
        return replies.ZERO
    options.require_ready(client, stream)
    removed = options.trim(client, stream)
    if removed:
        db = client.db
        db.keyspace.notify(events.STREAM, b"xtrim", name, db)
        db.modified(name)
        db.keyspace.dirty += removed
        propagated = args.copy()
        options.rewrite(propagated, stream)
        older = options.downgraded(propagated, stream) if options.needs_downgrade else None
        client.propagate_with_downgrade(propagated, older)
    return replies.integer(removed)
