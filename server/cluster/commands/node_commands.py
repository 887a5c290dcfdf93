"""CLUSTER's subcommands for nodes and their roles: FAILOVER, REPLICATE, FORGET, RESET, MEET and the epochs.

``rillet.testing.Cluster`` or ``rillet cluster`` starts the nodes; MEET adds none.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final

from ....commands.runtime.arguments import parse_integer
from ....commands.runtime.client import Client
from ....commands.spec.command import handles
from ....protocol import replies
from ....protocol.errors import SYNTAX, ReplyError
from . import specs
from .handlers import known_node, place_of

_LARGEST_PORT: Final = 0xFFFF


@handles(specs.CLUSTER_FAILOVER)
def cluster_failover(client: Client, args: list[bytes]) -> bytes:
    """Make this replica the master of its shard; reply OK before that is done.

    By default the master first hands over its last writes. FORCE and TAKEOVER do not wait for it.
    """
    place, node = place_of(client)
    forced = len(args) == 3
    if forced and args[2].upper() not in {b"FORCE", b"TAKEOVER"}:
        raise ReplyError(SYNTAX)
    if node.is_master:
        raise ReplyError(b"ERR You should send CLUSTER FAILOVER to a replica")
    if not forced and not place.topology.reaches(node, node.shard.master):
        raise ReplyError(b"ERR Master is down or failed, please use CLUSTER FAILOVER FORCE")
    if forced:
        place.lead()
    elif node.shard.master.body is not None:
        node.shard.master.body.hand_over(node)
    return replies.OK


@handles(specs.CLUSTER_REPLICATE)
def cluster_replicate(client: Client, args: list[bytes]) -> bytes:
    """Make this node a replica of a master and reply OK; its data is replaced.

    A node that is a master itself must have no keys, slots or replicas.
    """
    place, node = place_of(client)
    master = known_node(place, args[2])
    if master is node:
        raise ReplyError(b"ERR Can't replicate myself")
    if not master.is_master:
        raise ReplyError(b"ERR I can only replicate a master, not a replica.")
    has_slots = bool(place.topology.slots_of(node.shard))
    if node.is_master and (has_slots or len(client.server.keyspace.databases[0])):
        raise ReplyError(b"ERR To set a master the node must be empty and without assigned slots.")
    if node.is_master and node.shard.replicas:
        raise ReplyError(b"ERR Rillet keeps the replicas of a master: a node with replicas cannot become one")
    if node.shard is not master.shard:
        place.topology.replicate(node, master)
    return replies.OK


@handles(specs.CLUSTER_FORGET)
def cluster_forget(client: Client, args: list[bytes]) -> bytes:
    """Remove a node from the cluster, for all nodes, and reply OK."""
    place, node = place_of(client)
    other = known_node(place, args[2])
    if other is node:
        raise ReplyError(b"ERR I tried hard but I can't forget myself...")
    if node.shard.master is other:
        raise ReplyError(b"ERR Can't forget my master!")
    if other.is_master and other.shard.replicas:
        raise ReplyError(b"ERR Rillet keeps the replicas of a master: forget them first")
    place.topology.forget(other)
    return replies.OK


@handles(specs.CLUSTER_MEET)
def cluster_meet(client: Client, args: list[bytes]) -> bytes:
    """Reply OK if a node of this cluster has the port; refuse any other address, because no node can be added this way."""
    place, _ = place_of(client)
    kind = b"base" if client.server.compat.knows("7.2") else b"TCP base"
    port = parse_integer(args[3], b"ERR Invalid %b port specified: %b" % (kind, args[3]))
    if len(args) > 4:
        parse_integer(args[4], b"ERR Invalid bus port specified: %b" % args[4])
    name = args[2].decode("latin-1")
    if not 0 < port <= _LARGEST_PORT or not _is_address(name):
        raise ReplyError(b"ERR Invalid node address specified: %b:%b" % (args[2], args[3]))
    if any(node.port == port for node in place.topology.nodes):
        return replies.OK
    raise ReplyError(b"ERR Rillet has no cluster bus: the nodes of a cluster are chosen when it is started")


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


@handles(specs.CLUSTER_RESET)
def cluster_reset(client: Client, args: list[bytes]) -> bytes:
    """Refuse, because a node does not work outside its cluster."""
    place_of(client)
    if len(args) == 3 and args[2].upper() not in {b"HARD", b"SOFT"}:
        raise ReplyError(SYNTAX)
    raise ReplyError(
        b"ERR Rillet has no cluster bus: a node that was reset could not be joined to a cluster again"
    )


@handles(specs.CLUSTER_SAVECONFIG)
def cluster_saveconfig(client: Client, _args: list[bytes]) -> bytes:
    """Reply OK and do nothing: the topology is kept in memory only."""
    place_of(client)
    return replies.OK


@handles(specs.CLUSTER_BUMPEPOCH)
def cluster_bumpepoch(client: Client, _args: list[bytes]) -> bytes:
    """Give this node's shard a new configuration epoch; reply ``BUMPED epoch``, or ``STILL epoch`` if it has the highest."""
    place, node = place_of(client)
    if node.shard.epoch == place.topology.epoch:
        return replies.simple(b"STILL %d" % node.shard.epoch)
    with place.topology.changing():
        node.shard.epoch = place.topology.next_epoch()
    return replies.simple(b"BUMPED %d" % node.shard.epoch)


@handles(specs.CLUSTER_SET_CONFIG_EPOCH)
def cluster_set_config_epoch(client: Client, args: list[bytes]) -> bytes:
    """Refuse, because Redis also refuses it on a node that knows others."""
    place, _ = place_of(client)
    if parse_integer(args[2]) < 0:
        raise ReplyError(b"ERR Invalid config epoch specified: %b" % args[2])
    if len(place.topology.nodes) > 1:
        raise ReplyError(
            b"ERR The user can assign a config epoch only when the node does not know any other node."
        )
    raise ReplyError(b"ERR Node config epoch is already non-zero")
