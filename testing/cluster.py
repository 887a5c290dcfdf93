"""A cluster for tests of clients: all nodes run in this process, and the test sets the topology.

::

    with rillet.testing.Cluster(shards=3, replicas=1) as cluster:
        client = cluster.client()                       # redis.cluster.RedisCluster
        client.set("greeting", "hello")
        cluster.move(cluster.slot_of("greeting"), to=cluster.shards[1])     # keys and all; clients are redirected
        cluster.fail_over(cluster.shards[0])            # its replica is the master now

Nodes answer like those of Redis Cluster, but there is no gossip between them.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final

from ..protocol.key_slots import SLOTS, key_slot
from ..server.cluster.presence import Presence
from ..server.cluster.topology import Node, Shard, SlotTask, Topology
from .clients import need_redis
from .process import InWith
from .server import Server

if TYPE_CHECKING:
    import redis.asyncio.cluster
    import redis.cluster

    from ..server.server import Server as RilletServer

_DEADLINE: Final = 30.0  # seconds
_LOOK: Final = 0.002  # seconds between polls of other threads
_KEYS_AT_ONCE: Final = 1000


class ClusterNode(Server):
    """A cluster node: a server in a thread, with all features of ``rillet.testing.Server``.

    Attributes:
        id: 40 hexadecimal digits, as in CLUSTER NODES.
    """

    _default_transport = "tcp"  # of a cluster's clients

    def __init__(self, topology: Topology, node: Node, port: int, directives: dict[str, Any]) -> None:
        super().__init__(port=port, **directives)
        self.node = node
        self.id = node.id
        self._topology = topology
        self._presence: Presence | None = None

    @property
    def role(self) -> str:
        """``master`` or ``replica``."""
        return "master" if self.node.is_master else "replica"

    def stop(self) -> None:
        """Stop the node once its replicas have all its data; the other nodes see at once that it failed.

        With ``appendonly=True`` its data is back after ``start``.
        """
        if self._server is not None and self.node.is_master and not self._is_inherited:
            self._finish_replication(self._server)
        self._halt()

    def restart(self) -> None:
        """Restart the node on the same port with the same files."""
        self._check_owner()
        self.stop()
        self.start()

    def discard(self) -> None:
        """Stop the node at once and remove its folder."""
        super().stop()

    def run_inside(self, function: Callable[[], Any]) -> Any:
        """Call a function in the node's own thread, between two turns of its loop; return its result."""
        self._check_owner()
        done: Future[Any] = Future()

        def call() -> None:
            try:
                done.set_result(function())
            except BaseException as error:  # noqa: BLE001 - handed to the thread that waits
                done.set_exception(error)

        assert self._server is not None
        self._server.loop.call_soon_threadsafe(call)
        return done.result(_DEADLINE)

    def call(self, *words: bytes) -> Any:
        """Run one command as a client, on a new connection, and return the reply as hiredis parses it.

        Raises:
            hiredis.ReplyError: the reply is an error: MOVED, READONLY and all others.
        """
        with contextlib.closing(self._connect(hidden=False)) as connection:
            return connection.run(*words)

    @property
    def _offset(self) -> int:
        return self.node.progress()[0]

    def _finish_replication(self, server: RilletServer) -> None:
        """Pause writes, and wait until the reachable replicas have all earlier ones."""
        followers = [node for node in self.node.shard.replicas if self._topology.reaches(self.node, node)]
        if followers:
            self.run_inside(lambda: server.pause.hold_writes(self))
            wait_until(
                lambda: all(node.progress()[0] >= self._offset for node in followers), "replicas to catch up"
            )

    def lead(self) -> None:
        """Make this replica the master of its shard with the data that it has."""
        assert self._server is not None
        self.run_inside(self._server.cluster.lead)

    def _prepare(self, server: RilletServer) -> None:
        self._presence = Presence(server, self._topology, self.node)

    def _arrive(self, server: RilletServer, ready: Future[None]) -> None:
        assert self._presence is not None
        self._presence.start()
        super()._arrive(server, ready)

    def _end(self) -> None:
        if self._presence is not None:
            self._presence.stop()
            self._presence = None
        super()._end()


class ClusterShard:
    """A master, its replicas and their slots; after a failover it is still the same shard."""

    def __init__(self, cluster: Cluster, shard: Shard) -> None:
        self._cluster = cluster
        self.shard = shard

    @property
    def master(self) -> ClusterNode:
        """The current master of the shard."""
        return self._cluster.node(self.shard.master)

    @property
    def replicas(self) -> list[ClusterNode]:
        """The current replicas of the shard."""
        return [self._cluster.node(node) for node in self.shard.replicas]

    @property
    def nodes(self) -> list[ClusterNode]:
        """All nodes of the shard, the master first."""
        return [self.master, *self.replicas]

    @property
    def slots(self) -> list[int]:
        """The hash slots that the shard serves, in ascending order."""
        return self._cluster.topology.slots_of(self.shard)


class Cluster(InWith):
    """A Redis Cluster for tests, in threads of this process.

    Args:
        shards: the number of shards, among which the slots are divided evenly.
        replicas: the number of replicas of each master.
        port: the first node's port, which the other nodes' ports follow; 0 picks free ones.
        directives: directives of all nodes, as in ``rillet.testing.Server``.

    Attributes:
        nodes: the initial masters, then the initial replicas.
        shards: the shards in the order of their slots.
        topology: the topology that all nodes share.
    """

    def __init__(self, shards: int = 3, replicas: int = 0, *, port: int = 0, **directives: Any) -> None:
        if shards < 1 or replicas < 0:
            raise ValueError("a cluster has at least one shard, and no negative number of replicas")
        self.topology = Topology()
        self._password = directives.get("requirepass")
        # Replicas must log in to their master, and receive its data without a delay.
        usual = {"repl_diskless_sync_delay": 0, "masterauth": self._password or "", "databases": 1}
        if str(directives.get("compat_version", "8.10")).startswith("7."):
            del usual["databases"]
        masters = [self.topology.add() for _ in range(shards)]
        others = [self.topology.add(master.shard) for _ in range(replicas) for master in masters]
        self.nodes = [
            ClusterNode(self.topology, node, port + at if port else 0, usual | directives)
            for at, node in enumerate((*masters, *others))
        ]
        self.shards = [ClusterShard(self, master.shard) for master in masters]
        self._divide_slots()

    def _divide_slots(self) -> None:
        """Assign to each shard the slots that ``redis-cli --cluster create`` would assign."""
        number = len(self.shards)
        with self.topology.changing():
            for each in self.topology.shards:
                each.migrating.clear()
                each.importing.clear()
            for at, shard in enumerate(self.shards):
                first, end = round(SLOTS * at / number), round(SLOTS * (at + 1) / number)
                self.topology.assign(range(first, end), shard.shard)

    # Lifecycle

    def start(self) -> Cluster:
        """Start all nodes, and wait until each replica has the data of its master.

        Raises:
            StartError: a node did not start; the text is its own.
        """
        try:
            for node in self.nodes:
                node.start()
            self.wait_for_replicas()
        except BaseException:
            self.stop_all()
            raise
        return self

    def reset(self) -> None:
        """Reset the cluster for the next test: start all nodes, remove all keys, and reassign the initial slots.

        A replica that became the master remains the master. Other state of a node (CONFIG, users, clock) stays, too.
        """
        self.topology.heal()
        for node in self.nodes:
            if not node.running:
                node.start()
        self._divide_slots()
        self._wait_for_nodes()
        for shard in self.shards:
            shard.master.call(b"FLUSHALL")
        self.wait_for_replicas()

    def stop_all(self) -> None:
        """Stop all nodes and remove their folders.

        Raises:
            StopError: a node did not stop; the others have.
        """
        with contextlib.ExitStack() as stops:
            for node in reversed(self.nodes):
                stops.callback(node.discard)

    def _leave(self) -> None:
        self.stop_all()

    def _forget_faults(self) -> None:
        for node in self.nodes:
            node._forget_faults()  # noqa: SLF001 - of the same package

    # Clients

    @property
    def url(self) -> str:
        """``redis://…`` of a running node, from which clients discover the others."""
        return self._some_node.url

    @property
    def _some_node(self) -> ClusterNode:
        return next(node for node in self.nodes if node.running)

    def client(self, **options: Any) -> redis.cluster.RedisCluster:
        """Return a new ``redis.cluster.RedisCluster``; ``options`` are redis-py's."""
        need_redis()
        import redis.cluster

        return redis.cluster.RedisCluster.from_url(self.url, **options)

    def async_client(self, **options: Any) -> redis.asyncio.cluster.RedisCluster:
        """Return a new ``redis.asyncio.cluster.RedisCluster``."""
        need_redis()
        import redis.asyncio.cluster

        return redis.asyncio.cluster.RedisCluster.from_url(self.url, **options)

    # Where things are

    def node(self, node: Node) -> ClusterNode:
        """Return the ``ClusterNode`` for a node of the server's topology."""
        return next(each for each in self.nodes if each.node is node)

    @staticmethod
    def slot_of(key: str | bytes) -> int:
        """Return the hash slot of a key."""
        return key_slot(key.encode() if isinstance(key, str) else key)

    def shard_of(self, key: str | bytes) -> ClusterShard:
        """Return the shard that serves a key.

        Raises:
            LookupError: no shard serves it.
        """
        owner = self.topology.owners[self.slot_of(key)]
        for each in self.shards:
            if each.shard is owner:
                return each
        raise LookupError(f"no shard serves {key!r}")

    def _check(self, *members: ClusterNode | ClusterShard) -> None:
        """Raise ValueError for nodes and shards of other clusters."""
        for each in members:
            if each not in self.nodes and each not in self.shards:
                raise ValueError(f"{each!r} is of another cluster")

    def _owner(self, slot: int) -> Shard | None:
        if not 0 <= slot < SLOTS:
            raise ValueError(f"there is no slot {slot}: the slots are 0 to {SLOTS - 1}")
        return self.topology.owners[slot]

    # Slots

    def move(self, slots: int | Iterable[int], to: ClusterShard) -> None:
        """Move slots and their keys to another shard in one step: clients see MOVED, never ASK.

        Raises:
            ValueError: a slot has no owner, its owner does not run, or it is already moving.
        """
        self._check(to)
        sources: dict[Shard | None, list[int]] = {}
        for slot in [slots] if isinstance(slots, int) else slots:
            owner = self._owner(slot)
            if owner is not None and slot in owner.migrating:
                raise ValueError(f"slot {slot} is moving: end that by finish_move or cancel_move")
            sources.setdefault(owner, []).append(slot)
        sources.pop(to.shard, None)
        for numbers in sources.values():
            _finish(self.topology.move(numbers, to.master.node, 0))
        self._wait_for_nodes()

    def begin_move(self, slot: int, to: ClusterShard) -> None:
        """Mark a slot as moving; from now on its shard answers ASK for keys that it does not have."""
        self._check(to)
        owner = self._owner(slot)
        if owner is not None and owner.migrating.get(slot, to.shard) is not to.shard:
            raise ValueError(
                f"slot {slot} is moving to another shard: end that by finish_move or cancel_move"
            )
        self.topology.begin_move(slot, to.shard)
        self._wait_for_nodes()

    def move_keys(self, slot: int, *keys: str | bytes) -> None:
        """Move some keys of a moving slot, or by default all remaining ones."""
        source, target = self._ends(slot)
        chosen = [key.encode() if isinstance(key, str) else key for key in keys]
        while found := chosen or source.call(
            b"CLUSTER", b"GETKEYSINSLOT", b"%d" % slot, b"%d" % _KEYS_AT_ONCE
        ):
            host, port = target.node.listens
            login = [b"AUTH", str(self._password).encode()] if self._password else []
            words = [host.encode(), b"%d" % port, b"", b"0", b"%d" % (1000 * _DEADLINE), b"REPLACE", *login]
            source.call(b"MIGRATE", *words, b"KEYS", *found)
            if chosen:
                break

    def finish_move(self, slot: int) -> None:
        """Move the remaining keys, and assign the slot to its target shard."""
        _, target = self._ends(slot)
        self.move_keys(slot)
        self.topology.assign([slot], target.node.shard)
        self._wait_for_nodes()

    def cancel_move(self, slot: int) -> None:
        """Cancel the move of a slot; move keys back that were already moved."""
        self._ends(slot)
        self.topology.turn_back(slot)
        self._wait_for_nodes()
        self.finish_move(slot)

    @contextlib.contextmanager
    def migrating(self, slot: int, to: ClusterShard) -> Iterator[None]:
        """Keep a slot moving during a ``with`` block, and finish the move at its end."""
        self.begin_move(slot, to=to)
        try:
            yield
        finally:
            self.finish_move(slot)

    def _ends(self, slot: int) -> tuple[ClusterNode, ClusterNode]:
        owner = self._owner(slot)
        if owner is None or slot not in owner.migrating:
            raise ValueError(f"slot {slot} is not moving")
        return self.node(owner.master), self.node(owner.migrating[slot].master)

    # Nodes

    def stop(self, node: ClusterNode) -> None:
        """Stop a node; the others see at once that it failed, and no replica takes its place without ``fail_over``."""
        self._check(node)
        node.stop()
        self._wait_for_nodes()

    def start_node(self, node: ClusterNode) -> None:
        """Restart a stopped node; it becomes a replica if another node is the master now."""
        self._check(node)
        node.start()
        self._wait_for_nodes()
        self.wait_for_replicas()

    def fail_over(self, shard: ClusterShard, to: ClusterNode | None = None) -> ClusterNode:
        """Promote a replica to the master of a shard, and return it.

        If the replica reaches the old master, no acknowledged write is lost, and the old master becomes a replica.
        Otherwise the replica takes over with the data that it has.

        Args:
            shard: the shard.
            to: the replica; by default the running one with the most data.

        Raises:
            ValueError: no replica runs, or ``to`` is not a running replica of the shard.
        """
        self._check(shard)
        there = [node for node in shard.replicas if node.running]
        if not there or (to is not None and to not in there):
            raise ValueError("the shard has no such replica that runs")
        old, new = shard.master, to or max(there, key=lambda node: node.node.progress()[0])
        if old.running and self.topology.reaches(new.node, old.node):
            self.wait_for_replicas()
            assert old.node.body is not None
            old.node.body.hand_over(new.node)
            wait_until(lambda: new.node.is_master, "the failover")
        else:
            new.lead()
        self._wait_for_nodes()
        self.wait_for_replicas()
        return new

    @contextlib.contextmanager
    def partition(self, *nodes: ClusterNode) -> Iterator[None]:
        """Cut some nodes off from all others during a ``with`` block; clients still reach both sides.

        The side without a majority of the masters answers CLUSTERDOWN. Replicas cut off from their master receive nothing.
        """
        self._check(*nodes)
        self.topology.part(node.node for node in nodes)
        self._wait_for_nodes()
        try:
            yield
        finally:
            self.topology.heal()
            self._wait_for_nodes()
            self.wait_for_replicas()

    # Waiting

    def wait_for_replicas(self) -> None:
        """Wait until each replica that can reach its master has all of the master's data."""
        wait_until(lambda: all(map(self._has_all, self.nodes)), "replicas to have the data of their masters")

    def _has_all(self, node: ClusterNode) -> bool:
        master = node.node.shard.master
        if not node.running or master is node.node or not self.topology.reaches(node.node, master):
            return True
        offset, connected = node.node.progress()
        return connected and offset >= master.progress()[0]

    def _wait_for_nodes(self) -> None:
        """Wait until each node has reacted to the current topology."""
        for node in self.nodes:
            if node.running:
                node.run_inside(lambda: None)


def _finish(task: SlotTask) -> None:
    wait_until(lambda: task.ended >= 0, "slots to move")
    if task.error:
        raise RuntimeError(task.error)


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """Poll until a condition holds that other threads bring about.

    Raises TimeoutError: it does not hold within a generous time.
    """
    end = time.monotonic() + _DEADLINE
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"waited {_DEADLINE:g} seconds for {what}")
        time.sleep(_LOOK)
