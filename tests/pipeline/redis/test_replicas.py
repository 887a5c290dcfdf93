"""Which server a task reads from that may read from replicas."""

from dataclasses import replace

import pytest
from support.deployments.replication import in_step
from support.pipeline.histories import cut_off

from rillet.pipeline.redis import replicas
from rillet.pipeline.redis.connection import Connection
from rillet.pipeline.redis.options import Endpoint
from rillet.pipeline.redis.replicas import reading, written_by_shard


@pytest.mark.parametrize("kind", ["valkey", "rillet"])
def test_a_replica_is_read_once_it_has_what_was_planned_and_only_of_the_same_history(kind, monkeypatch):
    with cut_off(kind) as (master, replica, cut):
        there = Endpoint(port=master.port, read_replicas=True)

        def connect(endpoint, *, near="", replica=False):
            assert near == ""
            return Connection(replace(endpoint, port=follower.port if replica else master.port))

        def who_is_read():
            with Connection(there) as connection:
                at = written_by_shard(connection)[""]
            with reading(there, "", at, b"s") as found:
                return {master.port: "master", follower.port: "replica"}[found.endpoint.port]

        follower = replica
        monkeypatch.setattr(replicas, "connect", connect)
        with Connection(there) as connection:
            connection.call("XADD", "s", "1-1", "n", "1")
            in_step(master, replica)
            assert who_is_read() == "replica"
            cut()
            connection.call("XADD", "s", "2-1", "n", "2")
            assert who_is_read() == "master"
        with Connection(Endpoint(port=replica.port)) as promoted:
            promoted.call("REPLICAOF", "NO", "ONE")
            for number in range(3, 50):
                promoted.call("XADD", "s", f"{number}-1", "n", number)
        assert who_is_read() == "master"
        replica.stop()
        assert who_is_read() == "master"


def test_nothing_is_noted_where_the_master_is_read():
    with Connection(Endpoint(port=1)) as connection:
        assert written_by_shard(connection) == {}
