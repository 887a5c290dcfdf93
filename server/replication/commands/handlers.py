"""Replication: roles, the handshake of replicas, and waiting for them; see ``server/replication``."""

from __future__ import annotations

import contextlib
from typing import Final

from ....commands.runtime.arguments import Arguments, is_host, parse_integer, parse_timeout
from ....commands.runtime.client import Client
from ....commands.spec.command import handles
from ....protocol import replies
from ....protocol.errors import SYNTAX, ReplyError
from ....protocol.inline import split_inline
from ..replica import Replica
from . import specs

_NO_WAIT: Final = (
    b"ERR %b cannot be used with replica instances. Please also note that %bwrites to replicas are just local and are "
    b"not propagated."
)
_WRITABLE: Final = b"since Redis 4.0 if a replica is configured to be writable (which is not the default) "
_VERSION_DIGITS: Final = 9  # of each of its three numbers
_NOT_POSITIVE: Final = b"ERR value is out of range, must be positive"


@handles(specs.WAIT)
def wait(client: Client, args: list[bytes]) -> bytes | None:
    """Block until enough replicas have acknowledged the client's writes, or the timeout is over; reply with their number."""
    replication = client.server.replication
    if replication.link is not None:
        raise ReplyError(_NO_WAIT % (b"WAIT", _WRITABLE))
    replicas = parse_integer(args[1])
    timeout = parse_timeout(client, args[2])
    count = replication.waits.count(client.write_offset, on_disk=False)
    if count >= replicas or not client.may_block:
        return replies.integer(count)
    replication.waits.add(client, args, timeout, replicas, None)
    return None


@handles(specs.WAITAOF)
def waitaof(client: Client, args: list[bytes]) -> bytes | None:
    """Block until the client's writes are fsynced here (``local``) and on enough replicas, or the timeout is over.

    Reply ``[1 if they are on this disk, number of replicas that have them on theirs]``.
    """
    local = parse_integer(args[1])
    if not 0 <= local <= 1:
        raise ReplyError(b"ERR value is out of range, value must between 0 and 1")
    replicas = parse_integer(args[2], _NOT_POSITIVE)
    if replicas < 0:
        raise ReplyError(_NOT_POSITIVE)
    timeout = parse_timeout(client, args[3])
    replication = client.server.replication
    if replication.link is not None:
        raise ReplyError(_NO_WAIT % (b"WAITAOF", b""))
    persistence = client.server.persistence
    if local and persistence.aof is None:
        raise ReplyError(b"ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.")
    synced = persistence.bring_to_disk() if local else persistence.is_on_disk
    count = replication.waits.count(client.write_offset, on_disk=True)
    if (synced >= local and count >= replicas) or not client.may_block:
        return replies.array([replies.integer(int(synced)), replies.integer(count)])
    replication.waits.add(client, args, timeout, replicas, local, synced=synced)
    return None


@handles(specs.REPLICAOF, specs.SLAVEOF)
def replicaof(client: Client, args: list[bytes]) -> bytes:
    """Become the replica of a master, or with NO ONE a master; reply OK at once. INFO and ROLE show the progress."""
    server = client.server
    replication = server.replication
    if server.config.cluster_enabled:
        raise ReplyError(b"ERR REPLICAOF not allowed in cluster mode.")
    _check_loop(client)
    if replication.failover.active:
        raise ReplyError(b"ERR REPLICAOF not allowed while failing over.")
    if args[1].upper() == b"NO" and args[2].upper() == b"ONE":
        if replication.link is not None:
            replication.lead()
            server.log.notice(f"MASTER MODE enabled (user request from '{client.address.decode()}')")
        return replies.OK
    if client.is_replica:
        raise ReplyError(b"ERR Command is not valid when client is a replica.")
    port = parse_integer(args[2], b"ERR Invalid master port")
    if not 0 <= port <= 65535:
        raise ReplyError(b"ERR Invalid master port")
    if not is_host(args[1]):
        raise ReplyError(b"ERR Invalid master host")
    host = args[1].decode("utf-8", "surrogateescape")
    link = replication.link
    if link is not None and link.host.lower() == host.lower() and link.port == port:
        server.log.notice(
            "REPLICAOF would result into synchronization with the master we are already connected to."
        )
        return replies.simple(b"OK Already connected to specified master")
    if link is None and server.blocking.waiters:
        server.calls.note_failure()  # as in Redis, because blocked clients get an error
    replication.follow(host, port)
    server.log.notice(f"REPLICAOF {host}:{port} enabled (user request from '{client.address.decode()}')")
    return replies.OK


@handles(specs.REPLCONF)
def replconf(client: Client, args: list[bytes]) -> bytes | None:
    """Record what a replica announces about itself and reply OK. ACK and GETACK get no reply."""
    _check_connection(client, args)
    if len(args) % 2 == 0:
        raise ReplyError(SYNTAX)
    replication = client.server.replication
    for option, value in zip(args[1::2], args[2::2], strict=True):
        name = option.lower()
        if name == b"ack":
            _acknowledge(client, args)
            return None
        if name == b"getack":
            if replication.link is not None:
                replication.link.acknowledge()
            return None
        replica = replication.replicas.introduce(client)
        if name == b"listening-port":
            replica.port = parse_integer(value)
        elif name == b"ip-address":
            if len(value) > 255:
                raise ReplyError(
                    b"ERR REPLCONF ip-address provided by replica instance is too long: %d bytes" % len(value)
                )
            replica.host = value
        elif name == b"capa":
            replica.reads_eof |= value.lower() == b"eof"
            replica.reads_new_id |= value.lower() == b"psync2"
            replica.receives_two_channels |= value.lower() == b"rdb-channel-repl"
            if value.startswith(b"rillet-"):
                replica.rillet = _two_numbers(value[7:])
        elif name == b"version":
            replica.version = _check_version(value)
        elif name == b"rdb-only":
            replica.only_snapshot = _parse_flag(value)
        elif name == b"rdb-filter-only":
            _filter(replica, value)
        else:
            raise ReplyError(b"ERR Unrecognized REPLCONF option: %b" % option)
    return replies.OK


def _parse_flag(value: bytes) -> bool:
    flag = parse_integer(value)
    if not 0 <= flag <= 1:
        raise ReplyError(b"ERR value is out of range, value must between 0 and 1")
    return flag == 1


def _filter(replica: Replica, value: bytes) -> None:
    """Limit the snapshot of a replica to the parts that it names."""
    parts = split_inline(value)
    if parts is None:
        raise ReplyError(b"ERR Missing rdb-filter-only values")
    replica.needs_data = replica.needs_functions = False
    for part in parts:
        if part.lower() != b"functions":
            raise ReplyError(b"ERR Unsupported rdb-filter-only option: %b" % part)
        replica.needs_functions = True


def _acknowledge(client: Client, args: list[bytes]) -> None:
    """Process ACK offset [FACK offset of the append-only file]; ignore words that are not numbers."""
    with contextlib.suppress(ReplyError):
        offset = parse_integer(args[2])
        on_disk = parse_integer(args[4]) if len(args) > 4 and args[3].lower() == b"fack" else None
        client.server.replication.replicas.acknowledge(client, offset, on_disk)


def _two_numbers(version: bytes) -> tuple[int, int]:
    major, _, minor = version.partition(b".")
    return parse_integer(major), parse_integer(minor)


def _check_version(version: bytes) -> bytes:
    parts = version.split(b".")
    if len(parts) != 3 or not all(part.isdigit() and len(part) <= _VERSION_DIGITS for part in parts):
        raise ReplyError(b"ERR Unrecognized version format: %b" % version)
    return version


@handles(specs.PSYNC)
def psync(client: Client, args: list[bytes]) -> bytes | None:
    """Begin to send a replica the stream from an offset on.

    Reply CONTINUE and the missing bytes if the backlog has them (partial resync); otherwise FULLRESYNC and a snapshot follow
    later.
    """
    _check_connection(client, args)
    if client.is_replica:
        return None
    if len(args) > 3 and args[3].upper() == b"FAILOVER":
        _take_over(client, args[1])
    offset = parse_integer(args[2])
    _check_link(client)
    _check_filter(client)
    _check_loop(client)
    return client.server.replication.replicas.synchronize(client, args[1], offset) or None


def _take_over(client: Client, history: bytes) -> None:
    """Become the master in place of our own master, which requests this and will follow us."""
    replication, log = client.server.replication, client.server.log
    log.notice(f"Failover request received for replid {history.decode('latin-1')}.")
    if replication.link is None:
        raise ReplyError(b"ERR PSYNC FAILOVER can't be sent to a master.")
    if history.lower() != replication.id.encode():
        raise ReplyError(b"ERR PSYNC FAILOVER replid must match my replid.")
    replication.lead()
    log.notice(f"MASTER MODE enabled (failover request from '{client.address.decode()}')")


def _check_connection(client: Client, args: list[bytes]) -> None:
    """Refuse commands of a loaded file, which has no connection, and of our master, which cannot be our replica."""
    if client.trusted:
        raise ReplyError(b"ERR %b isn't allowed for DENY BLOCKING client" % args[0].upper())


def _check_filter(client: Client) -> None:
    """Refuse a filtered snapshot to a replica that cannot read one without a length. Redis does the same."""
    replica = client.server.replication.replicas.of(client)
    if replica.is_filtered and not replica.reads_eof:
        raise ReplyError(b"ERR Filtered replica requires EOF capability")


def _check_loop(client: Client) -> None:
    """Refuse on a server that shares its loop: only a thread or a child process can send a snapshot."""
    if client.server.shares_loop:
        raise ReplyError(
            b"ERR a server in the event loop of a test has no master and no replicas: use rillet.testing.Server"
        )


def _check_link(client: Client) -> None:
    """Refuse while this replica has no complete data from its own master."""
    link = client.server.replication.link
    if link is not None and link.state != "connected":
        raise ReplyError(b"NOMASTERLINK Can't SYNC while not connected with my master")


@handles(specs.SYNC)
def sync(client: Client, args: list[bytes]) -> bytes | None:
    """The old PSYNC: send a snapshot and then the stream, without a line before them."""
    _check_connection(client, args)
    if client.is_replica:
        return None
    _check_link(client)
    _check_filter(client)
    _check_loop(client)
    return client.server.replication.replicas.synchronize(client, b"?", -1, old=True) or None


@handles(specs.FAILOVER)
def failover(client: Client, args: list[bytes]) -> bytes:
    """Hand the role of the master to a replica, or ABORT that; reply OK at once. INFO shows the progress."""
    if client.server.config.cluster_enabled:
        raise ReplyError(b"ERR FAILOVER not allowed in cluster mode. Use CLUSTER FAILOVER command instead.")
    replication = client.server.replication
    current = replication.failover
    if len(args) == 2 and args[1].upper() == b"ABORT":
        if not current.active:
            raise ReplyError(b"ERR No failover in progress.")
        current.abort("Failover manually aborted")
        return replies.OK
    target: tuple[bytes, int] | None = None
    timeout: int | None = None
    forced = False
    options = Arguments(args)
    while options:
        if timeout is None and options.remaining > 1 and options.take(b"TIMEOUT"):
            timeout = parse_integer(options.next())
            if timeout <= 0:
                raise ReplyError(b"ERR FAILOVER timeout must be greater than 0")
        elif target is None and options.remaining > 2 and options.take(b"TO"):
            host = options.next()
            target = host, parse_integer(options.next())
        elif not forced and options.take(b"FORCE"):
            forced = True
        else:
            raise ReplyError(SYNTAX)
    if current.active:
        raise ReplyError(b"ERR FAILOVER already in progress.")
    if replication.link is not None:
        raise ReplyError(b"ERR FAILOVER is not valid when server is a replica.")
    if not replication.replicas.connected:
        raise ReplyError(b"ERR FAILOVER requires connected replicas.")
    if forced and (timeout is None or target is None):
        raise ReplyError(b"ERR FAILOVER with force option requires both a timeout and target HOST and IP.")
    if target is not None:
        replica = current.find(target)
        if replica is None:
            raise ReplyError(b"ERR FAILOVER target HOST and PORT is not a replica.")
        if replica.state != "online":
            raise ReplyError(b"ERR FAILOVER target replica is not online.")
    current.start(target, timeout, forced=forced)
    return replies.OK


@handles(specs.ROLE)
def role(client: Client, _args: list[bytes]) -> bytes:
    """Reply ``["master", offset, [[host, port, offset] …]]``, or ``["slave", host, port, link state, offset]``.

    The offset of a replica is the one that it has acknowledged.
    """
    replication = client.server.replication
    replication.count_commands()
    link = replication.link
    if link is not None:
        shown = replication.offset if link.state == "connected" else -1
        return replies.plain(
            (b"slave", link.host.encode(), link.port, link.state.encode(), shown), client.resp
        )
    replicas = [
        (each.address, b"%d" % each.port, b"%d" % max(each.acknowledged, 0))
        for each in replication.replicas.online
    ]
    return replies.plain((b"master", replication.offset, replicas), client.resp)
