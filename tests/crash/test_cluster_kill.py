"""A cluster of Valkey under sources and sinks, without a JVM: masters are killed, slots move key by key, drivers die.

Range and group mode each read six streams and write one. An entry of group mode is read again if its acknowledgement died
with a master, and is said to be.

RILLET_CLUSTER_KILLS says how many masters are killed, and how many slots move (`make crash`: 20 of each; 2 otherwise);
RILLET_SEED gives other choices.
"""

import contextlib
import os
import random
import time

import pytest
from support.background import Background
from support.deployments.real_cluster import RealCluster
from support.pipeline.cluster_pipeline import Pipeline
from support.pipeline.micro_batches import Crash
from support.until import until

from rillet.pipeline.redis.options import Endpoint
from rillet.pipeline.redis.shards import connect
from rillet.protocol.key_slots import key_slot

pytestmark = pytest.mark.xdist_group("a cluster that is killed")

TIMES = int(os.environ.get("RILLET_CLUSTER_KILLS", "2"))
SEED = int(os.environ.get("RILLET_SEED", "1"))


@pytest.fixture
def cluster():
    # Long enough for a node that waits for a processor on a busy machine.
    with RealCluster("valkey", "--cluster-node-timeout", 5000, replicas=1) as cluster:
        yield cluster


def fail_over(cluster: RealCluster, _: list[str], chance: random.Random) -> str:
    # A replica that still loads what its master has would lead with less.
    until(cluster.is_in_step, 120)
    node = chance.choice(cluster.masters())
    cluster.kill_master(node)
    return f"killed the master at {node.port}"


def reshard(cluster: RealCluster, keys: list[str], chance: random.Random) -> str:
    key = chance.choice(keys)
    cluster.move_slot(key_slot(key.encode()), between=lambda: time.sleep(chance.uniform(0, 1)))
    return f"moved the slot of {key}"


@pytest.mark.parametrize("event", [pytest.param(fail_over, marks=pytest.mark.heavy), reshard])
def test_nothing_is_lost_or_doubled_when_a_cluster_changes(event, cluster, monkeypatch):
    chance = random.Random(SEED)
    url = "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in cluster.nodes)
    begun = time.monotonic()
    crashes = 0
    with connect(Endpoint.of({"url": url})) as connection, connect(Endpoint.of({"url": url})) as producer:
        pipelines = [Pipeline(connection, {"url": url}, mode, monkeypatch) for mode in ("range", "group")]
        keys = [key for each in pipelines for key in (*each.inputs, each.output)]
        for each in pipelines:
            each.add(60)
            each.engine.trigger()
        left = iter(range(1, TIMES + 1))

        def add():
            for each in pipelines:
                each.add(24, producer)
            time.sleep(0.05)
            return True

        def change():
            if (number := next(left, None)) is None:
                return False
            what = event(cluster, keys, chance)
            print(f"{time.monotonic() - begun:7.1f} s: {number} of {TIMES}: {what}")  # noqa: T201 - with -s
            return True

        adding, changing = Background(add), Background(change)
        while changing.is_alive():
            assert adding.failure is None, adding.failure
            for each in pipelines:
                if chance.random() < 0.1:
                    with contextlib.suppress(Crash):
                        each.engine.trigger(chance.choice(["log", "write", "commit"]))
                    each.engine.restart()
                    crashes += 1
                else:
                    each.engine.trigger()
        changing.finish()
        adding.finish()
        for each, mode in zip(pipelines, ("range", "group"), strict=True):
            each.engine.finish()
            found = each.written()
            doubled = sum(times > 1 for times in found.values())
            text = f"{mode}: {each.added} added, {len(found)} there, {doubled} doubled; {crashes} crashes; {SEED=}"
            print(text)  # noqa: T201 - with -s
            assert sorted(found) == list(range(each.added))
            assert mode == "group" or not doubled
            each.engine.restart()
        assert pipelines[1].pending() == 0
