"""FAILOVER while CLIENT PAUSE holds the replica or the master, beside Redis: who is master at the end, and what is kept."""

import os
import signal

import pytest
from support.deployments.replication import call, follow, in_step, info
from support.until import until

LONG = 600_000
KINDS = pytest.mark.parametrize("kind", ["rillet", "redis810"])
REFUSED = b"READONLY You can't write against a read only replica."


@pytest.fixture
def pair(started, kind):
    """A master and its replica, of one kind; the master knows that the replica has all."""
    quiet = ("--repl-ping-replica-period", "3600")  # a PING is held back by a pause, too
    master, replica = started(kind, *quiet), started(kind, *quiet)
    call(master, "SET", "k", "1")
    follow(replica, master.port)
    until(lambda: f"state=online,offset={info(master, 'master_repl_offset')}," in info(master, "slave0"))
    return master, replica


def state(server):
    return info(server, "role"), info(server, "master_failover_state")


def led_by(replica, master):
    """Wait for the end of the failover."""
    until(lambda: state(replica) == ("master", "no-failover"))
    until(lambda: state(master) == ("slave", "no-failover") and info(master, "master_link_status") == "up")


@KINDS
def test_it_waits_for_a_paused_replica(pair):
    master, replica = pair
    with replica.wire() as pausing, master.wire() as writer:
        pausing.call("CLIENT", "PAUSE", LONG, "WRITE")
        call(master, "SET", "k", "2")
        assert call(master, "FAILOVER") == b"OK"
        writer.send("SET", "late", "1")
        assert state(master) == ("master", "waiting-for-sync")
        pausing.call("CLIENT", "UNPAUSE")
        assert writer.read().value == REFUSED
    led_by(replica, master)
    assert call(replica, "MGET", "k", "late") == [b"2", None]


@KINDS
@pytest.mark.parametrize("words", ["FAILOVER TIMEOUT 50", "FAILOVER"])
def test_a_timeout_or_abort_leaves_the_master_and_its_writes(pair, words):
    master, replica = pair
    with replica.wire() as pausing, master.wire() as writer:
        pausing.call("CLIENT", "PAUSE", LONG, "WRITE")
        call(master, "SET", "k", "2")
        assert call(master, *words.split()) == b"OK"
        writer.send("SET", "late", "1")
        if words == "FAILOVER":
            assert call(master, "FAILOVER", "ABORT") == b"OK"
        assert writer.read().value == b"OK"
        assert state(master) == ("master", "no-failover")
        assert words == "FAILOVER" or "aborted: Replica never caught up before timeout" in master.log
        pausing.call("CLIENT", "UNPAUSE")
    in_step(master, replica)
    assert call(replica, "MGET", "k", "late") == [b"2", b"1"]


@KINDS
def test_a_forced_one_leaves_out_what_the_pause_held_back(pair):
    master, replica = pair
    with replica.wire() as pausing:
        pausing.call("CLIENT", "PAUSE", LONG, "WRITE")
        call(master, "SET", "k", "2")
        assert call(master, "FAILOVER", "TO", "127.0.0.1", replica.port, "FORCE", "TIMEOUT", 50) == b"OK"
        led_by(replica, master)
        pausing.call("CLIENT", "UNPAUSE")
        assert call(replica, "GET", "k") == call(master, "GET", "k") == b"1"


@KINDS
def test_a_forced_one_to_a_replica_that_answers_nothing_can_be_aborted(pair):
    master, replica = pair
    call(replica, "CLIENT", "PAUSE", LONG, "ALL")
    call(master, "SET", "k", "2")
    assert call(master, "FAILOVER", "TO", "127.0.0.1", replica.port, "FORCE", "TIMEOUT", 50) == b"OK"
    until(lambda: state(master) == ("slave", "failover-in-progress"))
    assert call(master, "FAILOVER", "ABORT") == b"OK"
    assert state(master) == ("master", "no-failover")
    assert call(master, "SET", "late", "1") == b"OK"
    assert call(master, "MGET", "k", "late") == [b"2", b"1"]


@KINDS
def test_a_replica_that_has_all_is_not_asked(pair):
    master, replica = pair
    call(replica, "CLIENT", "PAUSE", LONG, "ALL")
    assert call(master, "FAILOVER") == b"OK"
    until(lambda: state(master) == ("slave", "failover-in-progress"))


@KINDS
def test_the_masters_own_pause_holds_writes_beyond_the_failover(pair):
    master, replica = pair
    with master.wire() as pausing, master.wire() as writer, master.wire() as reader:
        pausing.call("CLIENT", "PAUSE", LONG, "WRITE")
        writer.send("SET", "late", "1")
        assert call(master, "FAILOVER") == b"OK"
        led_by(replica, master)
        assert reader.call("GET", "k").plain() == b"1"
        assert writer.pending(0.05) == b""
        pausing.call("CLIENT", "UNPAUSE")
        assert writer.read().value == REFUSED
    assert call(replica, "EXISTS", "late") == 0


@KINDS
def test_a_pause_of_all_clients_concerns_no_replica(pair):
    master, replica = pair
    os.kill(replica.pid, signal.SIGSTOP)
    try:
        call(master, "SET", "k", "2")
        assert call(master, "FAILOVER") == b"OK"
        assert call(master, "CLIENT", "PAUSE", LONG, "ALL") == b"OK"
    finally:
        os.kill(replica.pid, signal.SIGCONT)
    until(lambda: state(replica) == ("master", "no-failover"))
    assert call(replica, "GET", "k") == b"2"


@KINDS
@pytest.mark.parametrize("who", ["master", "replica"])
@pytest.mark.parametrize("what", ["BGSAVE", "BGREWRITEAOF"])
def test_a_save_that_runs_is_no_obstacle(pair, who, what):
    master, replica = pair
    saving = {"master": master, "replica": replica}[who]
    until(lambda: info(saving, "rdb_bgsave_in_progress") == "0")  # the child of the full synchronization
    call(saving, "CONFIG", "SET", "rdb-key-save-delay", 600_000_000)
    call(saving, what)
    field = {"BGSAVE": "rdb_bgsave_in_progress", "BGREWRITEAOF": "aof_rewrite_in_progress"}[what]
    until(lambda: info(saving, field) == "1")
    assert call(master, "FAILOVER") == b"OK"
    led_by(replica, master)
    assert info(saving, field) == "1"
    call(replica, "SET", "k", "2")
    in_step(replica, master)
    assert call(master, "GET", "k") == b"2"
