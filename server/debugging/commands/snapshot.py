"""DEBUG SNAPSHOT: take and restore copies of all data.

::

    DEBUG SNAPSHOT TAKE name
    DEBUG SNAPSHOT RESTORE name
    DEBUG SNAPSHOT DROP name
    DEBUG SNAPSHOT LIST
    DEBUG SNAPSHOT DUMP name
    DEBUG SNAPSHOT LOAD name rdb
"""

from __future__ import annotations

from typing import Final

from ....commands.runtime.client import Client
from ....protocol import replies
from ....protocol.errors import ReplyError

USAGE: Final = b"ERR Use DEBUG SNAPSHOT TAKE, RESTORE, DROP or DUMP name, LOAD name rdb, or LIST"


def snapshot(client: Client, args: list[bytes]) -> bytes:
    """Keep, restore, list or forget snapshots.

    LIST replies with the ``[name, keys]`` of each snapshot, in the order in which they were taken. DUMP replies with a snapshot
    as an RDB file. LOAD keeps the data of such a file as a snapshot. All but LIST and DUMP reply OK.
    """
    snapshots = client.server.debugging.snapshots
    action, rest = args[2].upper(), args[3:]
    if action == b"LIST" and not rest:
        counts = [(name, sum(map(len, kept.databases))) for name, kept in snapshots.by_name.items()]
        return replies.plain(counts, client.resp)
    if action == b"DUMP" and len(rest) == 1:
        return replies.bulk(snapshots.dump(rest[0]))
    if action == b"TAKE" and len(rest) == 1:
        snapshots.take(rest[0])
    elif action == b"DROP" and len(rest) == 1:
        snapshots.drop(rest[0])
    elif action == b"LOAD" and len(rest) == 2:
        snapshots.load(rest[0], rest[1])
    elif action == b"RESTORE" and len(rest) == 1:
        if client.in_exec:
            raise ReplyError(b"ERR DEBUG SNAPSHOT RESTORE is not possible inside a transaction")
        snapshots.restore(rest[0])
    else:
        raise ReplyError(USAGE)
    return replies.OK
