"""The connection that an endpoint needs: to one server, to a cluster, or to the master that sentinels name."""

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
    """Return a connection, made at its first use.

    Args:
        endpoint: where to.
        near: the shard that was planned for, as ``Connection.shard_of`` returned it.
        replica: read from a replica, where there is one.
        at_start: of a query or a job: refuse a node of a cluster and a sentinel where one server is wanted.
    """
    if endpoint.kind == "cluster":
        return ClusterConnection(endpoint, near="" if replica else near, replica=replica)
    if endpoint.kind == "sentinel":
        return SentinelConnection(endpoint, replica=replica)
    return Connection(endpoint, refuse_others=at_start)


def scan(connection: Connection, pattern: str) -> list[str]:
    """Return the streams of all shards that match a glob pattern, in order of their names.

    While slots move, a stream may go from a shard that is still to be looked at to one that was: all are looked at again then.
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
