"""Snapshots: `Server.snapshot()` and `Server.restore()`."""

import gc

import pytest
import redis
from support.background import aside
from support.until import until

import rillet.testing

LIBRARY = "#!lua name=lib\nredis.register_function('f', function() return 1 end)"


@pytest.fixture
def client(server):
    with server.client(decode_responses=True) as client:
        yield client


def digest(client: redis.Redis) -> object:
    return client.execute_command("DEBUG", "DIGEST")


def fill(client: redis.Redis) -> None:
    """Make values with times to live, groups and pending entries, and a function; all types: test_snapshot_machine.py."""
    client.set("string", "v", px=100_000)
    client.append("string", "more")
    client.hset("hash", mapping={"f": "v", "g": "w"})
    client.hpexpire("hash", 100_000, "f")
    for number in range(1, 301):
        client.xadd("stream", {"n": number}, id=f"{number}-0")
    client.xgroup_create("stream", "group", "0")
    client.xreadgroup("group", "Bob", {"stream": ">"}, count=200)
    client.function_load(LIBRARY)


def change(client: redis.Redis) -> None:
    """Change all of them."""
    client.persist("string")
    client.hset("hash", "f", "other")
    client.xtrim("stream", maxlen=10, approximate=False)
    client.xgroup_delconsumer("stream", "group", "Bob")
    client.function_flush()


def test_all_data_and_functions_are_those_of_the_snapshot(server, client):
    server.clock.freeze()
    fill(client)
    before = digest(client), client.xinfo_stream("stream", full=True), client.pttl("string")
    snapshot = server.snapshot()
    for _ in range(2):
        change(client)
        assert digest(client) != before[0]
        server.restore(snapshot)
        after = digest(client), client.xinfo_stream("stream", full=True), client.pttl("string")
        assert after == before
        assert client.fcall("f", 0) == 1
        assert client.object("encoding", "string") == "raw"


def test_a_snapshot_goes_to_another_server(server, client):
    server.clock.freeze()
    fill(client)
    snapshot = server.snapshot()
    with rillet.testing.Server() as other, other.client() as follower:
        other.clock.freeze(at=server.clock.now)
        for _ in range(2):
            other.restore(snapshot)
            assert follower.execute_command("DEBUG", "DIGEST").decode() == digest(client)
            follower.flushall()


def test_a_snapshot_survives_a_restart_and_an_orderly_end(server, client):
    client.set("k", "v")
    with rillet.testing.Server() as other:
        other.client().set("k", "other")
        lasting = other.snapshot()
        other.restart()
        assert other.client().dbsize() == 0
        other.restore(lasting)
        assert other.client().get("k") == b"other"
    server.restore(lasting)
    assert client.get("k") == "other"


def test_a_snapshot_of_a_server_that_was_shut_down_is_lost(server):
    other = rillet.testing.Server()
    with other:
        snapshot = other.snapshot()
        other.client().shutdown(nosave=True)
    with pytest.raises(rillet.testing.SnapshotError):
        server.restore(snapshot)


def test_snapshots_without_references_are_dropped(server):
    def names() -> list[bytes]:
        return [name for name, _ in server._command(b"DEBUG", b"SNAPSHOT", b"LIST")]

    kept = server.snapshot()
    before = names()
    server.snapshot()
    gc.collect()
    server.restore(kept)
    assert names() == before


def test_a_reset_keeps_snapshots(server, client):
    client.set("k", "v")
    snapshot = server.snapshot()
    server.reset()
    assert client.dbsize() == 0
    server.restore(snapshot)
    assert client.get("k") == "v"


# What others see of it


def test_keys_and_fields_of_a_snapshot_expire(server, client):
    server.clock.freeze()
    client.set("k", "v", px=1000)
    client.hset("h", "f", "v")
    client.hpexpire("h", 1000, "f")
    snapshot = server.snapshot()
    client.flushall()
    server.restore(snapshot)
    assert client.dbsize() == 2
    server.clock.advance(seconds=2)
    until(lambda: client.dbsize() == 0)


def test_a_transaction_that_watches_a_restored_key_fails(server, client):
    client.set("k", "v")
    snapshot = server.snapshot()
    with client.pipeline() as pipeline:
        pipeline.watch("k")
        server.restore(snapshot)
        pipeline.multi()
        pipeline.set("k", "w")
        with pytest.raises(redis.WatchError):
            pipeline.execute()


def test_a_blocked_reader_gets_an_entry_of_the_snapshot(server, client):
    client.xadd("s", {"a": "b"}, id="5-0")
    snapshot = server.snapshot()
    client.delete("s")
    reading = aside(server.client().xread, {"s": "0"}, block=0)
    until(lambda: client.info("clients")["blocked_clients"] == 1)
    server.restore(snapshot)
    assert reading.result(60) == [[b"s", [(b"5-0", {b"a": b"b"})]]]


def test_clients_that_track_hear_that_everything_changed(server):
    with server.client(protocol=3, single_connection_client=True) as client:
        client.execute_command("CLIENT", "TRACKING", "ON")
        client.set("k", "v")
        snapshot = server.snapshot()
        client.get("k")
        pushes: list[object] = []
        client.connection._parser.set_invalidation_push_handler(pushes.append)
        server.restore(snapshot)
        client.ping()
        assert pushes == [[b"invalidate", None]]


def test_a_restart_loads_what_was_restored_into_the_append_only_file():
    with rillet.testing.Server(appendonly=True) as server, server.client(decode_responses=True) as client:
        fill(client)
        snapshot = server.snapshot()
        change(client)
        server.restore(snapshot)
        client.set("later", "v")
        before = digest(client)
        server.restart()
        assert digest(client) == before
        assert client.get("later") == "v"
        assert client.fcall("f", 0) == 1


def test_replicas_follow_what_was_restored():
    with (
        rillet.testing.Server(repl_diskless_sync_delay=0) as server,
        rillet.testing.Server(replicaof=f"127.0.0.1 {server.port}".split()) as replica,
        server.client() as client,
        replica.client() as follower,
    ):
        client.set("k", "v")
        snapshot = server.snapshot()
        client.set("other", "v")
        until(lambda: follower.get("other") == b"v")
        server.restore(snapshot)
        until(lambda: follower.keys() == [b"k"])
        client.set("later", "v")
        until(lambda: follower.get("later") == b"v")


def test_a_replica_refuses_to_be_restored():
    with rillet.testing.Server() as server:
        snapshot = server.snapshot()
        server.client().replicaof("127.0.0.1", 1)
        with pytest.raises(Exception, match="READONLY"):
            server.restore(snapshot)


def test_data_stays_where_the_append_only_file_cannot_be_written():
    with rillet.testing.Server(appendonly=True) as server, server.client() as client:
        snapshot = server.snapshot()
        client.set("k", "v")

        def refuse(*_: object) -> None:
            raise OSError(28, "No space left on device")

        server._server.persistence.files.rename = refuse
        with pytest.raises(Exception, match="No space left"):
            server.restore(snapshot)
        assert client.get("k") == b"v"
        server.restart()
        assert client.get("k") == b"v"


# On the wire


def test_snapshots_have_names_on_the_wire(client):
    def snapshot(*words: object) -> object:
        return client.execute_command("DEBUG", "SNAPSHOT", *words)

    client.set("k", "v")
    assert snapshot("TAKE", "one") == "OK"
    client.flushall()
    assert snapshot("TAKE", "none") == "OK"
    assert snapshot("RESTORE", "one") == "OK"
    assert client.get("k") == "v"
    assert [each for each in snapshot("LIST") if each[0] in {"one", "none"}] == [["one", 1], ["none", 0]]
    for name in ("one", "none"):
        assert snapshot("DROP", name) == "OK"
    for words in (("RESTORE", "one"), ("DROP", "one"), ("DUMP", "one")):
        with pytest.raises(redis.ResponseError, match="no snapshot with this name"):
            snapshot(*words)
    for words in (("NONSENSE",), ("TAKE",), ("LIST", "one"), ("LOAD", "one")):
        with pytest.raises(redis.ResponseError, match="Use DEBUG SNAPSHOT"):
            snapshot(*words)
    with pytest.raises(redis.ResponseError, match="Not an RDB file"):
        snapshot("LOAD", "one", "nonsense")


def test_a_restore_is_refused_inside_a_transaction(client):
    client.execute_command("DEBUG", "SNAPSHOT", "TAKE", "name")
    with pytest.raises(redis.ResponseError, match="inside a transaction"):
        client.pipeline().execute_command("DEBUG", "SNAPSHOT", "RESTORE", "name").execute()
    client.execute_command("DEBUG", "SNAPSHOT", "DROP", "name")


def test_streams_keep_the_idempotency_settings_of_their_snapshot(server, client):
    client.xadd("s", {"f": "v"}, id="1-0")
    snapshot = server.snapshot()
    client.config_set("stream-idmp-maxsize", 7)
    server.restore(snapshot)
    assert client.execute_command("XINFO", "STREAM", "s")["idmp-maxsize"] == 100
    client.execute_command("XADD", "new", "*", "f", "v")
    assert client.execute_command("XINFO", "STREAM", "new")["idmp-maxsize"] == 7


def test_a_file_with_a_library_that_does_not_compile_is_refused():
    with rillet.testing.Server() as server, server.client() as client:
        server._server.keyspace.libraries.put(b"bad", b"#!lua name=bad\nnonsense(")
        client.execute_command("DEBUG", "SNAPSHOT", "TAKE", "bad")
        file = client.execute_command("DEBUG", "SNAPSHOT", "DUMP", "bad")
        with pytest.raises(redis.ResponseError, match="Error compiling function"):
            client.execute_command("DEBUG", "SNAPSHOT", "LOAD", "other", file)
        assert [name for name, _ in client.execute_command("DEBUG", "SNAPSHOT", "LIST")] == [b"bad"]
