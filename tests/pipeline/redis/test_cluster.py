"""A connection to a cluster: where commands go, and what becomes of them when slots move and masters change."""

import contextlib
import itertools
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.thorough import examples

from rillet.pipeline.redis.cluster import command_key, key_in_slot_of
from rillet.pipeline.redis.connection import (
    Connection,
    ConnectionLost,
    RedisError,
    ServerError,
    checked,
    packed,
)
from rillet.pipeline.redis.options import Endpoint
from rillet.pipeline.redis.shards import connect, scan
from rillet.protocol.key_slots import key_slot

NAMES = [f"s{number}" for number in range(12)]


def endpoint(cluster, **given):
    url = cluster.url.replace("redis://", "redis+cluster://")
    return Endpoint.of({"url": url, "retryIntervalMs": "1", "retries": "50"} | given)


@pytest.fixture
def connection(cluster):
    with connect(endpoint(cluster)) as connection:
        yield connection


def add(connection):
    checked(connection.pipeline([("XADD", name, "1-1", "n", name) for name in NAMES]))


def lengths(connection):
    return connection.pipeline([("XLEN", name) for name in NAMES])


def other_shard(cluster, key):
    return next(shard for shard in cluster.shards if shard is not cluster.shard_of(key))


def test_each_command_of_a_pipeline_goes_to_the_node_of_its_key(cluster, connection):
    add(connection)
    assert {cluster.shard_of(name) for name in NAMES} == set(cluster.shards)
    found = connection.pipeline([("XRANGE", name, "-", "+") for name in NAMES])
    assert [reply[0][1][1].decode() for reply in found] == NAMES


def test_a_pattern_is_looked_up_on_all_shards(connection):
    add(connection)
    assert scan(connection, "s*") == sorted(NAMES)


def test_a_stream_that_moves_while_shards_are_looked_at_is_found(cluster, connection, monkeypatch):
    add(connection)
    ports = sorted(shard.master.port for shard in cluster.shards)
    first, last = (next(s for s in cluster.shards if s.master.port == port) for port in (ports[0], ports[-1]))
    moving = next(name for name in NAMES if cluster.shard_of(name) is last)
    honest = Connection.call

    def call(self, *words, **how):
        reply = honest(self, *words, **how)
        if words[0] == "SCAN" and self.endpoint.port == ports[0]:
            cluster.move(cluster.slot_of(moving), to=first)
        return reply

    monkeypatch.setattr(Connection, "call", call)
    assert scan(connection, "s*") == sorted(NAMES)


def test_commands_follow_their_slots(cluster, connection):
    add(connection)
    for name in NAMES:
        cluster.move(cluster.slot_of(name), to=other_shard(cluster, name))
    assert lengths(connection) == [1] * len(NAMES)


def test_keys_of_a_slot_on_its_way_are_found_on_either_side(cluster, connection):
    add(connection)
    slot = cluster.slot_of("s1")
    with cluster.migrating(slot, to=other_shard(cluster, "s1")):
        assert connection.call("XLEN", "s1") == 1
        cluster.move_keys(slot, "s1")
        assert connection.call("XLEN", "s1") == 1
        assert connection.call("XADD", "s1", "2-1", "n", "2") == b"2-1"
    assert connection.call("XLEN", "s1") == 2


def test_a_master_that_is_gone_is_waited_for_until_its_replica_leads(cluster, connection):
    add(connection)
    shard = cluster.shard_of("s1")
    connection.call("WAIT", 1, 1000)
    cluster.wait_for_replicas()
    cluster.stop(shard.master)
    leads = threading.Timer(0.2, lambda: cluster.fail_over(shard))
    leads.start()
    assert connection.call("XLEN", "s1") == 1
    leads.join()


def test_the_topology_is_asked_of_all_nodes_that_were_seen_once_those_of_the_url_are_gone(
    cluster, connection
):
    add(connection)
    connection.call("WAIT", 1, 1000)
    cluster.wait_for_replicas()
    shard = next(each for each in cluster.shards if f":{each.master.port}" in cluster.url)
    cluster.stop(shard.master)
    cluster.fail_over(shard)
    assert lengths(connection) == [1] * len(NAMES)
    assert scan(connection, "s*") == sorted(NAMES)


def test_the_topology_is_asked_of_nodes_that_are_there(cluster):
    ports = [shard.master.port for shard in cluster.shards]
    url = "redis+cluster://127.0.0.1:1," + ",".join(f"127.0.0.1:{port}" for port in ports)
    with connect(Endpoint.of({"url": url, "retries": "0"})) as connection:
        assert lengths(connection) == [0] * len(NAMES)


def test_nodes_that_are_all_gone_are_named():
    found = Endpoint.of(
        {"url": "redis+cluster://127.0.0.1:1,127.0.0.1:2", "retries": "1", "retryIntervalMs": "1"}
    )
    with connect(found) as connection, pytest.raises(ConnectionLost, match=r"127\.0\.0\.1:1.*127\.0\.0\.1:2"):
        connection.call("XLEN", "s")


def test_a_transaction_is_not_run_in_part_when_its_slot_moves(cluster, connection):
    connection.call("WATCH", "s1")
    cluster.move(cluster.slot_of("s1"), to=other_shard(cluster, "s1"))
    steps = [("MULTI",), ("XADD", "s1", "*", "n", "1"), ("SET", "{s1}:marker", "1"), ("EXEC",)]
    with pytest.raises(ConnectionLost, match="MOVED"):
        connection.pipeline(steps)
    assert connection.call("XLEN", "s1") == 0
    connection.call("WATCH", "s1")
    assert len(checked(connection.pipeline(steps))[-1]) == 2
    assert connection.call("XLEN", "s1") == 1


def test_a_watched_key_that_another_changes_undoes_the_transaction(cluster, connection):
    with connect(endpoint(cluster)) as other:
        connection.call("WATCH", "s1")
        other.call("XADD", "s1", "1-1", "n", "1")
        assert connection.pipeline([("MULTI",), ("XADD", "s1", "*", "n", "2"), ("EXEC",)])[-1] is None
    connection.call("WATCH", "s1")
    connection.call("UNWATCH")
    assert connection.call("XLEN", "s1") == 1


def losing_replies(monkeypatch):
    """Have replies lost that a server has sent."""
    honest = Connection._replies

    def lose(self, sock, count):
        honest(self, sock, count)
        raise ConnectionResetError("lost")

    monkeypatch.setattr(Connection, "_replies", lose)


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_write_whose_reply_is_lost_is_for_its_caller(cluster, connection, monkeypatch, is_packed):
    add(connection)
    words = ("XADD", "s1", "*", "n", "2")
    with monkeypatch.context() as patched:
        losing_replies(patched)
        with pytest.raises(ConnectionLost, match="broke during XADD"):
            connection.exchange(packed([words]), ["XADD"], key="s1") if is_packed else connection.call(*words)
    assert connection.breaks == 1  # group mode looks at what is pending then
    assert connection.call("XLEN", "s1") == 2


@pytest.mark.parametrize(
    "lost",
    [[("XLEN", "s1")], [("MULTI",), ("XADD", "s1", "*", "n", "1"), ("EXEC",)]],
    ids=["of a command that reads", "of the transaction"],
)
def test_a_watch_ends_when_a_reply_is_lost(cluster, connection, monkeypatch, lost):
    connection.call("WATCH", "s1")
    with monkeypatch.context() as patched:
        losing_replies(patched)
        with pytest.raises(ConnectionLost, match="broke during"):
            connection.pipeline(lost)
    assert connection.breaks == 1
    other = next(name for name in NAMES if cluster.shard_of(name) is not cluster.shard_of("s1"))
    replies = connection.pipeline([("MULTI",), ("XADD", other, "1-1", "n", "1"), ("EXEC",)])
    assert replies[-1] == [b"1-1"]


def test_what_all_masters_are_asked_counts_a_connection_that_broke(connection):
    answers = itertools.count()

    def ask(server):
        if next(answers) == 1:
            raise ConnectionLost("the connection broke")
        return server.call("DBSIZE")

    assert connection.ask_masters(ask) == [0, 0, 0]
    assert connection.breaks == 1


def test_an_error_that_is_no_redirection_is_an_error(connection):
    connection.call("SET", "word", "x")
    with pytest.raises(ServerError, match="WRONGTYPE"):
        connection.call("XLEN", "word")


def test_one_server_is_no_cluster_and_a_node_of_a_cluster_is_not_one_server(cluster, running):
    alone = running("rillet").port
    with (
        connect(Endpoint.of({"url": f"redis+cluster://127.0.0.1:{alone}"})) as connection,
        pytest.raises(
            RedisError, match="is not a node of a cluster: the url of one server begins with redis://"
        ),
    ):
        connection.call("XLEN", "s")
    found = Endpoint(port=cluster.shards[0].master.port)
    with (
        connect(found, at_start=True) as connection,
        pytest.raises(RedisError, match=r"is a node of a cluster.*redis\+cluster://127"),
    ):
        connection.call("PING")
    with connect(Endpoint(port=alone), at_start=True) as connection:
        assert connection.call("PING") == b"PONG"


def test_a_task_that_knows_the_node_needs_no_topology(cluster, connection, monkeypatch):
    add(connection)
    near = connection.shard_of("s1")
    monkeypatch.setattr("rillet.pipeline.redis.cluster.ClusterConnection._topology", pytest.fail)
    with connect(endpoint(cluster), near=near) as task:
        assert task.call("XLEN", "s1") == 1


def test_a_task_whose_node_is_gone_finds_the_others(cluster):
    with connect(endpoint(cluster), near="127.0.0.1:1") as task:
        assert lengths(task) == [0] * len(NAMES)


def test_replicas_answer_readers_and_a_silent_one_is_replaced_by_the_master(cluster, connection):
    add(connection)
    cluster.wait_for_replicas()
    with connect(endpoint(cluster), replica=True) as reader:
        assert lengths(reader) == [1] * len(NAMES)
        assert {node.call("ROLE")[0] for node in reader.written()} == {b"slave"}
        for shard in cluster.shards:
            cluster.stop(shard.replicas[0])
        assert lengths(reader) == [1] * len(NAMES)


@settings(max_examples=examples(25), deadline=None)
@given(st.binary(min_size=1, max_size=8) | st.text("{}a", min_size=1, max_size=8).map(str.encode))
def test_a_key_can_be_made_in_the_slot_of_any_other(key):
    assert key_slot(key_in_slot_of(key, "rillet:sink:", ":query")) == key_slot(key)


def test_keys_of_streams_keep_their_names_in_those_made_of_them():
    assert key_in_slot_of(b"orders", "rillet:sink:", ":q") == b"rillet:sink:{orders}:q"
    assert key_in_slot_of(b"{shop}:orders", "rillet:sink:", ":q") == b"rillet:sink:{shop}:q"


@pytest.mark.parametrize(
    ("words", "key"),
    [
        ("XADD s * f v", b"s"),
        ("XINFO STREAM s", b"s"),
        ("XGROUP CREATE s g $", b"s"),
        ("XREADGROUP GROUP g me COUNT 1 STREAMS s >", b"s"),
        ("WATCH s", b"s"),
        ("EXEC", None),
        ("SCAN 0 MATCH s", None),
    ],
)
def test_the_key_of_a_command_is_known(words, key):
    assert command_key(words.split()) == key


def test_a_connection_may_be_closed_at_any_time(connection):
    with contextlib.suppress(ConnectionLost):
        connection.call("WATCH", "s1")
    connection.close()
    assert connection.call("XLEN", "s1") == 0
