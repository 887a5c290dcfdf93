"""The checks that may refuse a command, in Redis' order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...commands.runtime.client import Client
from ...commands.runtime.denials import refusal as denied
from ...protocol.errors import wrong_arity
from .flags import flags_of

if TYPE_CHECKING:
    from ..server import Server
    from .command_entry import CommandEntry

NOAUTH: Final = b"NOAUTH Authentication required."
LOADING: Final = b"LOADING Redis is loading the dataset in memory"
NOREPLICAS: Final = b"NOREPLICAS Not enough good replicas to write."
READONLY: Final = b"READONLY You can't write against a read only replica."
MASTERDOWN: Final = b"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."
GONE: Final = b"ERR the client was evicted"  # never sent: the client is closed already
NO_MULTI: Final = b"ERR Command not allowed inside a transaction"
_REFUSED: Final = (
    b'ERR %b command not allowed. If the %b option is set to "local", you can run it from a local connection, '
    b"otherwise you need to set this option in the configuration file, and then restart the server."
)
# Commands that a RESP2 client may send while it is subscribed.
_SUBSCRIBER: Final = frozenset(
    (
        "subscribe",
        "unsubscribe",
        "psubscribe",
        "punsubscribe",
        "ssubscribe",
        "sunsubscribe",
        "ping",
        "quit",
        "reset",
    )
)


def check(server: Server, client: Client, entry: CommandEntry, argv: list[bytes]) -> bytes | None:
    """Run all checks on a command in Redis' order; return the text of the first refusal, or None.

    Return ``GONE`` if maxmemory-clients has closed the client.
    """
    command = entry.command
    flags = command.flags
    if entry.runs_script or (entry.name == "exec" and server.needs_all_checks):
        flags = flags_of(server, client, entry, argv)
    if not entry.minimum <= len(argv) <= entry.maximum:
        return wrong_arity(entry.name).text
    if "protected" in flags and (refusal := _unless_enabled(server, client, entry)) is not None:
        return refusal
    if not client.authenticated and not server.users.default.is_open and "no_auth" not in flags:
        return NOAUTH
    if client.transaction is not None and "no_multi" in flags:
        return NO_MULTI
    if not client.user.is_unlimited and not client.trusted:
        denial = client.user.check(command, argv)
        if denial is not None:
            server.acl_log.note_denial(client, denial)
            return denied(denial, client.user.name, server.compat)
    config = server.config
    if config.cluster_enabled:
        from ..cluster import redirects

        refusal = redirects.refusal(server.cluster, client, entry, argv)
        if refusal is not None:
            return refusal
    if (config.maxmemory or config.maxmemory_clients) and not client.is_script:
        if server.client_eviction.evicts(client, argv):
            return GONE
        refusal = server.eviction.refusal(client, entry, argv)
        if refusal is not None:
            return refusal
    replication = server.replication
    if not client.trusted:
        refusal = refusal_of_write(server) if "write" in flags else None
        if entry.name == "ping":
            refusal = server.snapshot_error or server.disk_error
        if refusal is not None:
            return refusal
    if client.resp == 2 and client.is_subscriber and entry.name not in _SUBSCRIBER:
        return (
            b"ERR Can't execute '%b': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in "
            b"this context" % entry.name.encode()
        )
    if client.monitor and (entry.readonly or entry.write):
        return b"ERR Replica can't interact with the keyspace"
    if replication.is_stale and "stale" not in flags and not client.trusted:
        return MASTERDOWN
    # The scripts of a file that is being loaded check their commands here, too.
    if server.loading and not client.replays and "loading" not in flags:
        return LOADING
    if server.busy_error is not None and "allow_busy" not in flags:
        return server.busy_error
    return None


def refusal_of_write(server: Server) -> bytes | None:
    """Return the text of the error that every write gets now (MISCONF, NOREPLICAS, READONLY), or None."""
    refusal = server.snapshot_error or server.disk_error
    if refusal is None and server.replication.lacks_replicas:
        refusal = NOREPLICAS
    if refusal is None and server.replication.is_readonly:
        refusal = READONLY
    return refusal


def may_refuse(server: Server) -> bool:
    """Return True if, in the server's current state, some check may refuse a command of a plain client."""
    return (
        server.loading
        or server.disk_error is not None
        or server.snapshot_error is not None
        or server.busy_error is not None
        or server.pause.is_on
        or server.replication.needs_care
        or server.config.cluster_enabled
        or server.config.maxmemory > 0
        or server.config.maxmemory_clients != 0
        or server.limits_output
    )


def _unless_enabled(server: Server, client: Client, entry: CommandEntry) -> bytes | None:
    """Return the refusal of DEBUG or of loading a module, unless its directive (``enable-*-command``) allows it."""
    config = server.config
    if entry.name == "debug":
        name, directive, setting = b"DEBUG", b"enable-debug-command", config.enable_debug_command
    else:
        name, directive, setting = b"MODULE", b"enable-module-command", config.enable_module_command
    is_local = client.unix_socket or client.address.startswith((b"127.", b"[::1]", b"?"))
    return None if setting == "yes" or (setting == "local" and is_local) else _REFUSED % (name, directive)
