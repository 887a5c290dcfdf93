"""SAVE, BGSAVE and BGREWRITEAOF: the files that hold the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...protocol import replies
from ...protocol.errors import SYNTAX, ReplyError
from ..spec.command import handles
from . import specs

if TYPE_CHECKING:
    from ..runtime.client import Client


_SAVING: Final = b"ERR Background save already in progress"


@handles(specs.SAVE)
def save(client: Client, args: list[bytes]) -> bytes:
    """OK once the file is complete and on the disk; everybody waits meanwhile."""
    del args
    snapshots = client.server.snapshots
    if snapshots.in_progress:
        raise ReplyError(_SAVING)
    snapshots.save()
    return replies.OK


@handles(specs.BGSAVE)
def bgsave(client: Client, args: list[bytes]) -> bytes:
    """Begun; or scheduled, in a transaction or where an AOF rewrite is under way and SCHEDULE allows it."""
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
def bgrewriteaof(client: Client, args: list[bytes]) -> bytes:
    """Begun, or scheduled where a transaction or another snapshot is under way; works without appendonly, too."""
    del args
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
