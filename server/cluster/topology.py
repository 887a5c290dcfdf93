"""The topology of a cluster: shards, their nodes, and which shard owns each hash slot.

All nodes of a cluster live in one process and read one ``Topology``, so all of them see each change at once; there is
no gossip. It is plain data: it opens no sockets, reads no clock and starts nothing. ``server/cluster/presence`` applies
a change to a running server.

A node sees the running nodes on its own side of a partition. If its side has the majority of the masters, it marks all
other nodes as failed. Otherwise it only suspects them, and the cluster is down for it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from threading import RLock
from typing import TYPE_CHECKING

from ...protocol.key_slots import SLOTS

if TYPE_CHECKING:
    from .presence import Presence


@dataclass(slots=True, eq=False)
class SlotTask:
    """A move of slots with all their keys, by CLUSTER MIGRATION; all times are Unix milliseconds."""

    slots: list[int]
    source: Node
    target: Node
    created: int
    id: str = field(default_factory=lambda: secrets.token_hex(20))
    state: str = "connecting"  # ``connecting``, then ``completed`` or ``failed``
    error: str = ""
    ended: int = -1  # -1 before its end
    write_pause: int = 0  # how long the source accepted no writes
    waits: bool = True  # for the target to store the keys

    def end(self, now: int, error: str = "") -> None:
        """Record that the move ended at ``now``: it has failed if there is an error, else it is completed."""
        self.waits = False
        self.state, self.error, self.ended = "failed" if error else "completed", error, now


@dataclass(slots=True, eq=False)
class Node:
    """One server of a cluster."""

    id: str  # 40 hexadecimal digits, which never change
    host: str = "127.0.0.1"  # the address that clients are redirected to
    port: int = 0
    bus_port: int = 0
    hostname: str = ""  # as announced; empty for none
    running: bool = True
    side: int = 0  # nodes with different numbers do not reach each other
    listens: tuple[str, int] = ("127.0.0.1", 0)  # where it really serves clients, whatever it announces
    body: Presence | None = None  # the server that runs as this node; None before its first start
    shard: Shard = field(init=False)

    @property
    def is_master(self) -> bool:
        """Whether the node is the master of its shard."""
        return self.shard.master is self

    def progress(self) -> tuple[int, bool]:
        """Return the node's replication offset, and True if it is a master or connected to its master."""
        return (0, False) if self.body is None else self.body.progress()


@dataclass(slots=True, eq=False)
class Shard:
    """A master, its replicas and their slots."""

    id: str
    master: Node
    nodes: list[Node]  # all nodes, including the master
    epoch: int = 0  # the configuration epoch: of two claims to a slot, the one with the higher number wins
    # Slots that move from this shard, each with its target.
    migrating: dict[int, Shard] = field(default_factory=dict)
    # Slots that move to this shard, each with its source.
    importing: dict[int, Shard] = field(default_factory=dict)

    @property
    def replicas(self) -> list[Node]:
        """The nodes of the shard without its master."""
        return [node for node in self.nodes if node is not self.master]


class Topology:
    """The nodes of one cluster."""

    def __init__(self) -> None:
        self.shards: list[Shard] = []  # in the order in which they were created
        self.owners: list[Shard | None] = [None] * SLOTS  # the shard of each slot, None if it has none
        self.epoch = 0  # the highest configuration epoch
        self.tasks: list[SlotTask] = []  # moves of slots by CLUSTER MIGRATION, the oldest first
        # Called after each change, in the thread that made it; they must return at once.
        self.listeners: list[Callable[[], None]] = []
        self._lock = RLock()
        self._changes = 0  # the nesting depth of ``changing``
        self._health: dict[int, tuple[bool, bool]] = {}

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Hold the lock during several changes, and call the listeners once, after the last."""
        with self._lock:
            self._changes += 1
            try:
                yield
            finally:
                self._changes -= 1
                self._health.clear()
                if not self._changes:  # a node that is called in between would act on half of them
                    for listener in list(self.listeners):
                        listener()

    def standing_still(self) -> RLock:
        """Return the lock of the topology, for ``with``: no other thread changes it meanwhile."""
        return self._lock

    # Nodes

    @property
    def nodes(self) -> list[Node]:
        """All nodes, in the order of their shards."""
        return [node for shard in self.shards for node in shard.nodes]

    def find(self, node_id: str) -> Node | None:
        """Return the node with an ID; None if there is none."""
        return next((node for node in self.nodes if node.id == node_id), None)

    def add(self, shard: Shard | None = None) -> Node:
        """Add a node as the master of a new shard, or as a replica in ``shard``; return the node."""
        node = Node(secrets.token_hex(20))
        with self.changing():
            if shard is None:
                self._found_shard(node)
            else:
                node.shard = shard
                shard.nodes.append(node)
        return node

    def _found_shard(self, node: Node) -> None:
        node.shard = Shard(secrets.token_hex(20), node, [node], self.next_epoch())
        self.shards.append(node.shard)

    def next_epoch(self) -> int:
        """Increase the configuration epoch by one and return it."""
        self.epoch += 1
        return self.epoch

    def replicate(self, node: Node, master: Node) -> None:
        """Make a node a replica of a master.

        Raises:
            ValueError: the node has slots, or replicas that would lose their master; or ``master`` is no other master.
        """
        if node.is_master and (self.slots_of(node.shard) or node.shard.replicas):
            raise ValueError("a master with slots or replicas cannot become a replica")
        if not master.is_master or master is node:
            raise ValueError("only a master can be replicated")
        with self.changing():
            self._leave_shard(node)
            node.shard = master.shard
            master.shard.nodes.append(node)

    def _leave_shard(self, node: Node) -> None:
        shard = node.shard
        shard.nodes.remove(node)
        if not shard.nodes:
            self.shards.remove(shard)
            for other in self.shards:
                for moves in (other.migrating, other.importing):
                    for slot in [slot for slot, end in moves.items() if end is shard]:
                        del moves[slot]

    def forget(self, node: Node) -> None:
        """Remove a node; a master's slots then have no owner. Raises ValueError for a master with replicas."""
        shard = node.shard
        if node.is_master and shard.replicas:
            raise ValueError("a master with replicas cannot be removed")
        with self.changing():
            if node.is_master:
                self.unassign(self.slots_of(shard))
            self._leave_shard(node)

    def promote(self, node: Node) -> None:
        """Make a replica the master of its shard, with a new epoch; do nothing if it is the master."""
        if node.is_master:
            return
        with self.changing():
            node.shard.master = node
            node.shard.epoch = self.next_epoch()

    # Slots

    def assign(self, slots: Iterable[int], shard: Shard) -> None:
        """Make a shard the owner of slots; a move of such a slot ends."""
        with self.changing():
            for slot in slots:
                before = self.owners[slot]
                # Set the owner first: commands read without the lock, and none may re-create a key where it has left.
                self.owners[slot] = shard
                if before is not None and before is not shard:
                    before.migrating.pop(slot, None)
                shard.importing.pop(slot, None)
                shard.migrating.pop(slot, None)

    def unassign(self, slots: Iterable[int]) -> None:
        """Leave slots without an owner; a move of such a slot ends."""
        with self.changing():
            for slot in slots:
                owner = self.owners[slot]
                if owner is not None:
                    owner.migrating.pop(slot, None)
                self.owners[slot] = None

    def begin_move(self, slot: int, to: Shard) -> None:
        """Mark a slot as migrating to another shard: clients are redirected there with ASK for keys that are no longer here.

        Raises ValueError: the slot has no owner, or that shard owns it already.
        """
        source = self.owners[slot]
        if source is None or source is to:
            raise ValueError(
                f"slot {slot} has no owner" if source is None else f"slot {slot} is there already"
            )
        with self.changing():
            source.migrating[slot] = to
            to.importing[slot] = source

    def turn_back(self, slot: int) -> None:
        """Reverse the move of a slot: its keys on the target are to move back, the others stay on the source.

        Commands read the topology without the lock. The order of the steps lets them find every key after each step.
        """
        with self.changing():
            source = self.owners[slot]
            assert source is not None
            target = source.migrating[slot]
            source.importing[slot], target.migrating[slot] = target, source
            self.owners[slot] = target
            del target.importing[slot], source.migrating[slot]

    def move(self, slots: list[int], to: Node, now: int) -> SlotTask:
        """Begin to move slots of one shard and their keys to a master, in one step; return the task, which records the end.

        ``now``: the time of the server's clock, in milliseconds.
        Raises ValueError: the slots have several owners or none, or ``to`` has them already; or a master does not
        run.
        """
        owners = {self.owners[slot] for slot in slots}
        source = owners.pop()
        if owners or source is None or source is to.shard:
            raise ValueError("slots that move together have one owner, which is another one")
        task = SlotTask(slots, source.master, to, now)
        if source.master.body is None or not self.reaches(to, source.master):
            raise ValueError("the owner of the slots does not run")
        self.tasks.append(task)
        source.master.body.export(task)
        return task

    def slots_of(self, shard: Shard) -> list[int]:
        """Return the slots of a shard, in ascending order."""
        return [slot for slot, owner in enumerate(self.owners) if owner is shard]

    def ranges(self) -> list[tuple[int, int, Shard]]:
        """Return the ranges of slots that have one owner as (first, last, owner), both inclusive, in order."""
        found = []
        first = 0
        for owner, run in groupby(self.owners):
            end = first + sum(1 for _ in run)
            if owner is not None:
                found.append((first, end - 1, owner))
            first = end
        return found

    def ranges_of(self, shard: Shard) -> list[tuple[int, int]]:
        """Return the slot ranges of one shard as (first, last), both inclusive, in order."""
        return [(first, last) for first, last, owner in self.ranges() if owner is shard]

    # Failures

    def set_running(self, node: Node, running: bool) -> None:
        """Record that a node came up or went down."""
        with self.changing():
            node.running = running

    def part(self, nodes: Iterable[Node]) -> None:
        """Partition the network: the given nodes reach only each other, and no other node reaches them."""
        with self.changing():
            side = max((node.side for node in self.nodes), default=0) + 1
            for node in nodes:
                node.side = side

    def heal(self) -> None:
        """End every partition, so that all nodes reach each other."""
        with self.changing():
            for node in self.nodes:
                node.side = 0

    def reaches(self, viewer: Node, other: Node) -> bool:
        """Return True if ``other`` is ``viewer``, or runs and no partition separates the two."""
        return other is viewer or (other.running and other.side == viewer.side)

    def is_majority(self, viewer: Node) -> bool:
        """Return True if ``viewer`` reaches more than half of the masters that have slots."""
        return self._healths(viewer)[0]

    def is_ok(self, viewer: Node, *, full_coverage: bool) -> bool:
        """Return True if ``viewer`` considers the cluster up: it reaches more than half of the masters that have slots.

        ``full_coverage``: it must also reach the owner of every slot (cluster-require-full-coverage).
        """
        majority, covered = self._healths(viewer)
        return majority and (covered or not full_coverage)

    def _healths(self, viewer: Node) -> tuple[bool, bool]:
        """Return two flags: a node's side has the majority; the node reaches the owner of every slot."""
        found = self._health.get(viewer.side)
        if found is None:
            owners = set(self.owners)
            masters = [shard.master for shard in owners if shard is not None]
            reached = sum(self.reaches(viewer, master) for master in masters)
            found = reached >= len(masters) // 2 + 1, None not in owners and reached == len(masters)
            self._health[viewer.side] = found
        return found
