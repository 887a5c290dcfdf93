"""A master of a cluster dies at each command that a query sends, one after the other: the query waits, and goes on."""

from __future__ import annotations

import threading

import pytest
from support.pipeline.micro_batches import Engine

import rillet.testing
from rillet.pipeline.group.stream_reader import GroupStreamReader, group_columns
from rillet.pipeline.range.stream_reader import RangeStreamReader
from rillet.pipeline.redis.connection import Connection
from rillet.pipeline.source.entry_batches import default_schema
from rillet.pipeline.source.options import RangeStreamOptions

NAMES = ["s1", "s2", "s3"]
ENTRIES = 4


@pytest.fixture(scope="module")
def cluster():
    with rillet.testing.Cluster(3, 1) as cluster:
        yield cluster


def reader(cluster, mode, streams):
    url = "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in cluster.nodes)
    given = {"url": url, "retryIntervalMs": "20", "retries": "12", "startingOffsets": "earliest"} | streams
    if mode == "range":
        return RangeStreamReader(default_schema(), RangeStreamOptions.of(given))
    return GroupStreamReader(default_schema("", group_columns()), given | {"mode": "group", "group": "g"})


class Death:
    """Kills the master that is sent the command of a number, before it gets it or before it answers."""

    def __init__(self, cluster, number, *, after):
        self.cluster, self.left, self.after = cluster, number, after
        self.failover = None
        self.command = ""

    def strikes(self, endpoint, names):
        node = next((each for each in self.cluster.nodes if each.port == endpoint.port), None)
        if node is None or self.failover is not None or node is not self.shard_of(node).master:
            return None
        self.left -= 1
        self.command = names[0]
        return node if self.left < 0 else None

    def shard_of(self, node):
        return next(shard for shard in self.cluster.shards if node in shard.nodes)

    def kill(self, node):
        shard = self.shard_of(node)
        self.cluster.wait_for_replicas()
        self.cluster.stop(node)
        self.failover = threading.Timer(0.1, lambda: self.cluster.fail_over(shard))
        self.failover.start()


@pytest.mark.parametrize("after", [False, True], ids=["before it has the command", "before it answers"])
@pytest.mark.parametrize(
    "streams",
    [
        pytest.param(
            {"streams": ",".join(NAMES)}, id="names", marks=pytest.mark.heavy
        ),  # a pattern asks for all that, and more
        pytest.param({"streamsPattern": "s*", "discoveryIntervalMs": "0"}, id="pattern"),
    ],
)
@pytest.mark.parametrize("mode", ["group", "range"])
def test_a_master_that_dies_at_any_command_is_waited_for(cluster, monkeypatch, mode, streams, after):
    honest = Connection.exchange
    deaths = []

    def exchange(self, request, names, **how):
        node = deaths[-1].strikes(self.endpoint, names)
        if node is not None and not after:
            deaths[-1].kill(node)
        if node is not None and after:
            honest(self, request, names, **how)
            deaths[-1].kill(node)
            self.close()
            if how.get("repeatable"):
                return honest(self, request, names, **how)
            raise rillet.pipeline.redis.connection.ConnectionLost("the connection broke: the master died")
        return honest(self, request, names, **how)

    monkeypatch.setattr(Connection, "exchange", exchange)
    number = 0
    while True:
        cluster.reset()
        with cluster.client() as client:
            for at in range(ENTRIES):
                for name in NAMES:
                    client.xadd(name, {"n": at}, id=f"{at + 1}-1")
        deaths.append(Death(cluster, number, after=after))
        seen = []
        engine = Engine(
            lambda: reader(cluster, mode, streams),
            lambda _, batches, seen=seen: seen.extend(
                (row["stream"], row["id"]) for each in batches for row in each.to_pylist()
            ),
        )
        engine.finish()
        engine.restart()
        assert set(seen) == {(name, f"{at + 1}-1") for name in NAMES for at in range(ENTRIES)}, deaths[
            -1
        ].command
        if deaths[-1].failover is None:
            assert number > 5
            return
        deaths[-1].failover.join()
        for node in cluster.nodes:
            if not node.running:
                cluster.start_node(node)
        number += 1
