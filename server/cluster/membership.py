"""A server's place in a cluster, if it has one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...protocol.key_slots import key_slot

if TYPE_CHECKING:
    from ..server import Server
    from .topology import Node, Topology


class Membership:
    """The cluster membership of one server; ``node`` is None without cluster mode."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.topology: Topology  # shared by all nodes of the cluster
        self.node: Node | None = None

    def join(self, topology: Topology, node: Node) -> None:
        """Record that the server is this node of the cluster."""
        self.topology, self.node = topology, node
        self.server.config.cluster_enabled = True
        self.server.mode = "cluster"

    def lead(self) -> None:
        """Make this server the master of its shard, in the topology too; it keeps its data."""
        self.note_lead()
        self.server.replication.lead()

    def note_lead(self) -> None:
        """Record in the topology that this server has become the master of its shard."""
        if self.node is not None:
            self.topology.promote(self.node)

    def take_role(self) -> None:
        """Make the server follow the master of its shard, or become the master, as the topology says."""
        if self.node is not None and self.node.body is not None:
            self.node.body.take_role()

    @property
    def is_ok(self) -> bool:
        """Whether this node considers the cluster up (``cluster_state:ok``)."""
        assert self.node is not None
        full_coverage = self.server.config.cluster_require_full_coverage
        return self.topology.is_ok(self.node, full_coverage=full_coverage)

    def keys_in(self, slot: int) -> Iterator[bytes]:
        """Iterate over this node's keys in a hash slot.

        There is no index by slot, because tests have few keys.
        """
        return (key for key in self.server.keyspace.databases[0].visible_keys() if key_slot(key) == slot)
