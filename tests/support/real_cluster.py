"""Clusters of real servers, which are what a Cluster of Rillet is compared with."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from support.servers import ServerProcess, free_port, peers_folder
from support.until import until

if TYPE_CHECKING:
    from pathlib import Path

    from support.wire import Wire


def redis_cli() -> Path:
    """redis-cli of the newest version compared with."""
    return peers_folder() / "redis-8.10.2" / "redis-cli"


def cluster_cli(*words: str | int, seconds: float = 60) -> str:
    """Run ``redis-cli --cluster …``, which must succeed; returns what it printed."""
    done = subprocess.run(
        [redis_cli(), "--cluster", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
        input="yes\n",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class ClusterNodeProcess(ServerProcess):
    """A node; the port of its cluster bus is chosen, too, for ports above 55535 leave no room for the usual one."""

    def __init__(self, kind: str, *flags: str | int) -> None:
        own = ("--cluster-enabled", "yes", "--cluster-port", free_port(), "--cluster-node-timeout", 2000)
        super().__init__(kind, *own, *flags)


class RealCluster:
    """Masters and replicas of one kind of server: ``nodes`` has the masters first."""

    def __init__(self, kind: str, *flags: str | int, shards: int = 3, replicas: int = 0) -> None:
        self._stack = ExitStack()
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

    def wire(self, node: int, protocol: int = 2) -> Wire:
        return self.nodes[node].wire(protocol)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
