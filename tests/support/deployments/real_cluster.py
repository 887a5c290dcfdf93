"""Clusters of real servers, which are what a Cluster of Rillet is compared with."""

import contextlib
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from support.ports import free_port
from support.servers import ServerProcess, peers_folder
from support.tool import run_program
from support.until import until
from support.wire import ConnectionClosedError, Wire


def redis_cli() -> Path:
    """redis-cli of the newest version compared with."""
    return peers_folder() / "redis-8.10.2" / "redis-cli"


def cluster_cli(*words: str | int, seconds: float = 60, program: Path | None = None) -> str:
    """Run ``redis-cli --cluster …``, or another program so, which must succeed; returns what it printed."""
    done = run_program(program or redis_cli(), "--cluster", *words, seconds=seconds, input="yes\n")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class ClusterNodeProcess(ServerProcess):
    """A node; the port of its cluster bus is chosen, too, for ports above 55535 leave no room for the usual one.

    A busy machine lets it be silent for seconds, which fails it only where a replica is to take its place.
    """

    def __init__(self, kind: str, *flags: str | int) -> None:
        own = ("--cluster-enabled", "yes", "--cluster-port", free_port(), "--cluster-node-timeout", 60_000)
        super().__init__(kind, *own, *flags)


class RealCluster:
    """Masters and replicas of one kind of server: ``nodes`` has the masters first."""

    def __init__(self, kind: str, *flags: str | int, shards: int = 3, replicas: int = 0) -> None:
        self._stack = ExitStack()
        if replicas:
            flags = ("--cluster-node-timeout", 2000, *flags)
        self.nodes = [
            self._stack.enter_context(ClusterNodeProcess(kind, *flags))
            for _ in range(shards * (1 + replicas))
        ]
        try:
            self._join(replicas)
        except BaseException:
            self._stack.close()
            raise

    def _join(self, replicas: int) -> None:
        places = [f"127.0.0.1:{node.port}" for node in self.nodes]
        cluster_cli("create", *places, "--cluster-replicas", replicas, "--cluster-yes")
        for node in self.nodes:
            with node.wire() as wire:
                until(lambda wire=wire: self._is_complete(wire))

    def _is_complete(self, wire: Wire) -> bool:
        """Whether a node sees the whole cluster, replicas with their data too."""
        shards = wire.call("CLUSTER", "SHARDS").encode()
        return (
            b"cluster_state:ok" in wire.call("CLUSTER", "INFO").value
            and b"loading" not in shards
            and wire.call("CLUSTER", "NODES").value.count(b"slave") == shards.count(b"replica\r\n")
            and b"*0\r\n" not in shards
        )

    # What happens to clusters

    def masters(self) -> list[ClusterNodeProcess]:
        """The nodes that serve slots, as a node sees it that is a master itself."""
        found = []
        for node in self.nodes:
            with contextlib.suppress(OSError, ConnectionClosedError), node.wire() as wire:
                mine = next(line for line in _lines(wire) if b"myself" in line[2])
                if b"master" in mine[2] and len(mine) > 8:
                    found.append(node)
        return found

    def kill_master(self, node: ClusterNodeProcess) -> None:
        """SIGKILL a master, wait until its replica leads, and start the node again: it follows then."""
        others = [each for each in self.nodes if each is not node]
        before = set(self.masters()) - {node}
        assert node._process is not None
        node._process.kill()
        node._process.wait()
        until(lambda: set(self.masters()) - before, 120)
        node.start(node.port)  # as in production: clients that know the cluster by it find it there
        until(lambda: all(self._is_whole(each) for each in (*others, node)), 120)

    def is_in_step(self) -> bool:
        """Whether each replica has what its master has sent, and all nodes see the same."""
        return all(map(self._is_whole, self.nodes)) and self.agrees()

    def agrees(self) -> bool:
        """Whether all nodes say the same of the slots and of the state."""
        return len(set(map(self._view, self.nodes))) == 1

    def _is_whole(self, node: ClusterNodeProcess) -> bool:
        with contextlib.suppress(OSError, ConnectionClosedError), node.wire() as wire:
            facts = wire.call("INFO", "replication").value
            is_linked = b"role:master" in facts or b"master_link_status:up" in facts
            has_replica = (
                b"role:slave" in facts or b"state=online" in facts or len(self.nodes) == len(self.masters())
            )
            return is_linked and has_replica and b"cluster_state:ok" in wire.call("CLUSTER", "INFO").value
        return False

    @staticmethod
    def _view(node: ClusterNodeProcess) -> tuple[tuple[bytes, ...], ...]:
        with node.wire() as wire:
            lines = [(line[0], line[2].replace(b"myself,", b""), *line[8:]) for line in _lines(wire)]
            lines.append(tuple(wire.call("CLUSTER", "INFO").value.splitlines()[:1]))
        return tuple(sorted(tuple(word for word in line if word[:1] != b"[") for line in lines))

    def move_slot(self, slot: int, *, between: Callable[[], object] = lambda: None) -> None:
        """Move a slot to the next master, key by key.

        Args:
            slot: which.
            between: called after each key.
        """
        masters = self.masters()
        ids = {node: self._id(node) for node in masters}
        source = next(node for node in masters if slot in self._slots(node))
        target = masters[(masters.index(source) + 1) % len(masters)]
        with source.wire() as giving, target.wire() as taking:
            _ok(taking, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[source])
            _ok(giving, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[target])
            between()
            while keys := giving.call("CLUSTER", "GETKEYSINSLOT", str(slot), "1").plain():
                _ok(giving, "MIGRATE", "127.0.0.1", target.port, keys[0].decode(), 0, 30_000)
                between()
            for wire in (taking, giving):
                _ok(wire, "CLUSTER", "SETSLOT", slot, "NODE", ids[target])
        until(self.is_in_step, 120)

    def _id(self, node: ClusterNodeProcess) -> str:
        with node.wire() as wire:
            return wire.call("CLUSTER", "MYID").value.decode()

    def _slots(self, node: ClusterNodeProcess) -> set[int]:
        with node.wire() as wire:
            mine = next(line for line in _lines(wire) if b"myself" in line[2])
        ranges = [word.decode().split("-") for word in mine[8:] if word[:1] != b"["]
        return {
            slot for first, *last in ranges for slot in range(int(first), int(last[0] if last else first) + 1)
        }

    def wire(self, node: int, protocol: int = 2) -> Wire:
        return self.nodes[node].wire(protocol)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def _lines(wire: Wire) -> list[list[bytes]]:
    return [line.split() for line in wire.call("CLUSTER", "NODES").value.splitlines()]


def _ok(wire: Wire, *words: str | int) -> None:
    reply = wire.call(*map(str, words))
    assert reply.kind != "-", f"{words}: {reply.value!r}"
