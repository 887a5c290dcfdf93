"""CONFIG: read and change the configuration of a running server."""

from __future__ import annotations

from ...commands.runtime.client import Client
from ...commands.spec.command import handles
from ...commands.spec.usage import help_of
from ...protocol import replies
from ...protocol.errors import SYNTAX, ReplyError
from . import specs


@handles(specs.CONFIG_GET)
def config_get(client: Client, args: list[bytes]) -> bytes:
    """Reply with a map of directives and their values; a pattern without a match adds nothing."""
    found = client.server.config.get(args[2:])
    return replies.map_of([(name, replies.bulk(value)) for name, value in found.items()], client.resp)


@handles(specs.CONFIG_SET)
def config_set(client: Client, args: list[bytes]) -> bytes:
    """Change one or more directives, all of them or none; reply OK."""
    if len(args) % 2:
        raise ReplyError(SYNTAX)
    client.server.config.set(list(zip(args[2::2], args[3::2], strict=True)), local=_is_local(client))
    return replies.OK


@handles(specs.CONFIG_REWRITE)
def config_rewrite(client: Client, _args: list[bytes]) -> bytes:
    """Write the current configuration to the file that the server was started with; reply OK."""
    client.server.rewrite_config()
    return replies.OK


@handles(specs.CONFIG_RESETSTAT)
def config_resetstat(client: Client, _args: list[bytes]) -> bytes:
    """Reset the statistics of INFO to zero; reply OK."""
    server = client.server
    snapshots, rewrite, replicas = server.snapshots, server.persistence.rewrite, server.replication.replicas
    server.stats.reset()
    snapshots.saves = snapshots.forks = snapshots.fork_microseconds = 0
    rewrite.count = rewrite.forks = rewrite.fork_microseconds = server.persistence.delayed_syncs = 0
    replicas.full_syncs = replicas.partial_syncs = replicas.refused_partial_syncs = 0
    if server.scripting_if_used is not None:
        server.scripting_if_used.scripts.evicted = 0
    server.keyspace.reset_statistics()
    server.slowlog.reset_statistics()
    return replies.OK


handles(specs.CONFIG_HELP, container="config")(help_of)


def _is_local(client: Client) -> bool:
    """Return True if the client is on this machine; internal clients have the address ``?:0``."""
    return client.unix_socket or client.address.startswith((b"127.", b"[::1]", b"?"))
