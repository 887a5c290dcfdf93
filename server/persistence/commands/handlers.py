"""SAVE, BGSAVE and BGREWRITEAOF: write the files that hold the data."""

from __future__ import annotations

from typing import Final

from ....commands.runtime.client import Client
from ....commands.spec.command import handles
from ....protocol import replies
from ....protocol.errors import SYNTAX, ReplyError
from . import specs

_SAVING: Final = b"ERR Background save already in progress"


@handles(specs.SAVE)
def save(client: Client, _args: list[bytes]) -> bytes:
    """Write the dump file while all clients wait; reply OK when it is on disk."""
    snapshots = client.server.snapshots
    if snapshots.in_progress:
        raise ReplyError(_SAVING)
    snapshots.saves += 1
    snapshots.save()
    return replies.OK


@handles(specs.BGSAVE)
def bgsave(client: Client, args: list[bytes]) -> bytes:
    """Begin a background save, or schedule it: in a transaction, or with SCHEDULE during an AOF rewrite. Reply which."""
    if len(args) > 2 or (len(args) == 2 and args[1].upper() != b"SCHEDULE"):
        raise ReplyError(SYNTAX)
    server = client.server
    snapshots = server.snapshots
    if snapshots.in_progress:
        raise ReplyError(_SAVING)
    if client.in_exec or server.persistence.rewrite.in_progress:
        if not client.in_exec and len(args) == 1:
            raise ReplyError(
                b"ERR Another child process is active (AOF?): can't BGSAVE right now. Use BGSAVE SCHEDULE in order to "
                b"schedule a BGSAVE whenever possible."
            )
        snapshots.scheduled = True
        return replies.simple(b"Background saving scheduled")
    snapshots.check_folder()
    if not snapshots.start():
        raise ReplyError(b"ERR")
    return replies.simple(b"Background saving started")


@handles(specs.BGREWRITEAOF)
def bgrewriteaof(client: Client, _args: list[bytes]) -> bytes:
    """Begin an AOF rewrite, or schedule it in a transaction or during a background save; reply which.

    It works without appendonly, too.
    """
    rewrite = client.server.persistence.rewrite
    if rewrite.in_progress:
        raise ReplyError(b"ERR Background append only file rewriting already in progress")
    begun = rewrite.ask(at_once=not client.in_exec)
    if begun is None:
        return replies.simple(b"Background append only file rewriting scheduled")
    if not begun:
        raise ReplyError(
            b"ERR Can't execute an AOF background rewriting. Please check the server logs for more information."
        )
    return replies.simple(b"Background append only file rewriting started")


@handles(specs.LASTSAVE)
def lastsave(client: Client, _args: list[bytes]) -> bytes:
    """Reply with the time of the last save in Unix seconds."""
    return replies.integer(client.server.last_save)
