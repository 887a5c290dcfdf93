"""Ends in the middle of something, beside Redis: what is answered, whether the server ends, and what is kept.

The ends of ``USUAL`` run always, all of them with `make test-heavy`.
"""

import signal

import pytest
from support.background import at_once
from support.deployments.replication import FakeReplica
from support.endings import AOF, ENDS, QUICK, SLOW, UNDER_WAY, end_with, fill, info
from support.servers import require_binary, start_server
from support.until import until

import rillet.testing

USUAL = {"TERM", "TERM force", "SHUTDOWN", "SHUTDOWN SAVE", "SHUTDOWN NOSAVE NOW FORCE"}
POLICIES = "everysec", "always", "no"
# Redis ends, and the next start has nothing, because the first file is still to be begun. Rillet writes it before it ends.
KEEPS_MORE = "the first file behind a save"
# Ctrl-C ends a server whose data cannot be saved.
ENDS_ANYWAY = {("a save that failed, with save points", "INT")}

# No PING moves the offset between a question for it and its acknowledgement.
WAITING = ("--shutdown-timeout", "600", "--repl-ping-replica-period", "3600")
ROWS = [
    pytest.param(
        way,
        end,
        POLICIES[number % len(POLICIES)],
        id=f"{way} - {end}",
        marks=[] if end in USUAL else pytest.mark.heavy,
    )
    for number, (way, end) in enumerate(
        (way, end) for way in UNDER_WAY for end in ENDS if (way, end) not in ENDS_ANYWAY
    )
]


@pytest.mark.parametrize(("way", "end", "policy"), ROWS)
def test_an_end_is_answered_and_keeps_what_it_does_in_redis(way, end, policy):
    require_binary("redis810")
    theirs, ours = at_once(lambda kind: end_with(kind, way, end, policy), ("redis810", "rillet"))
    assert (ours.reply, ours.status) == (theirs.reply, theirs.status)
    if way.startswith(KEEPS_MORE):
        assert (ours.kept, theirs.kept) == (20, 20 if theirs.status is None else 0)
        return
    assert ours.kept == theirs.kept
    assert set(ours.said) == set(theirs.said)


# An end that waits for replicas


@pytest.fixture(params=["rillet", "redis810"])
def waiting(request):
    """A server that waits for a replica, the replica, and the client that sent SHUTDOWN."""
    require_binary(request.param)
    with (
        start_server(request.param, *AOF, *WAITING) as server,
        server.wire() as wire,
        FakeReplica(server, "psync2", "eof") as replica,
    ):
        replica.full_sync()
        replica.send("REPLCONF", "ACK", "0")
        until(lambda: "state=online" in info(wire, "slave0"))
        fill(wire)
        wire.send("SHUTDOWN", "FORCE")
        until(lambda: "Waiting for replicas before shutting down" in server.log)
        yield server, replica, wire


def test_meanwhile_reads_are_answered_and_writes_wait(waiting):
    server, _, wire = waiting
    with server.wire() as other, server.wire() as writer:
        assert 0 < int(info(other, "shutdown_in_milliseconds")) <= 600_000
        assert info(other, "blocked_clients") == "1"
        writer.send("SET", "late", "v")
        other.call("CLIENT", "UNPAUSE")
        assert str(other.call("GET", "k1")) == '$"v"'
        assert str(other.call("EXISTS", "late")) == ":0"
        assert str(other.call("SHUTDOWN", "ABORT")) == "+OK"
        assert str(wire.read()) == "-ERR Errors trying to SHUTDOWN. Check logs."
        assert str(writer.read()) == "+OK"
        assert str(other.call("SHUTDOWN", "ABORT")) == "-ERR No shutdown in progress."
        assert info(other, "shutdown_in_milliseconds") == ""


@pytest.mark.parametrize("words", ["", "NOW", "NOSAVE NOW FORCE"])
def test_another_shutdown_waits_with_the_first(waiting, words):
    server, _, wire = waiting
    with server.wire() as other, server.wire() as third:
        other.send("SHUTDOWN", *words.split())
        until(lambda: info(third, "blocked_clients") == "2")
        third.call("SHUTDOWN", "ABORT")
        assert str(wire.read()) == str(other.read()) == "-ERR Errors trying to SHUTDOWN. Check logs."


def test_its_client_cannot_be_unblocked_and_may_leave(waiting):
    server, _, _ = waiting
    with server.wire() as other:
        clients = other.call("CLIENT", "LIST").value.decode().splitlines()
        [number] = [line.split()[0].removeprefix("id=") for line in clients if "cmd=shutdown" in line]
        assert str(other.call("CLIENT", "UNBLOCK", number)) == ":0"
        assert str(other.call("CLIENT", "KILL", "ID", number)) == ":1"
        until(lambda: info(other, "blocked_clients") == "0")
        assert str(other.call("SHUTDOWN", "ABORT")) == "+OK"


def test_it_ends_once_the_replica_has_all(waiting):
    server, replica, _ = waiting
    with server.wire() as other:
        replica.send("REPLCONF", "ACK", info(other, "master_repl_offset"))
    assert server._process.wait(60) == 0
    assert "1 of 1 replicas are in sync when shutting down." in server.log


def test_it_ends_once_the_replica_has_left(waiting):
    server, replica, _ = waiting
    replica.close()
    assert server._process.wait(60) == 0


def test_sigterm_does_not_cut_it_short_and_the_second_sigint_does(waiting):
    server, _, _ = waiting
    for number in (signal.SIGTERM, signal.SIGTERM):
        before = len(server.log)
        server._process.send_signal(number)
        until(lambda before=before: "Received SIGTERM" in server.log[before:])
    with server.wire() as other:
        assert str(other.call("PING")) == "+PONG"
    server._process.send_signal(signal.SIGINT)
    until(lambda: server._process.poll() is not None or "Received SIGINT" in server.log)
    server._process.send_signal(signal.SIGINT)
    assert server._process.wait(60) == 1
    assert "You insist... exiting now." in server.log


# Where no one asks again


@pytest.mark.parametrize("process", [False, True], ids=["thread", "process"])
def test_the_end_of_a_test_server_writes_the_first_file_itself(process, tmp_path):
    with rillet.testing.Server(process=process, dir=tmp_path) as server:
        client = server.client()
        client.mset({f"k{number}": "v" for number in range(20)})
        client.config_set("rdb-key-save-delay", 60_000_000)
        client.config_set("appendonly", "yes")
        client.set("behind", "v")
        client.close()
    with rillet.testing.Server(dir=tmp_path, appendonly=True) as server:
        assert server.client().dbsize() == 21


@pytest.mark.parametrize("process", [False, True], ids=["thread", "process"])
def test_the_end_of_a_test_server_with_save_points_saves(process, tmp_path):
    with rillet.testing.Server(process=process, dir=tmp_path, save="3600 1000000") as server:
        server.client().set("k", "v")
    with rillet.testing.Server(dir=tmp_path) as server:
        assert server.client().get("k") == b"v"


def test_an_end_writes_the_first_file_whose_rewrite_failed(tmp_path):
    """Nothing is under way that Redis would wait for, and nothing is lost."""
    with start_server("rillet", folder=tmp_path) as server:
        with server.wire() as wire:
            fill(wire)
            wire.call(*SLOW)
            wire.do("BGSAVE; CONFIG SET appendonly yes")
            wire.call(*QUICK)
        server.stop()
        server.flags = AOF
        server.start()
        with server.wire() as wire:
            assert str(wire.call("DBSIZE")) == ":20"
