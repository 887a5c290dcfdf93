"""XSETID: the last ID and the counters of a stream."""

from __future__ import annotations

from typing import Final

from ...protocol import replies
from ...protocol.errors import NO_SUCH_KEY, SYNTAX, ReplyError
from ...storage.keyspace import notifications as events
from ...storage.streams.ids import parse
from ...storage.streams.stream import Stream
from ..runtime.arguments import Arguments
from ..runtime.client import Client
from ..spec.command import handles
from . import specs

NEGATIVE_ADDED: Final = b"ERR entries_added must be positive"
BELOW_GIVEN_DELETED: Final = (
    b"ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id"
)
BELOW_DELETED: Final = b"ERR The ID specified in XSETID is smaller than current max_deleted_entry_id"
BELOW_TOP: Final = b"ERR The ID specified in XSETID is smaller than the target stream top item"
BELOW_LENGTH: Final = b"ERR The entries_added specified in XSETID is smaller than the target stream length"


@handles(specs.XSETID)
def xsetid(client: Client, args: list[bytes]) -> bytes:
    """Set the stream's last ID and, if given, the number of entries ever added and the greatest deleted ID; reply OK."""
    last_id = parse(args[2])
    added = None
    max_deleted = 0
    options = Arguments(args, 3)
    while options:
        if options.take(b"ENTRIESADDED"):
            added = options.integer()
            if added < 0:
                raise ReplyError(NEGATIVE_ADDED)
        elif options.take(b"MAXDELETEDID"):
            max_deleted = parse(options.next())
            if last_id < max_deleted:
                raise ReplyError(BELOW_GIVEN_DELETED)
        else:
            raise ReplyError(SYNTAX)
    name = args[1]
    stream = client.write_value(name, Stream)
    if stream is None:
        raise ReplyError(NO_SUCH_KEY)
    if last_id < stream.max_deleted_id and client.server.compat.guards_max_deleted:
        raise ReplyError(BELOW_DELETED)
    if stream.length:
        if last_id < stream.last_entry_id:
            raise ReplyError(BELOW_TOP)
        if added is not None and added < stream.length:
            raise ReplyError(BELOW_LENGTH)

    stream.set_last_id(last_id)
    if added is not None:
        stream.entries_added = added
    if max_deleted:
        stream.max_deleted_id = max_deleted
    keyspace = client.db.keyspace
    client.db.changed(name)
    keyspace.notify(events.STREAM, b"xsetid", name, client.db)
    client.propagate(args)
    return replies.OK
