"""Detect that another query uses the same consumer name: each would take the other's pending entries for its own.

The driver's connection has a client name, which CLIENT LIST shows exactly as long as the driver lives:
``rillet:group:<group>:<consumer>:<query>:<streams>``. The query's part comes from its checkpoint, so a restarted query
has the same one. The streams' part is a checksum of their names, or of the pattern: two queries may be the same
consumer of groups of different streams.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote
from zlib import crc32

from ..redis.connection import Connection, ServerError, checked
from ..redis.key_names import key_of
from ..redis.options import OptionError
from ..source.losses import LOG
from .options import GroupOptions

_MOST_STREAMS: Final = 100


def refuse_a_shared_name(server: Connection, options: GroupOptions, consumer: str, query: str) -> None:
    """Check that no query with another checkpoint uses our consumer name; if two start at once, the first continues.

    Raises OptionError: the name is in use.

    Args:
        server: our driver's connection, which gets its client name here.
        query: our query's part of the name, from the checkpoint.
    """
    prefix = f"rillet:group:{quote(options.group, safe='')}:{quote(consumer, safe='')}:"
    streams = {f"{crc32(key_of(name)):08x}" for name in options.streams or (f"pattern {options.pattern}",)}
    own = f"{prefix}{query}:{','.join(sorted(streams)[:_MOST_STREAMS])}"
    asked = [("CLIENT", "SETNAME", own), ("CLIENT", "LIST", "TYPE", "normal")]
    try:
        text: bytes = checked(server.pipeline(asked, repeatable=True))[1]
    except ServerError as error:
        if error.code != "NOPERM":
            raise
        LOG.warning(
            "whether another query is consumer %r of group %r is not known: %s",
            consumer, options.group, error,
        )  # fmt: skip
        return
    clients = [
        dict(word.split("=", 1) for word in line.split(" ") if "=" in word)
        for line in text.decode().splitlines()
    ]
    ours = max(int(client["id"]) for client in clients if client.get("name") == own)
    for client in clients:
        name = client.get("name", "")
        if not name.startswith(prefix):
            continue
        other, _, read = name.removeprefix(prefix).partition(":")
        if other != query and streams & set(read.split(",")) and int(client["id"]) < ours:
            raise OptionError(
                f"consumer {consumer!r} of group {options.group!r} is another query's, at {client['addr']}: give this one a "
                "name of its own with option 'consumer', or no name, and it gets one. If that query is gone and the server "
                f"has not noticed, CLIENT KILL ID {client['id']} ends its connection"
            )
