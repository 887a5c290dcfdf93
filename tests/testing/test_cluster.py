"""rillet.testing.Cluster: what a test sets is there at once, and nothing acknowledged is lost."""

import contextlib
import threading

import hiredis
import pytest
from redis.exceptions import AskError, ClusterDownError, MovedError, ResponseError
from support.background import aside
from support.live import eventually
from support.lost_connections import LOSE_CONNECTIONS
from support.until import until
from support.wire import Wire

import rillet.testing
from rillet.server.cluster import presence

pytestmark = LOSE_CONNECTIONS
KEY = "b"
SLOT = 3300


@pytest.fixture(scope="module")
def running():
    with rillet.testing.Cluster(shards=3, replicas=1) as cluster:
        yield cluster


@pytest.fixture
def cluster(running):
    """Three shards in the order of their slots, with a replica each, and no keys."""
    running.reset()
    return running


def refusal(node: rillet.testing.Server, *words: str) -> str:
    with pytest.raises(ResponseError) as refused, node.client() as client:
        client.execute_command(*words)
    return str(refused.value)


async def test_an_asyncio_client_finds_every_node(cluster):
    async with cluster.async_client() as client:
        for n in range(20):
            await client.xadd(f"stream:{n}", {"f": "v"})
        assert len(client.get_nodes()) == 6
    assert sum(shard.master.call(b"DBSIZE") for shard in cluster.shards) == 20


def test_a_moved_slot_takes_its_keys_along_and_clients_follow(cluster):
    with cluster.client() as client:
        client.set(KEY, "v")
        client.set("{b}2", "v", px=100_000)
        cluster.move(SLOT, to=cluster.shards[2])
        assert cluster.shard_of(KEY) is cluster.shards[2]
        assert client.get(KEY) == b"v"
        assert client.pttl("{b}2") > 0
    assert refusal(cluster.shards[0].master, "GET", KEY).startswith("3300 ")
    assert cluster.shards[0].master.call(b"DBSIZE") == 0


def test_in_the_middle_of_a_move_clients_are_asked_to_ask(cluster):
    with cluster.client() as client:
        client.mset_nonatomic({KEY: "1", "{b}2": "2"})
        with cluster.migrating(SLOT, to=cluster.shards[1]):
            cluster.move_keys(SLOT, KEY)
            assert (client.get(KEY), client.get("{b}2")) == (b"1", b"2")
            client.set("{b}3", "3")
            assert cluster.shards[1].master.call(b"DBSIZE") == 2
        assert client.mget(KEY, "{b}2", "{b}3") == [b"1", b"2", b"3"]


def test_a_move_that_is_cancelled_leaves_every_key_where_it_was(cluster):
    with cluster.client() as client:
        client.mset_nonatomic({KEY: "1", "{b}2": "2"})
        cluster.begin_move(SLOT, to=cluster.shards[1])
        cluster.move_keys(SLOT, KEY)
        cluster.cancel_move(SLOT)
        assert cluster.shard_of(KEY) is cluster.shards[0]
        assert client.mget(KEY, "{b}2") == [b"1", b"2"]
    assert cluster.shards[1].master.call(b"DBSIZE") == 0


def test_a_failover_loses_nothing_and_the_old_master_becomes_the_replica(cluster):
    shard = cluster.shards[0]
    old, replica = shard.master, shard.replicas[0]
    with cluster.client() as client:
        client.set(KEY, "v")
        assert cluster.fail_over(shard) is replica
        assert (shard.master, shard.replicas) == (replica, [old])
        assert client.get(KEY) == b"v"
        client.set(KEY, "w")
    cluster.wait_for_replicas()
    with old.client() as client:
        client.execute_command("READONLY")
        assert client.get(KEY) == b"w"


def acknowledged(replication):
    return replication["slave0"]["offset"] == replication["master_repl_offset"]


@contextlib.contextmanager
def handing_over(cluster, limit=60_000):
    """The master of KEY hands over to a replica that does not answer before the end.

    Args:
        limit: milliseconds after which it goes on; with few it may have done so already.
    """
    old, new = cluster.shard_of(KEY).master, cluster.shard_of(KEY).replicas[0]
    sleeps, wakes = threading.Event(), threading.Event()
    with old.client() as reader, pytest.MonkeyPatch.context() as patch:
        patch.setattr(presence, "HAND_OVER_LIMIT", limit)
        reader.config_set("repl-ping-replica-period", 3600)  # nothing more to acknowledge
        eventually(
            lambda: acknowledged(reader.info("replication"))
        )  # once a second; a replica that sleeps does not
        sleep = aside(new.run_inside, lambda: (sleeps.set(), wakes.wait(60)))
        sleeps.wait()
        begun = old.log.count
        old.node.body.hand_over(new.node)
        eventually(lambda: "is synced, failing over" in old.log.text(begun))
        try:
            yield old, new, reader
        finally:
            wakes.set()
            sleep.result(60)


def test_a_write_while_a_master_hands_over_waits_for_the_new_one_and_is_redirected(cluster):
    with contextlib.ExitStack() as stack:
        with handing_over(cluster) as (old, new, reader):
            writer = stack.enter_context(Wire(old.port))
            writer.send("SET", KEY, "v")
            assert reader.get(KEY) is None  # a read does not wait
            assert writer.pending() == b""
        assert str(writer.read()) == f"-MOVED {SLOT} 127.0.0.1:{new.port}"
    cluster.wait_for_replicas()


@pytest.mark.parametrize("way", ["stops", "is cut off"])
def test_a_master_that_hands_over_to_a_replica_that_is_gone_goes_on(cluster, way):
    with (
        handing_over(cluster) as (old, new, reader),
        Wire(old.port) as writer,
        contextlib.ExitStack() as stack,
    ):
        writer.send("SET", KEY, "v")
        if way == "stops":
            cluster.topology.set_running(new.node, running=False)
        else:
            cluster.topology.part([new.node])
        stack.callback(cluster.topology.heal)
        stack.callback(cluster.topology.set_running, new.node, running=True)
        assert str(writer.read()) == "+OK"
        assert reader.info("replication")["role"] == "master"
        assert cluster.shard_of(KEY).master is old
    cluster.wait_for_replicas()


def test_a_master_that_hands_over_to_a_replica_that_hangs_goes_on_after_a_time(cluster):
    with handing_over(cluster, limit=100) as (old, _, reader), Wire(old.port) as writer:
        writer.send("SET", KEY, "v")
        assert str(writer.read()) == "+OK"
        assert reader.info("replication")["role"] == "master"
        assert cluster.shard_of(KEY).master is old
    cluster.wait_for_replicas()
    with cluster.client() as client:
        assert client.get(KEY) == b"v"


def test_a_move_to_a_master_that_hangs_holds_the_writes_no_longer_than_the_timeout(cluster):
    source, target = (shard.master for shard in cluster.shards[:2])
    goes_on = threading.Event()
    with cluster.client() as client, source.client() as writer:
        client.set(KEY, "v")
        writer.config_set("cluster-slot-migration-write-pause-timeout", 100)
        target._server.loop.call_soon_threadsafe(goes_on.wait)
        task = cluster.topology.move([SLOT], target.node, 0)
        try:
            eventually(lambda: source._server.pause.holders or task.ended >= 0)  # 100 ms may be over
            assert writer.set(KEY, "w")
        finally:
            goes_on.set()
        with target.client() as reader:
            assert reader.ping()
        assert (task.state, task.error) == (
            "failed",
            "the target did not answer before the write pause timeout",
        )
        assert client.get(KEY) == b"w"
        assert target.call(b"DBSIZE") == 0
        assert cluster.shard_of(KEY).master is source
        cluster.move(SLOT, to=cluster.shards[1])
        assert client.get(KEY) == b"w"


def test_a_stopped_master_takes_its_slots_down_until_its_replica_leads(cluster):
    shard = cluster.shards[0]
    old = shard.master
    with cluster.client() as client:
        client.set(KEY, "v")
        cluster.stop(old)
        assert refusal(cluster.shards[1].master, "GET", "c") == "The cluster is down"
        cluster.fail_over(shard)
        assert client.get(KEY) == b"v"
        cluster.start_node(old)
        assert old.role == "replica"
        assert client.get(KEY) == b"v"
        assert old.call(b"DBSIZE") == 1


def test_a_partition_of_a_master_takes_the_cluster_down_on_both_sides(cluster):
    first, second = cluster.shards[:2]
    with first.master.client() as client, cluster.partition(second.master):
        with pytest.raises(ClusterDownError), second.master.client() as cut:
            cut.get("c")
        assert refusal(first.master, "GET", "f") == "The cluster is down"
        client.config_set("cluster-require-full-coverage", "no")
        assert client.get("f") is None
        client.config_set("cluster-require-full-coverage", "yes")
    assert cluster.client().get("c") is None


def test_a_replica_beyond_a_partition_gets_nothing_until_it_ends(cluster):
    shard = cluster.shards[0]
    replica = shard.replicas[0]
    with shard.master.client() as client, cluster.partition(replica):
        client.set("f", "v")
        assert (client.wait(1, 1), replica.call(b"DBSIZE")) == (0, 0)
    assert replica.call(b"DBSIZE") == 1


def test_a_move_without_an_end_names_its_mistake(cluster):
    with pytest.raises(ValueError, match="slot 3300 is not moving"):
        cluster.finish_move(SLOT)
    with pytest.raises(ValueError, match="there already"):
        cluster.begin_move(SLOT, to=cluster.shards[0])
    cluster.move(SLOT, to=cluster.shards[0])


@pytest.mark.parametrize("slot", [-1, 16384])
def test_a_slot_that_does_not_exist_is_named_and_nothing_moves(cluster, slot):
    other = cluster.shards[0]
    for call in (cluster.move, cluster.begin_move):
        with pytest.raises(ValueError, match=f"no slot {slot}"):
            call(slot, to=other)
    with pytest.raises(ValueError, match=f"no slot {slot}"):
        cluster.finish_move(slot)
    assert 16383 in cluster.shards[2].slots


def test_nodes_and_shards_of_another_cluster_are_refused(cluster):
    stranger = rillet.testing.Cluster(shards=1)
    node, shard = stranger.nodes[0], stranger.shards[0]
    calls = [
        lambda: cluster.move(SLOT, to=shard),
        lambda: cluster.begin_move(SLOT, to=shard),
        lambda: cluster.fail_over(shard),
        lambda: cluster.stop(node),
        lambda: cluster.start_node(node),
        lambda: cluster.partition(node).__enter__(),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="of another cluster"):
            call()
    assert SLOT in cluster.shards[0].slots


def test_a_slot_between_two_shards_goes_to_no_third_one(cluster):
    source, target, third = cluster.shards
    source.master.call(b"SET", b"{b}1", b"v")
    with cluster.migrating(SLOT, to=target):
        cluster.move_keys(SLOT)
        for call in (cluster.move, cluster.begin_move):
            with pytest.raises(ValueError, match="is moving"):
                call(SLOT, to=third)
        with pytest.raises(ValueError, match="is moving"):
            cluster.move(SLOT, to=source)
    assert target.master.call(b"GET", b"{b}1") == b"v"


def test_a_move_ends_with_its_block_also_after_an_error(cluster):
    def fail():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), cluster.migrating(SLOT, to=cluster.shards[1]):
        fail()
    assert SLOT in cluster.shards[1].slots


def test_a_reset_ends_moves_at_both_ends(cluster):
    cluster.begin_move(SLOT, to=cluster.shards[1])
    cluster.reset()
    assert all(b"[" not in shard.master.call(b"CLUSTER", b"NODES") for shard in cluster.shards)


def test_keys_of_slots_that_were_lost_while_a_master_was_down_are_gone_when_it_returns():
    with rillet.testing.Cluster(shards=2, appendonly=True) as cluster:
        source, target = (shard.master for shard in cluster.shards)
        source.call(b"SET", KEY.encode(), b"old")
        source.call(b"SET", b"{b}other", b"old")
        source.stop()
        target.call(b"CLUSTER", b"SETSLOT", b"%d" % SLOT, b"NODE", target.id.encode())
        cluster.start_node(source)
        assert source.call(b"DBSIZE") == 0
        cluster.move(SLOT, to=cluster.shards[0])
        assert source.call(b"EXISTS", KEY.encode()) == 0


def test_a_replica_that_leads_has_no_keys_of_slots_that_its_shard_lost(cluster):
    shard = cluster.shards[0]
    old, replica = shard.nodes
    old.call(b"SET", KEY.encode(), b"old")
    cluster.wait_for_replicas()
    with cluster.partition(replica):
        cluster.move(SLOT, to=cluster.shards[1])
        cluster.stop(old)
    cluster.fail_over(shard)
    assert replica.call(b"DBSIZE") == 0


def test_a_target_that_stops_before_it_stored_the_keys_does_not_take_the_slots():
    with rillet.testing.Cluster(shards=3, cluster_require_full_coverage=False) as cluster:
        source, target, _ = (shard.master for shard in cluster.shards)
        source.call(b"SET", KEY.encode(), b"1")
        may_go_on = threading.Event()
        target._server.loop.call_soon_threadsafe(may_go_on.wait, 60)
        task = cluster.topology.move([SLOT], target.node, 0)
        source.run_inside(lambda: None)  # the keys are on their way
        stopping = aside(target.stop)
        try:
            until(lambda: task.ended >= 0)
            source.call(b"SET", KEY.encode(), b"2")
        finally:
            may_go_on.set()
            stopping.result(60)
        assert task.state == "failed"
        assert source.call(b"GET", KEY.encode()) == b"2"


def test_keys_of_a_slot_between_two_shards_are_not_left_behind_by_another_move(cluster):
    source, target, third = (shard.master for shard in cluster.shards)
    source.call(b"SET", b"{b}1", b"v")
    with cluster.migrating(SLOT, to=cluster.shards[1]):
        cluster.move_keys(SLOT)
        task = third.call(b"CLUSTER", b"MIGRATION", b"IMPORT", b"%d" % SLOT, b"%d" % SLOT)
        until(lambda: b"failed" in third.call(b"CLUSTER", b"MIGRATION", b"STATUS", b"ID", task)[0])
    assert target.call(b"GET", b"{b}1") == b"v"


def test_a_blocked_consumer_is_sent_after_a_stream_that_was_moved(cluster):
    source = cluster.shards[0].master
    source.call(b"XGROUP", b"CREATE", b"{b}s", b"g", b"$", b"MKSTREAM")
    with source.client() as reader, cluster.migrating(SLOT, to=cluster.shards[1]):
        connection = reader.connection_pool.get_connection()
        connection.send_command("XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "{b}s", ">")
        until(lambda: b"blocked_clients:1" in source.call(b"INFO", b"clients"))
        cluster.move_keys(SLOT)
        with pytest.raises(AskError):
            connection.read_response()
        connection.disconnect()


def test_a_call_is_that_of_a_client(cluster):
    replica = cluster.shards[0].replicas[0]
    with pytest.raises(hiredis.ReplyError, match=f"MOVED {SLOT} "):
        replica.call(b"SET", KEY.encode(), b"v")
    with pytest.raises(hiredis.ReplyError, match=f"MOVED {SLOT} "):
        cluster.shards[1].master.call(b"GET", KEY.encode())


def test_a_shard_without_a_replica_cannot_fail_over():
    with rillet.testing.Cluster(shards=1) as cluster, cluster.client() as client:
        with pytest.raises(ValueError, match="no such replica"):
            cluster.fail_over(cluster.shards[0])
        client.set("a", "b")
        assert client.mget("a", "a") == [b"b", b"b"]


def test_a_cluster_with_a_password_moves_replicates_and_serves():
    with rillet.testing.Cluster(2, 1, requirepass="secret") as cluster, cluster.client() as client:
        client.set(KEY, "v")
        cluster.move(SLOT, to=cluster.shards[1])
        cluster.fail_over(cluster.shards[1])
        assert client.get(KEY) == b"v"


def test_a_number_of_shards_below_one_is_refused():
    with pytest.raises(ValueError, match="at least one shard"):
        rillet.testing.Cluster(shards=0)


def test_a_node_that_resets_keeps_its_role(cluster):
    shard = cluster.shards[0]
    master, replica = shard.master, shard.replicas[0]
    with cluster.client() as client:
        client.set(KEY, "v")
    for node in (replica, master):
        assert node.call(b"DEBUG", b"RESET") == b"OK"
        assert shard.master is master
        assert [each.call(b"ROLE")[0] for each in (master, replica)] == [b"master", b"slave"]
    cluster.wait_for_replicas()
    with cluster.client() as client:
        client.set(KEY, "w")
        assert client.get(KEY) == b"w"
    eventually(lambda: replica.call(b"DBSIZE") == 1)


def test_asking_is_over_after_a_command_that_is_refused(cluster):
    cluster.begin_move(SLOT, to=cluster.shards[1])
    with cluster.shards[1].master.client(single_connection_client=True) as client:
        client.execute_command("ASKING")
        with pytest.raises(ResponseError, match="unknown command"):
            client.execute_command("NONSENSE")
        with pytest.raises(MovedError):
            client.execute_command("GET", KEY)
