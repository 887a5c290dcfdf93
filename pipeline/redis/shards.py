"""Connect to an endpoint: to one server, to a cluster, or to the master that sentinels name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .cluster import ClusterConnection
from .connection import Connection
from .key_names import key_of, name_of
from .sentinels import SentinelConnection

if TYPE_CHECKING:
    from .options import Endpoint

_SCAN_COUNT: Final = 1000


def connect(
    endpoint: Endpoint, *, near: str = "", replica: bool = False, at_start: bool = False
) -> Connection:
    """Return a connection to an endpoint, which opens at its first use.

    Args:
        near: the shard that a task was planned for, as ``Connection.shard_of`` returned it.
        replica: read from a replica, if there is one.
        at_start: refuse a cluster node or a sentinel if the endpoint names a single server; used when a query or a
            job starts.
    """
    if endpoint.kind == "cluster":
        return ClusterConnection(endpoint, near="" if replica else near, replica=replica)
    if endpoint.kind == "sentinel":
        return SentinelConnection(endpoint, replica=replica)
    return Connection(endpoint, refuse_others=at_start)


def scan(connection: Connection, pattern: str) -> list[str]:
    """Return the names of all streams that match a glob pattern, on all shards, sorted.

    While slots move, a stream may move from a shard not yet scanned to a scanned one: then all are scanned again.
    """
    found: set[str] = set()
    is_sure = not isinstance(connection, ClusterConnection) or not connection.is_moving()
    while True:
        found.update(*connection.ask_masters(lambda server: _scan_one(server, pattern)))
        if isinstance(connection, ClusterConnection) and connection.refresh():
            is_sure = False
        if is_sure:
            return sorted(found)
        is_sure = True


def _scan_one(connection: Connection, pattern: str) -> set[str]:
    found: set[str] = set()
    cursor = b"0"
    while True:
        cursor, keys = connection.call(
            "SCAN", cursor, "MATCH", key_of(pattern), "COUNT", _SCAN_COUNT, "TYPE", "stream"
        )
        found.update(map(name_of, keys))
        if cursor == b"0":
            return found
