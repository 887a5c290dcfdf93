"""How a node names another one to clients, by cluster-preferred-endpoint-type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ..server import Server
    from .topology import Node

# In place of a hostname that no directive names.
_NO_NAME: Final = "?"


def host(server: Server, node: Node) -> str | None:
    """Return the host of a node; None where clients are to stay with the host they know."""
    preferred = server.config.cluster_preferred_endpoint_type
    if preferred == "ip":
        return node.host
    return node.hostname or _NO_NAME if preferred == "hostname" else None


def address(server: Server, node: Node) -> bytes:
    """Return host and port as MOVED and ASK have them."""
    return f"{host(server, node) or ''}:{node.port}".encode()


def other_names(server: Server, node: Node) -> list[tuple[bytes, bytes]]:
    """Return the names of a node that are not its preferred one, by their kind: the metadata of CLUSTER SLOTS."""
    preferred = server.config.cluster_preferred_endpoint_type
    names = [("ip", node.host), ("hostname", node.hostname)]
    return [(kind.encode(), name.encode()) for kind, name in names if name and kind != preferred]
