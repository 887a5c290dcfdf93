"""A cluster of Valkey under Spark: masters are killed, slots move key by key; nothing missing, doubled or left pending.

One driver runs the four queries of test_spark_kill.py over three masters and three replicas.

RILLET_CLUSTER_KILLS says how many masters are killed, and how many slots move (`make crash`: 20 of each; 2 otherwise).
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from support.deployments.real_cluster import RealCluster
from support.spark.killed_spark import (
    NAMES,
    Drivers,
    Producer,
    check_all_written,
    make_groups,
    wait_for_progress,
    wait_for_the_end,
)
from support.until import until

from rillet.pipeline.redis.options import Endpoint
from rillet.pipeline.redis.shards import connect
from rillet.protocol.key_slots import key_slot

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rillet.pipeline.redis.connection import Connection

pytestmark = [pytest.mark.heavy, pytest.mark.spark, pytest.mark.xdist_group("spark's own processes")]

TIMES = int(os.environ.get("RILLET_CLUSTER_KILLS", "2"))
SEED = int(os.environ.get("RILLET_SEED", "1"))


@pytest.fixture
def cluster() -> Iterator[RealCluster]:
    # Long enough for a node that waits for a processor on a busy machine.
    with RealCluster("valkey", "--cluster-node-timeout", 5000, replicas=1) as cluster:
        yield cluster


@pytest.fixture
def url(cluster) -> str:
    return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in cluster.nodes)


@pytest.fixture
def connection(url) -> Iterator[Connection]:
    with connect(Endpoint.of({"url": url})) as found:
        make_groups(found)
        yield found


@pytest.fixture
def producer(url, connection) -> Iterator[Producer]:
    found = Producer(url)
    found.start()
    yield found
    found.finish()


@pytest.fixture
def drivers(url, connection, tmp_path) -> Iterator[Drivers]:
    found = Drivers(url, tmp_path, "local[2,8]")
    yield found
    found.end()


def fail_over(cluster: RealCluster, chance: random.Random) -> str:
    # A replica that still loads what its master has would lead with less.
    until(cluster.is_in_step, 120)
    node = chance.choice(cluster.masters())
    cluster.kill_master(node)
    return f"killed the master at {node.port}"


def reshard(cluster: RealCluster, chance: random.Random) -> str:
    name = chance.choice([f"{way}-{name}" for way in ("in", "out") for name in NAMES])
    cluster.move_slot(key_slot(name.encode()), between=lambda: time.sleep(chance.uniform(0, 1)))
    return f"moved the slot of {name}"


@pytest.mark.parametrize("event", [fail_over, reshard])
def test_nothing_is_lost_or_doubled_when_a_cluster_changes(
    event, cluster, connection, producer, drivers, tmp_path
):
    chance = random.Random(SEED)
    begun = time.monotonic()
    done = Counter()
    for number in range(TIMES):
        wait_for_progress(tmp_path, drivers, all)
        time.sleep(chance.uniform(0, 1))
        what = event(cluster, chance)
        done[what.split()[0]] += 1
        print(f"{time.monotonic() - begun:7.1f} s: {number + 1} of {TIMES}: {what}")  # noqa: T201 - with -s
    wait_for_progress(tmp_path, drivers, all)
    count = producer.finish()
    wait_for_the_end(connection, tmp_path, drivers, count, f"RILLET_SEED={SEED}")
    print(f"{time.monotonic() - begun:7.1f} s: all {count} of each query are there; {dict(done)}")  # noqa: T201 - with -s
    check_all_written(connection, tmp_path, count)
