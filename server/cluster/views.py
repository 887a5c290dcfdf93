"""The topology as one node describes it: CLUSTER SLOTS, SHARDS, NODES, INFO and LINKS."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ...protocol import replies
from .endpoints import host, other_names

if TYPE_CHECKING:
    from .membership import Membership
    from .topology import Node, Shard

# CLUSTER INFO has these from 8.4 on, for CLUSTER MIGRATION.
_OF_MIGRATION: Final = (
    "cluster_slot_migration_active_tasks", "cluster_slot_migration_active_trim_running",
    "cluster_slot_migration_active_trim_current_job_keys", "cluster_slot_migration_active_trim_current_job_trimmed",
    "cluster_slot_migration_stats_active_trim_started", "cluster_slot_migration_stats_active_trim_completed",
    "cluster_slot_migration_stats_active_trim_cancelled",
)  # fmt: skip


def slots_reply(place: Membership, resp: int) -> bytes:
    """Encode the reply to CLUSTER SLOTS: first slot, last slot, master and reachable replicas of each range of slots."""
    assert place.node is not None
    runs = []
    for first, last, shard in place.topology.ranges():
        replicas = [node for node in shard.replicas if place.topology.reaches(place.node, node)]
        nodes = [_slots_node(place, node, resp) for node in (shard.master, *replicas)]
        runs.append(replies.array([replies.integer(first), replies.integer(last), *nodes]))
    return replies.array(runs)


def _slots_node(place: Membership, node: Node, resp: int) -> bytes:
    name = host(place.server, node)
    names = [(kind, replies.bulk(value)) for kind, value in other_names(place.server, node)]
    place_and_id = (None if name is None else name.encode(), node.port, node.id.encode())
    return replies.array([*(replies.plain(each, resp) for each in place_and_id), replies.map_of(names, resp)])


def shards_reply(place: Membership, resp: int) -> bytes:
    """Encode the reply to CLUSTER SHARDS: the slots and the nodes of each shard, including failed nodes."""
    shards = []
    for shard in place.topology.shards:
        bounds = [replies.integer(slot) for run in place.topology.ranges_of(shard) for slot in run]
        nodes = [_shards_node(place, node, resp) for node in shard.nodes]
        fields = [(b"slots", replies.array(bounds)), (b"nodes", replies.array(nodes))]
        shards.append(replies.map_of(fields, resp))
    return replies.array(shards)


def _shards_node(place: Membership, node: Node, resp: int) -> bytes:
    offset, has_data = node.progress()
    text = {
        b"ip": node.host,
        b"endpoint": host(place.server, node) or "",
        b"hostname": node.hostname,
        b"role": "master" if node.is_master else "replica",
        b"health": _health(place, node, has_data=has_data),
    }
    fields = {name: replies.bulk(value.encode()) for name, value in text.items()}
    if not node.hostname:
        del fields[b"hostname"]
    health = fields.pop(b"health")
    return replies.map_of(
        [
            (b"id", replies.bulk(node.id.encode())),
            (b"port", replies.integer(node.port)),
            *fields.items(),
            (b"replication-offset", replies.integer(offset)),
            (b"health", health),
        ],
        resp,
    )


def _health(place: Membership, node: Node, *, has_data: bool) -> str:
    assert place.node is not None
    if not place.topology.reaches(place.node, node):
        return "fail"
    return "online" if node.is_master or has_data else "loading"


def nodes_text(place: Membership) -> str:
    """Return the text of CLUSTER NODES: a line for each node."""
    return "".join(f"{node_line(place, node)}\n" for node in place.topology.nodes)


def node_line(place: Membership, node: Node) -> str:
    """Return one line of CLUSTER NODES: ID, address, flags, master, ping sent, pong received, epoch, link, slots."""
    topology, shard = place.topology, node.shard
    reached = topology.reaches(place.node, node) if place.node is not None else False
    name = f",{node.hostname}" if node.hostname else ""
    now = 0 if node is place.node else place.server.clock.now
    words = [
        node.id,
        f"{node.host}:{node.port}@{node.bus_port}{name}",
        ",".join(_flags(place, node)),
        "-" if node.is_master else shard.master.id,
        "0" if reached else str(now),
        str(now),
        str(shard.epoch),
        "connected" if reached else "disconnected",
    ]
    if node.is_master:
        words += [
            str(first) if first == last else f"{first}-{last}" for first, last in topology.ranges_of(shard)
        ]
        if node is place.node:
            words += _moves(shard)
    return " ".join(words)


def _flags(place: Membership, node: Node) -> Iterator[str]:
    assert place.node is not None
    if node is place.node:
        yield "myself"
    yield "master" if node.is_master else "slave"
    if not place.topology.reaches(place.node, node):
        yield "fail" if place.topology.is_majority(place.node) else "fail?"


def _moves(shard: Shard) -> Iterator[str]:
    moves = [(slot, f"[{slot}->-{to.master.id}]") for slot, to in shard.migrating.items()]
    moves += [(slot, f"[{slot}-<-{source.master.id}]") for slot, source in shard.importing.items()]
    return (text for _, text in sorted(moves))


def info_text(place: Membership) -> str:
    """Return the text of CLUSTER INFO. It counts no messages, because there is no cluster bus."""
    assert place.node is not None
    topology, viewer = place.topology, place.node
    owners = Counter(owner for owner in topology.owners if owner is not None)
    lost = sum(slots for owner, slots in owners.items() if not topology.reaches(viewer, owner.master))
    assigned = owners.total()
    failed, suspected = (lost, 0) if topology.is_majority(viewer) else (0, lost)
    fields = {
        "cluster_state": "ok" if place.is_ok else "fail",
        "cluster_slots_assigned": assigned,
        "cluster_slots_ok": assigned - lost,
        "cluster_slots_pfail": suspected,
        "cluster_slots_fail": failed,
        "cluster_known_nodes": len(topology.nodes),
        "cluster_size": len(owners),
        "cluster_current_epoch": topology.epoch,
        "cluster_my_epoch": viewer.shard.epoch,
        "cluster_stats_messages_sent": 0,
        "cluster_stats_messages_received": 0,
        "total_cluster_links_buffer_limit_exceeded": 0,
    }
    if place.server.compat.knows("8.4"):
        fields |= dict.fromkeys(_OF_MIGRATION, 0)
    return "".join(f"{name}:{value}\r\n" for name, value in fields.items())


def links_reply(place: Membership, resp: int) -> bytes:
    """Encode the reply to CLUSTER LINKS: two links for each other reachable node, as if there were a cluster bus."""
    assert place.node is not None
    links = []
    for node in place.topology.nodes:
        if node is place.node or not place.topology.reaches(place.node, node):
            continue
        for direction in (b"to", b"from"):
            fields = [
                (b"direction", replies.bulk(direction)),
                (b"node", replies.bulk(node.id.encode())),
                (b"create-time", replies.integer(place.server.started)),
                (b"events", replies.bulk(b"r")),
                (b"send-buffer-allocated", replies.ZERO),
                (b"send-buffer-used", replies.ZERO),
            ]
            links.append(replies.map_of(fields, resp))
    return replies.array(links)
