"""The address by which a node directs clients to another node (cluster-preferred-endpoint-type)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ..server import Server
    from .topology import Node

# CLUSTER SLOTS shows this if no hostname is configured.
_NO_NAME: Final = "?"


def host(server: Server, node: Node) -> str | None:
    """Return the host to which clients are redirected for a node; None if they should keep the host that they use."""
    preferred = server.config.cluster_preferred_endpoint_type
    if preferred == "ip":
        return node.host
    return node.hostname or _NO_NAME if preferred == "hostname" else None


def address(server: Server, node: Node) -> bytes:
    """Return ``host:port`` of a node, as in MOVED and ASK; the host is empty if clients should keep theirs."""
    return f"{host(server, node) or ''}:{node.port}".encode()


def other_names(server: Server, node: Node) -> list[tuple[bytes, bytes]]:
    """Return the names of a node that are not preferred as (kind, name), for the metadata of CLUSTER SLOTS."""
    preferred = server.config.cluster_preferred_endpoint_type
    names = [("ip", node.host), ("hostname", node.hostname)]
    return [(kind.encode(), name.encode()) for kind, name in names if name and kind != preferred]
