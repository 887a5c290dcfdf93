"""The two ends of CLUSTER MIGRATION: read the keys of slots from one server, and store them in another.

The source postpones writes from the moment when its keys are read until the target owns the slots. Then it redirects the
postponed writes to the target with MOVED.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...commands.runtime.client import Client
from ...protocol.errors import ReplyError
from ...protocol.key_slots import key_slot
from ...storage.rdb import dump_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..server import Server


def read_keys(server: Server, slots: set[int]) -> list[tuple[bytes, int, bytes]]:
    """Return all keys of the slots: the name, the milliseconds to live (0: no limit) and the DUMP payload of each."""
    keyspace = server.keyspace
    now = keyspace.now = server.clock.tick()
    db = keyspace.databases[0]
    defaults, version = keyspace.idempotency_defaults, server.rdb_version
    found = []
    for key in db.visible_keys():
        if key_slot(key) in slots:
            due = db.expires.get(key)
            payload = dump_value(db.entries[key], version=version, idempotency_defaults=defaults)
            found.append((key, 0 if due is None else max(due - now, 1), payload))
    return found


def store_keys(server: Server, keys: Sequence[tuple[bytes, int, bytes]]) -> None:
    """Store keys that ``read_keys`` returned, in place of any with the same name, and propagate them.

    Raises ReplyError: a payload cannot be read, because the source has a newer version.
    """
    client = Client(server)
    client.trusted = client.replays = True
    server.keyspace.now = server.clock.tick()
    try:
        for key, ttl, payload in keys:
            words = [b"RESTORE", key, b"%d" % ttl, payload, b"REPLACE"]
            reply = server.calls.call(client, server.dispatcher.find(words), words)
            if reply is not None and reply.startswith(b"-"):
                raise ReplyError(reply[1:-2])
    finally:
        server.finish_unit()
