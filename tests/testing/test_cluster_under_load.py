"""A cluster under clients that do not stop: slots move key by key, are moved back, masters change; nothing is lost."""

import os
import random

import redis
from support.background import beside, go_on
from support.lost_connections import LOSE_CONNECTIONS

import rillet.testing

pytestmark = LOSE_CONNECTIONS
TIMES = int(os.environ.get("RILLET_CLUSTER_KILLS", "6"))
SEED = int(os.environ.get("RILLET_SEED", "1"))
KEYS = tuple(f"{{{tag}}}{n}" for tag in "abcd" for n in range(3))


class Worker:
    """Adds to every stream, counts, and takes from a group."""

    def __init__(self, name: str, cluster: rillet.testing.Cluster) -> None:
        self.name = name
        self.client = cluster.client(socket_timeout=60)  # a retry would count twice
        self.added: dict[str, set[bytes]] = {key: set() for key in KEYS}
        self.acknowledged: dict[str, set[bytes]] = {key: set() for key in KEYS}
        self.counted: dict[str, int] = dict.fromkeys(KEYS, 0)

    def work(self) -> bool:
        for key in KEYS:
            self._work(self.client, key)
        return True

    def _work(self, client: redis.RedisCluster, key: str) -> None:
        self.added[key].add(client.xadd(key, {"by": self.name}))
        number = client.incr(f"{key}:{self.name}")
        assert number == self.counted[key] + 1, "an INCR was lost, or came twice"
        self.counted[key] = number
        for _, entries in client.xreadgroup("g", self.name, {key: ">"}, count=1):
            entry = entries[0][0]
            assert client.xack(key, "g", entry) == 1, "a delivery was lost"
            self.acknowledged[key].add(entry)


def change(cluster: rillet.testing.Cluster, chance: random.Random) -> None:
    """Something that moves keys or masters."""
    slot = cluster.slot_of(chance.choice(KEYS))
    target = chance.choice([shard for shard in cluster.shards if slot not in shard.slots])
    kind = chance.choice(("move", "by key", "cancel", "fail over", "fail over between"))
    if kind == "move":
        cluster.move(slot, to=target)
    elif kind == "fail over":
        cluster.fail_over(chance.choice(cluster.shards))
    else:
        cluster.begin_move(slot, to=target)
        keys = [key for key in KEYS if cluster.slot_of(key) == slot]
        cluster.move_keys(slot, *chance.sample(keys, chance.randint(1, len(keys))))
        if kind == "fail over between":
            cluster.fail_over(chance.choice((cluster.shard_of(keys[0]), target)))
        if kind == "cancel":
            cluster.cancel_move(slot)
        else:
            cluster.finish_move(slot)


def test_nothing_confirmed_is_lost_while_slots_move_and_masters_change():
    chance = random.Random(SEED)
    with rillet.testing.Cluster(shards=3, replicas=1) as cluster:
        with cluster.client() as client:
            for key in KEYS:
                client.xgroup_create(key, "g", "0", mkstream=True)
        workers = [Worker(name, cluster) for name in "abc"]
        with beside(*(worker.work for worker in workers)) as running:
            for _ in range(TIMES):
                change(cluster, chance)
                go_on(running)
        for worker in workers:
            worker.client.close()
        cluster.wait_for_replicas()
        with cluster.client() as client:
            for key in KEYS:
                entries = {entry for entry, _ in client.xrange(key)}
                pending = {each["message_id"] for each in client.xpending_range(key, "g", "-", "+", 100_000)}
                assert entries == set().union(*(worker.added[key] for worker in workers))
                for worker in workers:
                    assert int(client.get(f"{key}:{worker.name}")) == worker.counted[key]
                    assert not worker.acknowledged[key] & pending
        for shard in cluster.shards:
            digests = {node.call(b"DEBUG", b"DIGEST") for node in shard.nodes}
            assert len(digests) == 1
        sizes = [shard.master.call(b"DBSIZE") for shard in cluster.shards]
        assert sum(sizes) == len(KEYS) * (1 + len(workers)), "a key is at two places, or at none"
