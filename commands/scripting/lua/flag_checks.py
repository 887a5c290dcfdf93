"""Check the flags of a script or function against the state of the server before it runs; ``shebang`` parses them."""

from __future__ import annotations

from typing import Final

from ....protocol.errors import ReplyError
from ...runtime.client import Client
from .shebang import ALLOW_STALE, NO_CLUSTER, NO_WRITES

_WRITES_ON_REPLICA: Final = b"READONLY You can not run script with write flag on readonly replica."
_WRITES_READ_ONLY: Final = b"ERR Can not execute a script with write flag using *_ro command."
_MASTERDOWN: Final = b"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."
_NO_CLUSTER: Final = b"ERR Can not run script on cluster, 'no-cluster' flag is set."
_NOREPLICAS: Final = b"NOREPLICAS Not enough good replicas to write."


def check_link(client: Client, flags: frozenset[str]) -> None:
    """Refuse a script without ``allow-stale`` on a replica whose link to the master is down, if its data may not be served."""
    if client.server.replication.is_stale and not client.trusted and ALLOW_STALE not in flags:
        raise ReplyError(_MASTERDOWN)


def check_flags(client: Client, flags: frozenset[str], *, read_only: bool) -> None:
    """Refuse a script that its flags, or their absence, forbid in the present state of the server."""
    server = client.server
    if server.config.cluster_enabled and NO_CLUSTER in flags:
        raise ReplyError(_NO_CLUSTER)
    check_link(client, flags)
    if NO_WRITES in flags:
        return
    if not client.trusted:
        if server.replication.is_readonly:
            raise ReplyError(_WRITES_ON_REPLICA)
        refusal = server.snapshot_error or server.disk_error
        if refusal is not None:
            raise ReplyError(refusal)
    if read_only:
        raise ReplyError(_WRITES_READ_ONLY)
    if server.replication.lacks_replicas and not client.trusted:
        raise ReplyError(_NOREPLICAS)
