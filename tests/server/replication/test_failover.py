"""FAILOVER: with real servers on either side, with replicas that stand still, and with targets that misbehave."""

import os
import signal
import socket
import threading
from contextlib import contextmanager

import pytest
from support.deployments.replication import Peer, call, follow, in_step, info, pause
from support.until import until
from support.wire import encode_command


def state(server):
    return info(server, "master_failover_state")


@contextmanager
def standing_still(process):
    os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process.pid, signal.SIGCONT)


@pytest.mark.parametrize("words", ["", "TO 127.0.0.1 {port}", "TO 127.0.0.1 {port} FORCE TIMEOUT 20000"])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("rillet", "redis810"),
        ("redis810", "rillet"),
        ("rillet", "rillet"),
        ("rillet", "redis7"),
        ("redis7", "rillet"),
    ],
)
def test_master_and_replica_change_places_without_a_snapshot(started, first, second, words):
    flags = ("--compat-version", "7.0") if "redis7" in {first, second} else ()
    master, replica = (started(kind, *(flags if kind == "rillet" else ())) for kind in (first, second))
    call(master, "SET", "before", "1")
    follow(replica, master.port)
    in_step(master, replica)
    until(lambda: "state=online" in info(master, "slave0"))
    assert call(master, "FAILOVER", *words.format(port=replica.port).split()) == b"OK"
    until(lambda: info(master, "role") == "slave" and info(master, "master_link_status") == "up")
    assert info(replica, "role") == "master"
    assert state(master) == state(replica) == "no-failover"
    assert info(replica, "sync_full") == "0"
    assert call(replica, "SET", "after", "2") == b"OK"
    in_step(replica, master)
    assert call(master, "MGET", "before", "after") == [b"1", b"2"]
    assert call(replica, "FAILOVER") == b"OK"
    until(lambda: info(replica, "role") == "slave" and info(replica, "master_link_status") == "up")
    assert call(master, "SET", "back", "3") == b"OK"


def test_writes_wait_and_reads_do_not_until_it_is_aborted(started):
    master, replica = started("rillet"), started("redis810")
    follow(replica, master.port)
    in_step(master, replica)
    with standing_still(replica), master.wire() as writer:
        call(master, "SET", "k", "1")
        assert call(master, "FAILOVER", "TO", "127.0.0.1", replica.port) == b"OK"
        assert state(master) == "waiting-for-sync"
        assert info(master, "role") == "master"
        writer.send("SET", "k", "2")
        assert call(master, "GET", "k") == b"1"
        assert call(master, "CLIENT", "UNPAUSE") == b"OK"
        assert call(master, "GET", "k") == b"1"
        assert writer.pending(0.05) == b""
        with master.wire() as wire:
            assert wire.call("FAILOVER").value == b"ERR FAILOVER already in progress."
            for words in ("NO ONE", "127.0.0.1 1"):
                refused = wire.call("REPLICAOF", *words.split()).value
                assert refused == b"ERR REPLICAOF not allowed while failing over."
            assert wire.call("FAILOVER", "ABORT").value == b"OK"
            assert writer.read().value == b"OK"
            assert wire.call("FAILOVER", "ABORT").value == b"ERR No failover in progress."
        assert state(master) == "no-failover"
        assert call(master, "GET", "k") == b"2"
    in_step(master, replica)
    assert call(replica, "GET", "k") == b"2"


def test_only_replicas_that_are_there_can_be_chosen(started, connect):
    master = started("rillet")
    replica = connect(master)
    replica.call("REPLCONF", "listening-port", 7)
    replica.full_sync()
    with master.wire() as wire:
        none = wire.call("FAILOVER", "TO", "127.0.0.1", 1).value
        assert none == b"ERR FAILOVER target HOST and PORT is not a replica."
        for words in ("FORCE", "TO 127.0.0.1 7 FORCE", "FORCE TIMEOUT 100"):
            refused = wire.call("FAILOVER", *words.split()).value
            assert (
                refused == b"ERR FAILOVER with force option requires both a timeout and target HOST and IP."
            )
    second = started("rillet")
    follow(second, master.port)
    with second.wire() as wire:
        assert wire.call("FAILOVER").value == b"ERR FAILOVER is not valid when server is a replica."
        assert wire.call("FAILOVER", "ABORT").value == b"ERR No failover in progress."
        wrong = wire.call("PSYNC", "0" * 40, 1, "FAILOVER").value
        assert wrong == b"ERR PSYNC FAILOVER replid must match my replid."


@contextmanager
def target_of(master, connect, behave):
    """A replica by hand, whose port belongs to a listener that serves links as `behave` says."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        replica = connect(master)
        replica.call("REPLCONF", "listening-port", listener.getsockname()[1])
        replica.full_sync()
        listener.settimeout(60)
        links = []

        def serve() -> None:
            while True:
                try:
                    links.append(Peer(listener.accept()[0]))
                except OSError:
                    return
                try:
                    behave(links[-1])
                except (OSError, AssertionError):
                    continue

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for link in links:
                link.close()


def handshake(peer, answer):
    while (words := peer.command())[0] != b"psync":
        peer.send_raw(b"+PONG\r\n" if words[0] == b"ping" else b"+OK\r\n")
    assert words[-1] == b"FAILOVER"
    peer.send_raw(answer)


@pytest.mark.parametrize(
    "behave",
    [
        pytest.param(lambda peer: None, id="never answers"),  # noqa: ARG005
        pytest.param(lambda peer: peer.close(), id="closes"),
        pytest.param(lambda peer: peer.send_raw(b"\0" * 100 + b"\r\n"), id="garbage"),
        pytest.param(lambda peer: peer.send_raw(b"x" * 300_000), id="a line without an end"),
    ],
)
def test_a_forced_failover_to_a_hostile_target_can_be_aborted(started, connect, behave):
    master = started("rillet")
    call(master, "SET", "k", "1")
    with target_of(master, connect, behave) as port, master.wire() as writer:
        call(master, "SET", "k", "2")
        # In one write: what comes after the timeout meets a replica.
        forced = encode_command("FAILOVER", "TO", "127.0.0.1", port, "FORCE", "TIMEOUT", 50)
        writer.send_raw(forced + encode_command("SET", "k", "3"))
        assert writer.read().value == b"OK"
        until(lambda: state(master) == "failover-in-progress")
        assert info(master, "role") == "slave"
        assert call(master, "GET", "k") == b"2"
        pause(0.05)
        assert state(master) == "failover-in-progress"
        assert call(master, "FAILOVER", "ABORT") == b"OK"
        assert writer.read().value == b"OK"
        assert info(master, "role") == "master"
        assert state(master) == "no-failover"
        assert call(master, "SET", "k", "4") == b"OK"


@pytest.mark.parametrize("answer", [b"-ERR no\r\n", b"+WHAT\r\n", b"-NOMASTERLINK x\r\n"])
def test_a_target_that_rejects_the_request_leaves_the_master_in_its_place(started, connect, answer):
    master = started("rillet")
    with target_of(master, connect, lambda peer: handshake(peer, answer)) as port:
        call(master, "SET", "k", "1")
        assert call(master, "FAILOVER", "TO", "127.0.0.1", port, "FORCE", "TIMEOUT", 50) == b"OK"
        until(lambda: "aborted: Failover target rejected psync request" in master.log)
        until(lambda: info(master, "role") == "master")
        assert state(master) == "no-failover"
        assert call(master, "SET", "k", "2") == b"OK"
