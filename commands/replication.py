"""Replication as a master without replicas answers it; this version takes none and becomes none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ..protocol import replies
from ..protocol.errors import SYNTAX, ReplyError
from .arguments import INT64_MAX, Arguments, parse_integer
from .syntax import keys as keys_syntax
from .syntax import server as syntax
from .table import command

if TYPE_CHECKING:
    from .client import Client

_UNSUPPORTED: Final = b"ERR %b is not supported by this version of Rillet: it has no replication"
_NOT_POSITIVE: Final = b"ERR value is out of range, must be positive"


def _timeout(client: Client, word: bytes) -> int:
    timeout = parse_integer(word, b"ERR timeout is not an integer or out of range")
    if timeout < 0:
        raise ReplyError(b"ERR timeout is negative")
    if timeout > INT64_MAX - client.server.keyspace.now:
        raise ReplyError(b"ERR timeout is out of range")
    return timeout


def _wait(client: Client, timeout: int, args: list[bytes], reply: bytes) -> bytes | None:
    """Answer when the time is up, for no replica will ever acknowledge anything; at once inside EXEC."""
    if not client.may_block:
        return reply
    client.server.blocking.block(client, (), timeout, args, on_missing=False, on_timeout=reply)
    return None


# WAIT numreplicas timeout
@command(
    "WAIT",
    arity=3,
    flags="blocking",
    categories="connection",
    tips=("request_policy:all_shards", "response_policy:agg_min"),
    since="3.0.0",
    group="generic",
    complexity="O(1)",
    summary="Waits until so many replicas have the connection's writes.",
    arguments=keys_syntax.WAIT,
)
def wait(client: Client, args: list[bytes]) -> bytes | None:
    """The number of replicas that have them: 0, at once or at the timeout."""
    replicas = parse_integer(args[1])
    timeout = _timeout(client, args[2])
    if replicas <= 0:
        return replies.ZERO
    return _wait(client, timeout, args, replies.ZERO)


# WAITAOF numlocal numreplicas timeout
@command(
    "WAITAOF",
    arity=4,
    flags="blocking",
    categories="connection",
    tips=("request_policy:all_shards", "response_policy:agg_min"),
    since="7.2.0",
    group="generic",
    complexity="O(1)",
    summary="Waits until the connection's writes are on the disk, here and on so many replicas.",
    arguments=keys_syntax.WAITAOF,
)
def waitaof(client: Client, args: list[bytes]) -> bytes | None:
    """``[1 if they are on this disk, replicas that have them on theirs]``."""
    local = parse_integer(args[1])
    if not 0 <= local <= 1:
        raise ReplyError(b"ERR value is out of range, value must between 0 and 1")
    replicas = parse_integer(args[2], _NOT_POSITIVE)
    if replicas < 0:
        raise ReplyError(_NOT_POSITIVE)
    timeout = _timeout(client, args[3])
    if local and client.server.persistence.aof is None:
        raise ReplyError(b"ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.")
    synced = _bring_to_disk(client, wanted=bool(local))
    reply = replies.array([replies.integer(int(synced)), replies.ZERO])
    if synced >= local and not replicas:
        return reply
    return _wait(client, timeout, args, reply)


def _bring_to_disk(client: Client, *, wanted: bool) -> bool:
    """Whether all that was written is on the disk; if that is ``wanted``, it is brought there now.

    The fsync is done here rather than awaited: the one that everysec brings is up to a second away, and under
    ``no`` there is none.
    """
    aof = client.server.persistence.aof
    if aof is None:
        return False
    if not aof.pending and not aof.unsynced:
        return True
    if not wanted or not aof.write():
        return False
    try:
        aof.sync()
    except OSError:
        return False
    return True


# REPLICAOF <host port | NO ONE>
@command(
    "REPLICAOF",
    arity=3,
    flags="admin noscript stale no_async_loading",
    since="5.0.0",
    group="server",
    complexity="O(1)",
    summary="Makes the server a replica of another, or a master again. Only the latter in this version.",
    arguments=syntax.REPLICAOF,
)
def replicaof(client: Client, args: list[bytes]) -> bytes:
    """OK for NO ONE, which is so already."""
    del client
    if args[1].upper() == b"NO" and args[2].upper() == b"ONE":
        return replies.OK
    if not 0 <= parse_integer(args[2], b"ERR Invalid master port") <= 65535:
        raise ReplyError(b"ERR Invalid master port")
    raise ReplyError(_UNSUPPORTED % args[0].upper())


# SLAVEOF <host port | NO ONE>
@command(
    "SLAVEOF",
    arity=3,
    flags="admin noscript stale no_async_loading",
    since="1.0.0",
    group="server",
    complexity="O(1)",
    summary="The older name of REPLICAOF.",
    arguments=syntax.SLAVEOF,
    doc_flags="deprecated",
    deprecated_since="5.0.0",
    replaced_by="`REPLICAOF`",
)
def slaveof(client: Client, args: list[bytes]) -> bytes | None:
    """As REPLICAOF."""
    return replicaof(client, args)


# REPLCONF
@command(
    "REPLCONF",
    arity=-1,
    flags="admin noscript loading stale allow_busy",
    since="3.0.0",
    group="server",
    complexity="O(1)",
    summary="Tells the master about a replica. Not in this version.",
    arguments=syntax.REPLCONF,
    doc_flags="syscmd",
)
def replconf(client: Client, args: list[bytes]) -> bytes:
    """Always an error."""
    del client, args
    raise ReplyError(_UNSUPPORTED % b"REPLCONF")


# PSYNC replicationid offset
@command(
    "PSYNC",
    arity=-3,
    flags="admin noscript no_async_loading no_multi",
    since="2.8.0",
    group="server",
    summary="Begins or continues replication. Not in this version.",
    arguments=syntax.PSYNC,
)
def psync(client: Client, args: list[bytes]) -> bytes:
    """Always an error."""
    del client, args
    raise ReplyError(_UNSUPPORTED % b"PSYNC")


# SYNC
@command(
    "SYNC",
    arity=1,
    flags="admin noscript no_async_loading no_multi",
    since="1.0.0",
    group="server",
    summary="Begins replication in its oldest form. Not in this version.",
    arguments=syntax.SYNC,
)
def sync(client: Client, args: list[bytes]) -> bytes:
    """Always an error."""
    del client, args
    raise ReplyError(_UNSUPPORTED % b"SYNC")


# FAILOVER [TO host port [FORCE]] [ABORT] [TIMEOUT milliseconds]
@command(
    "FAILOVER",
    arity=-1,
    flags="admin noscript stale",
    since="6.2.0",
    group="server",
    complexity="O(1)",
    summary="Hands the role of the master to a replica. There are none.",
    arguments=syntax.FAILOVER,
)
def failover(client: Client, args: list[bytes]) -> bytes:
    """Always an error."""
    del client
    options = Arguments(args)
    if options.remaining == 1 and options.take(b"ABORT"):
        raise ReplyError(b"ERR No failover in progress.")
    while options:
        option = options.option()
        if option == b"TO":
            options.next()
            options.integer()
        elif option == b"TIMEOUT":
            if options.integer() <= 0:
                raise ReplyError(b"ERR FAILOVER timeout must be greater than 0")
        elif option != b"FORCE":
            raise ReplyError(SYNTAX)
    raise ReplyError(b"ERR FAILOVER requires connected replicas.")
