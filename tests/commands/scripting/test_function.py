"""Libraries of functions in a server: in the AOF, in snapshots, on replicas, between servers, in INFO."""

import sys

import pytest
from support.live import LiveServer, eventually


@pytest.fixture(scope="module")
def server():
    with LiveServer(repl_diskless_sync_delay=0) as running:  # no replica waits for others
        yield running


@pytest.fixture
def wire(server):
    with server.wire() as connection:
        connection.call("FLUSHALL")
        connection.call("FUNCTION", "FLUSH")
        yield connection


LIBRARY = (
    "#!lua name=lib\nredis.register_function('put', function(k, a) return redis.call('set', k[1], a[1]) end)"
)


def test_functions_survive_in_the_aof_and_in_its_rewrite():
    server = LiveServer(appendonly=True, appendfsync="always").start()
    with server.wire() as wire:
        wire.call("FUNCTION", "LOAD", LIBRARY)
        server.restart()
    with server.wire() as wire:
        assert wire.call("FCALL", "put", 1, "k", "v").plain() == b"OK"
        wire.call("CONFIG", "SET", "aof-use-rdb-preamble", "no")
        wire.call("BGREWRITEAOF")
        eventually(
            lambda: server.info("aof_rewrite_in_progress") == "0" and server.info("aof_base_size") != "0"
        )
        server.restart()
    with server.wire() as wire:
        assert wire.call("FCALL", "put", 1, "k", "w").plain() == b"OK"
    server.stop()


def test_a_snapshot_holds_the_functions(wire):
    wire.call("FUNCTION", "LOAD", LIBRARY)
    assert str(wire.call("DEBUG", "RELOAD")) == "+OK"
    assert str(wire.call("FCALL", "put", 1, "k", "v")) == "+OK"


def test_functions_reach_a_replica(server, wire):
    wire.call("FUNCTION", "LOAD", LIBRARY)
    with LiveServer(replicaof=f"127.0.0.1 {server.port}") as replica, replica.wire() as reader:
        eventually(lambda: replica.info("master_link_status") == "up")
        assert len(reader.call("FUNCTION", "LIST").plain()) == 1
        wire.call("FUNCTION", "DELETE", "lib")
        eventually(lambda: reader.call("FUNCTION", "LIST").plain() == [])
        assert str(reader.call("EVAL", "return redis.call('set', 'k', 1)", 0)).startswith("-READONLY")
        assert str(reader.call("EVAL", "#!lua\nreturn 1", 0)) == (
            "-READONLY You can't write against a read only replica."
        )
        assert str(reader.call("EVAL", "#!lua flags=no-writes\nreturn 1", 0)) == ":1"


def test_info_counts_scripts_and_functions(server, wire):
    wire.call("SCRIPT", "FLUSH")
    wire.call("EVAL", "return 1", 0)
    wire.call("SCRIPT", "LOAD", "return 2")
    wire.call("FUNCTION", "LOAD", LIBRARY)
    assert server.info("number_of_cached_scripts") == "2"
    assert server.info("number_of_functions") == server.info("number_of_libraries") == "1"
    assert int(server.info("used_memory_vm_eval")) > 10_000


def test_a_restore_that_collides_changes_nothing(wire):
    wire.call("FUNCTION", "LOAD", LIBRARY)
    dump = wire.call("FUNCTION", "DUMP").value
    assert str(wire.call("FUNCTION", "RESTORE", dump)) == "-ERR Library lib already exists"
    wire.call("FUNCTION", "LOAD", "REPLACE", LIBRARY.replace("put", "get"))
    assert str(wire.call("FUNCTION", "RESTORE", dump)) == "-ERR Library lib already exists"
    assert str(wire.call("FCALL", "get", 1, "k", "v")) == "+OK"
    assert str(wire.call("FUNCTION", "RESTORE", dump, "REPLACE")) == "+OK"
    assert str(wire.call("FCALL", "put", 1, "k", "v")) == "+OK"
    wire.call("FUNCTION", "LOAD", LIBRARY.replace("lib", "other").replace("put", "more"))
    assert str(wire.call("FUNCTION", "RESTORE", dump, "FLUSH")) == "+OK"
    assert len(wire.call("FUNCTION", "LIST").plain()) == 1


@pytest.mark.parametrize("peer", ["redis7", "valkey"])
def test_libraries_are_exchanged_with_real_servers(peer, running, server, wire):
    with running(peer).wire() as theirs:
        theirs.call("FUNCTION", "FLUSH")
        theirs.call("FUNCTION", "LOAD", LIBRARY)
        assert str(wire.call("FUNCTION", "RESTORE", theirs.call("FUNCTION", "DUMP").value)) == "+OK"
        assert str(wire.call("FCALL", "put", 1, "k", "v")) == "+OK"
        wire.call("CONFIG", "SET", "rdb-version", 10)
        dump = wire.call("FUNCTION", "DUMP").value
        wire.call("CONFIG", "SET", "rdb-version", 11)
        assert str(theirs.call("FUNCTION", "RESTORE", dump, "FLUSH")) == "+OK"
        assert str(theirs.call("FCALL", "put", 1, "k", "v")) == "+OK"
        theirs.call("FUNCTION", "FLUSH")


def test_without_lupa_the_server_works_and_loses_no_library(monkeypatch, tmp_path):
    server = LiveServer(dir=str(tmp_path), appendonly=True, appendfsync="always").start()
    with server.wire() as wire:
        wire.call("FUNCTION", "LOAD", LIBRARY)
    server.stop()
    monkeypatch.setitem(sys.modules, "lupa", None)
    server.start()
    missing = "-ERR scripting is not available in this server: the Python package lupa is not installed (pip install lupa)"
    with server.wire() as wire:
        assert str(wire.call("SET", "k", "v")) == "+OK"
        assert str(wire.call("EVAL", "return 1", 0)) == missing
        assert str(wire.call("SCRIPT", "LOAD", "return 1")) == missing
        assert str(wire.call("FUNCTION", "LOAD", LIBRARY)) == missing
        assert str(wire.call("FCALL", "put", 1, "k", "v")) == missing
        assert server.info("number_of_functions") == "0"
        assert str(wire.call("EVALSHA", "0" * 40, 0)).startswith("-NOSCRIPT")
    server.stop()
    monkeypatch.undo()
    server.start()
    with server.wire() as wire:
        assert str(wire.call("FCALL", "put", 1, "k", "w")) == "+OK"
    server.stop()
