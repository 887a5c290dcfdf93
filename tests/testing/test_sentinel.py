"""rillet.testing.Sentinel: what a test sees of it, and that nothing confirmed is lost."""

import contextlib
from datetime import timedelta

import hiredis
import pytest
import redis
from support.lost_connections import LOSE_CONNECTIONS
from support.until import until

import rillet.testing
from rillet.testing import Sentinel

pytestmark = LOSE_CONNECTIONS


@pytest.fixture(scope="module")
def shared():
    with Sentinel() as sentinel:
        yield sentinel


@pytest.fixture
def sentinel(shared):
    """The shared one, with all of its servers running."""
    for server in shared.servers:
        server.start()
    shared.wait_until_settled()
    return shared


def ports(servers) -> set[int]:
    return {server.port for server in servers}


def test_a_client_writes_to_the_master_and_a_replica_client_reads_from_a_replica(sentinel):
    with sentinel.client(decode_responses=True) as client, sentinel.replica_client() as reader:
        client.set("k", "v")
        assert client.wait(2, 10_000) == 2
        assert client.info("server")["tcp_port"] == sentinel.master.port
        assert reader.get("k") == b"v"
        assert reader.info("server")["tcp_port"] in ports(sentinel.replicas)
    assert sentinel.url == f"redis+sentinel://127.0.0.1:{sentinel.port}/mymaster/0"


async def test_an_async_client_finds_the_master(sentinel):
    async with sentinel.async_client(decode_responses=True) as client:
        assert (await client.info("server"))["tcp_port"] == sentinel.master.port


def test_a_failover_on_demand_makes_a_replica_the_master_of_all_others(sentinel):
    before, replicas = sentinel.master, sentinel.replicas
    after = sentinel.fail_over()
    assert after in replicas
    assert sentinel.master is after
    assert ports(sentinel.replicas) == ports(sentinel.servers) - {after.port}
    with before.client() as client:
        assert client.role()[:3] == [b"slave", b"127.0.0.1", after.port]


def test_a_stopped_master_is_replaced_at_once_and_becomes_a_replica_when_it_returns(sentinel):
    with sentinel.client() as client:
        client.set("kept", "yes")
        assert client.wait(2, 10_000) == 2
        old = sentinel.master
        old.stop()
        new = sentinel.wait_until_settled()
        assert new is not old
        assert client.get("kept") == b"yes"
        assert old in sentinel.replicas
        client.set("later", "yes")
        old.start()
        sentinel.wait_until_settled()
        with old.client() as direct:
            assert direct.role()[0] == b"slave"
            assert direct.get("later") == b"yes"


def test_a_replica_that_returns_after_a_failover_follows_the_new_master(sentinel):
    away = sentinel.replicas[0]
    away.stop()
    new = sentinel.fail_over()
    away.start()
    sentinel.wait_until_settled()
    with away.client() as client:
        assert client.role()[2] == new.port


def test_a_replica_that_was_turned_to_another_server_is_turned_back(sentinel):
    replica, master = sentinel.replicas[0], sentinel.master
    with replica.client() as client:
        client.replicaof("127.0.0.1", 1)
    until(lambda: role_of(replica)[2:3] == [master.port])
    with replica.client() as client:
        client.replicaof("NO", "ONE")
    until(lambda: role_of(replica)[2:3] == [master.port])
    sentinel.wait_until_settled()


def role_of(server):
    """ROLE, or nothing where the sentinel disconnects the clients of a server that it turns."""
    with contextlib.suppress(redis.ConnectionError), server.client() as client:
        return client.role()
    return []


def test_the_priority_of_replicas_comes_first_and_0_is_never_promoted(sentinel):
    first, second = sentinel.replicas
    with first.client() as client:
        client.config_set("replica-priority", 0)
    until(lambda: priority(sentinel, first) == b"0")
    assert sentinel.fail_over() is second
    with first.client() as client:
        client.config_set("replica-priority", 10)
    until(lambda: priority(sentinel, first) == b"10")
    assert sentinel.fail_over() is first
    with first.client() as client:
        client.config_set("replica-priority", 100)


def priority(sentinel, server) -> bytes:
    rows = sentinel.command("SENTINEL", "REPLICAS", "mymaster")
    found = [dict(zip(row[::2], row[1::2], strict=True)) for row in rows]
    return next(row[b"slave-priority"] for row in found if int(row[b"port"]) == server.port)


def test_without_a_replica_there_is_an_error_and_the_master_stays():
    with Sentinel(replicas=0) as sentinel:
        with pytest.raises(hiredis.ReplyError, match="NOGOODSLAVE No suitable replica to promote"):
            sentinel.fail_over()
        assert sentinel.replicas == []


def test_waiting_for_what_never_comes_says_what_each_server_is(sentinel):
    for server in sentinel.servers:
        server.stop()
    with pytest.raises(TimeoutError, match=rf"did not settle.*{sentinel.servers[0].port}: stopped"):
        sentinel.wait_until_settled(timedelta(milliseconds=50))


def test_a_password_holds_for_all_servers_but_the_sentinel():
    with Sentinel(replicas=1, requirepass="s p") as sentinel, sentinel.client() as client:
        client.set("k", "v")
        assert client.wait(1, 10_000) == 1
        assert sentinel.fail_over() is not None
        assert client.get("k") == b"v"
        with pytest.raises(redis.AuthenticationError):
            redis.Redis(port=sentinel.master.port, retry=None).ping()


def test_a_server_that_refuses_its_own_password_stops_with_the_others():
    with Sentinel(replicas=1) as sentinel:
        servers = list(sentinel.servers)
        with sentinel.client() as client:
            client.config_set("requirepass", "changed by the test")
    assert [server.running for server in servers] == [False, False]


def test_a_master_that_is_not_monitored_any_more_is_named():
    with Sentinel(replicas=0, name="mymaster") as sentinel:
        sentinel.command("SENTINEL", "REMOVE", "mymaster")
        with pytest.raises(LookupError, match="does not monitor mymaster"):
            sentinel.wait_until_settled()


def test_a_negative_number_of_replicas_is_refused():
    with pytest.raises(ValueError, match="no negative number of replicas"):
        Sentinel(replicas=-1)


def test_it_works_in_processes_and_over_the_time_that_it_is_given():
    with Sentinel(replicas=1, process=True, name="other", down_after=timedelta(milliseconds=700)) as sentinel:
        with sentinel.client() as client:
            client.set("k", "v")
            assert client.wait(1, 10_000) == 1
        old = sentinel.master
        old.stop()
        assert sentinel.wait_until_settled() is not old
        with sentinel.client() as client:
            assert client.get("k") == b"v"


def test_a_server_that_cannot_start_leaves_none_behind():
    sentinel = Sentinel(maxmemory="nonsense")
    with pytest.raises(rillet.testing.StartError, match="maxmemory"):
        sentinel.start()
    assert sentinel.servers == []
