"""Apply the topology to one running server: to its role, blocked clients, subscribers and keys.

Each node runs in a thread of its own. The commands of all nodes see a change of the topology at once; ``react`` then
runs in the thread of each node and does the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from ...commands.keys.lifecycle import delete_from
from ...commands.runtime.client import Client
from ...protocol.errors import ReplyError
from ...protocol.key_slots import SLOTS, key_slot
from ...storage.rdb import dump_value
from .commands.migration import NOT_STABLE
from .redirects import refusal_of_waiter
from .topology import Node, Shard, SlotTask, Topology

if TYPE_CHECKING:
    from ..server import Server

# Directives that change how other nodes name this one.
_ANNOUNCED: Final = (
    "cluster-announce-ip", "cluster-announce-port", "cluster-announce-bus-port", "cluster-announce-hostname",
    "cluster-announce-human-nodename",
)  # fmt: skip
_SEEN_AT_ONCE: Final = ("cluster-require-full-coverage", "cluster-allow-reads-when-down")
_MOMENT: Final = 0.01  # seconds
HAND_OVER_LIMIT: Final = 5000  # milliseconds that writes wait for a replica to take over, as in Redis
_BUS_OFFSET: Final = 10_000  # from the port to that of the cluster bus, if there were one


class Presence:
    """One server as a node of a cluster, from before its start until it stops."""

    def __init__(self, server: Server, topology: Topology, node: Node) -> None:
        self._server = server
        self._topology = topology
        self.node = node
        self._owners: list[Shard | None] = []  # of the slots, at the last search for lost keys
        self._master = node.shard.master  # at the last search for lost shard channels
        self._is_cut = False  # a partition separates it from its master
        self._successor = node  # the replica to which this master hands over
        server.cluster.join(topology, node)
        for name in _ANNOUNCED:
            server.config.on_change(name, self._announce)
        for name in _SEEN_AT_ONCE:
            server.config.on_change(name, self._look_again)

    def start(self) -> None:
        """Mark the node as running, and react to the topology from now on. The server's port must be known."""
        node, server = self.node, self._server
        node.listens = server.config.bind[0], server.config.port
        node.body = self
        self._owners = [node.shard] * SLOTS  # its keys may be of any slot
        self._announce()
        self._topology.listeners.append(self._wake)
        self._topology.set_running(node, running=True)

    def stop(self) -> None:
        """Mark the node as not running, and end the moves of slots to it; callable from any thread."""
        with self._topology.changing():
            if self._wake in self._topology.listeners:
                self._topology.listeners.remove(self._wake)
            self.node.running = False
        for task in list(self._topology.tasks):
            if task.target is self.node:
                self._end(task, "the target has stopped")

    def _end(self, task: SlotTask, error: str) -> None:
        """End a move to this node, unless it has ended; without an error this node's shard owns the slots."""
        with self._topology.changing():
            if task.ended >= 0:
                return
            if not error:
                self._topology.assign(task.slots, self.node.shard)
                self.node.shard.epoch = self._topology.next_epoch()
            task.end(self._server.clock.now, error)
        if task.source.body is not None:
            task.source.body.go_on()

    def _announce(self) -> None:
        """Apply the directives that announce this node."""
        config, node = self._server.config, self.node
        with self._topology.changing():
            node.host = config.cluster_announce_ip or node.listens[0]
            node.port = config.cluster_announce_port or node.listens[1]
            node.bus_port = config.cluster_announce_bus_port or node.listens[1] + _BUS_OFFSET
            node.hostname = config.cluster_announce_hostname

    # Called by other threads

    def _post(self, function: Callable[..., None], *args: object) -> bool:
        """Call a function in the server's thread; return False if the server is stopping or has ended."""
        try:
            self._server.loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            return False
        return not self._server.stopping

    def _wake(self) -> None:
        self._post(self.react)

    def _look_again(self) -> None:
        self._server.loop.call_soon(self.react)

    def progress(self) -> tuple[int, bool]:
        """Return this node's replication offset, and True if it is a master or connected to its master."""
        replication = self._server.replication
        link = replication.link
        return replication.offset, link is None or link.state == "connected"

    def hand_over(self, replica: Node) -> None:
        """Fail over to a replica of this master once it has the whole stream; callable from any thread."""
        self._post(self._begin_failover, replica)

    def export(self, task: SlotTask) -> None:
        """Send the slots and keys of a CLUSTER MIGRATION to its target.

        Callable from any thread. The task records a failure.
        """
        if not self._post(self._export, task):
            task.end(self._server.clock.now, "the source has stopped")

    def receive(self, task: SlotTask, keys: Sequence[tuple[bytes, int, bytes]]) -> bool:
        """Store the keys of a task and take its slots; callable from any thread.

        Return False if this node is stopping or has stopped.

        Args:
            task: the move; its end is recorded in it.
            keys: name, milliseconds to live (0: no limit) and DUMP payload of each.
        """
        return self._post(self._receive, task, keys)

    def go_on(self) -> None:
        """Release the writes that ``export`` postponed; callable from any thread."""
        self._post(self._server.pause.release_writes, self)

    # In the server's thread

    def _begin_failover(self, replica: Node) -> None:
        replication, loop = self._server.replication, self._server.loop
        if replication.failover.active or not self.node.is_master:
            return
        if self._server.pause.holders:  # slots are being exported, which takes a moment
            loop.call_later(_MOMENT, self._begin_failover, replica)
            return
        for each in replication.replicas.connected.values():
            if each.port == replica.listens[1]:
                self._successor = replica
                place = each.address, each.port
                replication.failover.start(place, HAND_OVER_LIMIT, forced=False, limits_all=True)
                return
        self._server.log.warning(f"Failover to {replica.id} is impossible: it is not connected.")

    def _export(self, task: SlotTask) -> None:
        server, slots = self._server, set(task.slots)
        if not self.node.is_master or server.pause.holders or not all(map(self._serves, slots)):
            task.end(server.clock.now, "the source cannot give its slots now")
            return
        shard = self.node.shard
        if any(slot in shard.migrating or slot in shard.importing for slot in slots):
            task.end(server.clock.now, NOT_STABLE.decode())
            return
        server.pause.hold_writes(self)
        target = task.target.body
        if target is None or not target.receive(task, _read_keys(server, slots)):
            task.end(server.clock.now, "the target has stopped")
            server.pause.release_writes(self)
            return
        limit = server.config.cluster_slot_migration_write_pause_timeout
        server.loop.call_later(limit / 1000, self._give_up, task)

    def _give_up(self, task: SlotTask) -> None:
        """End a move whose target hangs: has not begun to store the keys within the timeout."""
        with self._topology.changing():
            if not task.waits:
                return
            task.end(self._server.clock.tick(), "the target did not answer before the write pause timeout")
        self._server.pause.release_writes(self)

    def _receive(self, task: SlotTask, keys: Sequence[tuple[bytes, int, bytes]]) -> None:
        with self._topology.changing():
            if not task.waits:
                return  # the source has given up
            task.waits = False
        now = self._server.clock.now
        error = "the target failed"
        try:
            _store_keys(self._server, keys)
            task.write_pause = self._server.clock.tick() - now
            error = ""
        except ReplyError as refusal:
            error = refusal.text.decode("latin-1")
        finally:
            self._end(task, error)

    def react(self) -> None:
        """Apply the current topology: take the role, then drop waits, subscriptions and keys that belong to other nodes."""
        if self._server.stopping:
            return
        self.take_role()
        self._release_blocked()
        self._drop_subscribers()
        self._drop_keys()

    def take_role(self) -> None:
        """Follow the master of the shard, or become its master, as the topology says."""
        replication, master = self._server.replication, self.node.shard.master
        if replication.failover.active:
            # The topology follows the failover; a successor that is gone would hold the writes until the timeout.
            if master is self.node and not self._topology.reaches(self.node, self._successor):
                replication.failover.abort("the replica is gone")
            return
        link = replication.link
        if master is self.node:
            self._is_cut = False
            replication.lead()
        elif link is not None and master.side != self.node.side:
            if not self._is_cut:
                self._is_cut = True
                link.stop()
        elif master.listens[1] and (self._is_cut or link is None or (link.host, link.port) != master.listens):
            self._is_cut = False
            replication.follow(*master.listens)

    def _release_blocked(self) -> None:
        """Unblock, with an error, the clients that wait for keys that this node no longer serves."""
        blocking = self._server.blocking
        for client, waiter in list(blocking.waiters.items()):
            error = refusal_of_waiter(self._server.cluster, client, waiter.entry, waiter.argv)
            if error is not None:
                blocking.unblock(client, error)

    def _drop_subscribers(self) -> None:
        """End the subscriptions to shard channels whose slot this shard does not own, or whose slot has a new master.

        After a failover clients subscribe again, even to the node that leads now; before 7.2 its own clients need not.
        """
        pubsub, master, before = self._server.pubsub, self.node.shard.master, self._master
        self._master = master
        all_of_them = master is not before and (before is self.node or self._server.compat.knows("7.2"))
        lost = [name for name in pubsub.shard_channels if all_of_them or not self._serves(key_slot(name))]
        for name in lost:
            pubsub.end_shard_channel(name)

    def _serves(self, slot: int) -> bool:
        return self._topology.owners[slot] is self.node.shard

    def _drop_keys(self) -> None:
        """On a master, delete the keys of slots that it has lost."""
        shard = self.node.shard
        if not self.node.is_master:
            self._owners = [shard] * SLOTS  # a replica may be promoted before the DEL of its master arrives
            return
        with self._topology.standing_still():
            before, self._owners = self._owners, list(self._topology.owners)
            lost = {
                slot
                for slot, (was, now) in enumerate(zip(before, self._owners, strict=True))
                if was is shard and now is not shard and now is not None and slot not in shard.importing
            }
        if not lost:
            return
        server = self._server
        db = server.keyspace.databases[0]
        keys = [key for key in db.visible_keys() if key_slot(key) in lost]
        for key in keys:
            delete_from(db, key)
        if keys and server.propagation.active:
            server.propagation.add(db.index, [b"DEL", *keys])
        server.finish_unit()


def _read_keys(server: Server, slots: set[int]) -> list[tuple[bytes, int, bytes]]:
    """Return all keys of the slots: the name, the milliseconds to live (0: no limit) and the DUMP payload of each.

    From now on the source postpones writes, until the target owns the slots. Then it redirects them there with MOVED.
    """
    keyspace = server.keyspace
    now = keyspace.now = server.clock.tick()
    db = keyspace.databases[0]
    defaults, version = keyspace.idempotency_defaults, server.rdb_version
    found = []
    for key in db.visible_keys():
        if key_slot(key) in slots:
            due = db.expires.get(key)
            payload = dump_value(db.entries[key], version=version, idempotency_defaults=defaults)
            found.append((key, 0 if due is None else max(due - now, 1), payload))
    return found


def _store_keys(server: Server, keys: Sequence[tuple[bytes, int, bytes]]) -> None:
    """Store keys that ``_read_keys`` returned, in place of any with the same name, and propagate them.

    Raises ReplyError: a payload cannot be read, because the source has a newer version.
    """
    client = Client(server)
    client.trusted = client.replays = True
    server.keyspace.now = server.clock.tick()
    try:
        for key, ttl, payload in keys:
            words = [b"RESTORE", key, b"%d" % ttl, payload, b"REPLACE"]
            reply = server.calls.call(client, server.dispatcher.find(words), words)
            if reply is not None and reply.startswith(b"-"):
                raise ReplyError(reply[1:-2])
    finally:
        server.finish_unit()
