"""SIGKILL of Spark's processes and of servers under load: nothing missing, nothing doubled, nothing left pending.

One driver runs queries in range and in group mode, plain ones or such with state, so that each kill hits all of them
wherever they are. Another driver stands by, with its JVM running, and goes on where the killed one was.

`make crash` sets how many events there are: RILLET_SPARK_KILLS of plain queries (100), of which each server gets two
fifths and executors in JVMs of their own the rest; RILLET_STATE_KILLS for each way to run queries with state (5, ten times); and
RILLET_CLUSTER_KILLS masters of a cluster, and as many slots that move (20), and as many masters again under patterns.
RILLET_SEED gives other choices; RILLET_KINDS=executors,driver other events than those of the series that `-k` chooses.
"""

import contextlib
import itertools
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from support.deployments.real_cluster import RealCluster
from support.deployments.sentinels import NAME, Deployment
from support.servers import start_server
from support.spark import spark_driver
from support.spark.killed_spark import Scene
from support.until import until

from rillet.protocol.key_slots import key_slot

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark's own processes")]

KILLS = int(os.environ.get("RILLET_SPARK_KILLS", "3"))
STATE_KILLS = int(os.environ.get("RILLET_STATE_KILLS", "3"))
CLUSTER_KILLS = int(os.environ.get("RILLET_CLUSTER_KILLS", "2"))
SEED = int(os.environ.get("RILLET_SEED", "1"))
KINDS = os.environ.get("RILLET_KINDS")


class Series(NamedTuple):
    """So many events, one after the other, on one kind of server with one kind of Spark at work on it."""

    server: str
    master: str
    kinds: tuple[str, ...]
    events: int
    work: str = "plain"

    def __str__(self) -> str:
        return f"{self.work}-{self.server}-{self.master.partition('[')[0]}".replace(" ", "-")


LOCAL = "local[2,8]"
THREADS = ("driver", "workers", "planners", "workers")
PROCESSES = ("executors", "planners", "executors", "driver", "workers")
ALWAYS = [Series("rillet", LOCAL, THREADS, KILLS)]
WITH_STATE = [
    ("cluster of valkey", LOCAL, ("slot", "driver", "failover", "workers")),
    ("cluster of redis810", LOCAL, ("slot", "driver", "failover", "workers")),
    ("sentinel", LOCAL, ("failover", "driver", "workers", "planners")),
    ("redis810", spark_driver.CONNECT, THREADS),
    ("rillet", "local-cluster[2,1,1024]", PROCESSES),
]
HEAVY = [
    Series("cluster of valkey", LOCAL, ("failover", "slot"), CLUSTER_KILLS * 2),
    Series("cluster of valkey", LOCAL, ("failover",), CLUSTER_KILLS, "pattern"),
] + [Series(*each, STATE_KILLS, work) for each in WITH_STATE for work in ("range state", "group state")]
if KILLS >= 20:
    share = KILLS * 2 // 5
    ALWAYS = [Series(server, LOCAL, THREADS, share) for server in ("rillet", "redis7")]
    ALWAYS += [Series("rillet", "local-cluster[2,1,512]", PROCESSES, KILLS - share * 2)]


class Single:
    """One server: nothing happens to it."""

    def __init__(self, stack: contextlib.ExitStack, kind: str) -> None:
        self.url = f"redis://127.0.0.1:{stack.enter_context(start_server(kind)).port}"


class Cluster:
    """Three masters with a replica each."""

    def __init__(self, stack: contextlib.ExitStack, kind: str) -> None:
        # Long enough for a node that waits for a processor on a busy machine.
        nodes = RealCluster(kind, "--cluster-node-timeout", 5000, replicas=1)
        self._cluster = stack.enter_context(nodes)
        self.url = "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in nodes.nodes)

    def failover(self, _: Scene, chance: random.Random) -> None:
        # A replica that still loads what its master has would lead with less.
        until(self._cluster.is_in_step, 120)
        self._cluster.kill_master(chance.choice(self._cluster.masters()))

    def slot(self, scene: Scene, chance: random.Random) -> None:
        name = chance.choice(scene.names)
        key = chance.choice([*spark_driver.inputs(name), f"out-{name}"])
        self._cluster.move_slot(key_slot(key.encode()), between=lambda: time.sleep(chance.uniform(0, 1)))


class Sentinels:
    """A master of Redis, two replicas, and a sentinel that watches them."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._deployment = stack.enter_context(Deployment("redis7"))
        self.url = f"redis+sentinel://127.0.0.1:{self._deployment.port}/{NAME}"

    def failover(self, *_: object) -> None:
        """Stop the master as a deployment does, which hands over all it has; it comes back as a replica."""
        old = self._deployment.lose_master()
        old.start("--replicaof", "127.0.0.1", str(self._deployment.master.port))
        self._deployment.until(lambda: self._deployment.follows() == 2, 120)


@pytest.fixture(params=[*ALWAYS, *(pytest.param(each, marks=pytest.mark.heavy) for each in HEAVY)], ids=str)
def series(request) -> Series:
    return request.param


@pytest.fixture
def deployment(series) -> Iterator[Single | Cluster | Sentinels]:
    with contextlib.ExitStack() as stack:
        if series.server == "sentinel":
            yield Sentinels(stack)
        else:
            kind = series.server.removeprefix("cluster of ")
            yield (Single if kind == series.server else Cluster)(stack, kind)


@pytest.fixture
def scene(series, deployment, tmp_path) -> Iterator[Scene]:
    with Scene(deployment.url, tmp_path, series.master, series.work) as scene:
        yield scene


def test_nothing_is_lost_or_doubled_when_spark_or_a_server_is_killed(series, deployment, scene):
    chance = random.Random(SEED)
    chosen = KINDS.split(",") if KINDS else series.kinds
    kinds = [kind for kind, _ in zip(itertools.cycle(chosen), range(series.events), strict=False)]
    done = Counter(kinds)
    begun = time.monotonic()
    for number, kind in enumerate(kinds):
        if "driver" in kinds[number : number + 2]:
            scene.drivers.prepare()
        # Events in what has not recovered from the one before count, too.
        scene.wait_for_progress(chance.choice([all, any]))
        scene.drivers.driver.check()
        scene.await_moment(chance)
        if kind == "driver":
            scene.drivers.again()
        elif kind in ("failover", "slot"):
            getattr(deployment, kind)(scene, chance)
        else:
            # The driver lives, and tries their tasks or the query again.
            done[f"{kind}' processes"] += scene.drivers.driver.kill_some(kind)
        print(f"{time.monotonic() - begun:7.1f} s: {number + 1} of {series.events}: {kind}", flush=True)  # noqa: T201 - with -s
    count = scene.check_all_written(f"RILLET_SEED={SEED}")
    print(f"{time.monotonic() - begun:7.1f} s: all {count} of each query are there; {dict(done)}", flush=True)  # noqa: T201 - with -s
    killed = [kind for kind in kinds if kind in ("workers", "planners", "executors")]
    assert all(done[f"{kind}' processes"] for kind in killed), done
