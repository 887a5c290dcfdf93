"""SAVE, BGSAVE and BGREWRITEAOF, which this version does not have: they say so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..protocol.errors import SYNTAX, ReplyError
from .syntax import server as syntax
from .table import command

if TYPE_CHECKING:
    from .client import Client


def _no_rdb(name: bytes) -> ReplyError:
    return ReplyError(
        b"ERR %b is not supported by this version of Rillet: it writes no RDB file, appendonly yes keeps the data"
        % name
    )


# SAVE
@command(
    "SAVE",
    arity=1,
    flags="admin noscript no_async_loading no_multi",
    since="1.0.0",
    group="server",
    complexity="O(N) where N is the total number of keys in all databases",
    summary="Writes the data to disk and waits for it. Not in this version.",
    arguments=syntax.SAVE,
)
def save(client: Client, args: list[bytes]) -> bytes:
    """Always an error, for a silent OK would pretend that the data is safe."""
    del client, args
    raise _no_rdb(b"SAVE")


# BGSAVE [SCHEDULE]
@command(
    "BGSAVE",
    arity=-1,
    flags="admin noscript no_async_loading",
    since="1.0.0",
    group="server",
    complexity="O(1)",
    summary="Writes the data to disk in the background. Not in this version.",
    history=syntax.BGSAVE_HISTORY,
    arguments=syntax.BGSAVE,
)
def bgsave(client: Client, args: list[bytes]) -> bytes:
    """Always an error, as SAVE."""
    del client
    if len(args) > 2 or (len(args) == 2 and args[1].upper() != b"SCHEDULE"):
        raise ReplyError(SYNTAX)
    raise _no_rdb(b"BGSAVE")


# BGREWRITEAOF
@command(
    "BGREWRITEAOF",
    arity=1,
    flags="admin noscript no_async_loading",
    since="1.0.0",
    group="server",
    complexity="O(1)",
    summary="Rewrites the append-only file in the background. Not in this version.",
    arguments=syntax.BGREWRITEAOF,
)
def bgrewriteaof(client: Client, args: list[bytes]) -> bytes:
    """Always an error."""
    del client, args
    raise ReplyError(
        b"ERR BGREWRITEAOF is not supported by this version of Rillet: the append-only file only grows"
    )
