"""One script for a cluster of Rillet and real ones: who answers what, with IDs and ports by the names of the nodes."""

import re
from contextlib import AbstractContextManager, ExitStack
from typing import Self

from support.deployments.real_cluster import RealCluster
from support.until import until
from support.wire import Wire

import rillet.testing

_TIME = re.compile(r"\b1[0-9]{12}\b")
_BUS = re.compile(r"@[0-9]+")
_SCRIPT = re.compile(r"script: [0-9a-f]{40}")


class Scene:
    """A cluster of three masters ``m0 m1 m2`` and their replicas ``r0 r1 r2``, and a connection to each.

    Args:
        kind: ``rillet``, ``rillet-7.0`` …, or a kind of real server.
    """

    def __init__(self, kind: str) -> None:
        self._stack = ExitStack()
        self.kind = kind
        self.is_real = not kind.startswith("rillet")
        cluster: AbstractContextManager[RealCluster | rillet.testing.Cluster]
        if self.is_real:
            cluster = RealCluster(kind, shards=3, replicas=1)
        else:
            version = kind.partition("-")[2]
            cluster = rillet.testing.Cluster(3, 1, **({"compat_version": version} if version else {}))
        self.cluster = self._stack.enter_context(cluster)
        self._name_nodes()
        if self.is_real:  # no replica takes the place of a master that a busy machine lets be silent
            for wire in self.wires.values():
                assert wire.call("CONFIG", "SET", "cluster-node-timeout", 60_000).value == b"OK"
        self.seen: list[str] = []

    def _name_nodes(self) -> None:
        """Masters by their slots, replicas by their master."""
        wires = [self._stack.enter_context(Wire(node.port)) for node in self.cluster.nodes]
        with Wire(self.cluster.nodes[0].port) as wire:
            lines = [line.split() for line in wire.call("CLUSTER", "NODES").value.decode().splitlines()]
        masters = sorted(
            (line for line in lines if "master" in line[2]), key=lambda line: int(line[8].split("-")[0])
        )
        names = {line[0]: f"m{at}" for at, line in enumerate(masters)}
        names |= {line[0]: f"r{names[line[3]][1]}" for line in lines if "slave" in line[2]}
        self.ids = {name: node_id for node_id, name in names.items()}
        self.ports = {names[line[0]]: int(line[1].split("@")[0].split(":")[1]) for line in lines}
        by_port = {node.port: wire for node, wire in zip(self.cluster.nodes, wires, strict=True)}
        self.wires = {name: by_port[port] for name, port in self.ports.items()}

    def wire(self, name: str, protocol: int = 2) -> Wire:
        """Another connection to a node."""
        return self._stack.enter_context(Wire(self.ports[name], protocol))

    def words(self, *words: str | int) -> list[str]:
        """The words of a command; ``@m0`` is the ID of a node, ``:m0`` its port."""
        made = []
        for word in map(str, words):
            if word[:1] == "@" and word[1:] in self.ids:
                made.append(self.ids[word[1:]])
            elif word[:1] == ":" and word[1:] in self.ports:
                made.append(str(self.ports[word[1:]]))
            else:
                made.append(word)
        return made

    def normal(self, text: object) -> str:
        """A reply as all clusters have it."""
        text = str(text)
        for name, node_id in self.ids.items():
            text = text.replace(node_id, f"@{name}")
        for name, port in self.ports.items():
            text = text.replace(f":{port}", f":{name}")
        return _SCRIPT.sub("script: SHA", _BUS.sub("", _TIME.sub("TIME", text)))

    def ask(self, name: str, *words: str | int) -> str:
        """What a node answers; kept in ``seen``."""
        answer = self.normal(self.wires[name].call(*self.words(*words)))
        self.seen.append(f"{name} {' '.join(map(str, words))} -> {answer}")
        return answer

    def run(self, script: str) -> None:
        """Ask what a text of lines says: the node, then the words; ``~`` is a blank in a word, or an empty one."""
        for line in script.strip().splitlines():
            name, *words = line.split()
            if name == "settle":
                self.settle()
            elif name[0] != "#":
                self.ask(name, *("" if word == "~" else word.replace("~", " ") for word in words))

    def settle(self) -> None:
        """Wait until all nodes say the same of the slots and of the state."""
        if self.is_real:
            until(self.cluster.agrees)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
