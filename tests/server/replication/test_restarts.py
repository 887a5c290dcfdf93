"""Servers that restart go on in the replication stream where their files stand."""

import os
import signal
import time
from contextlib import ExitStack

import pytest
from support.deployments.replication import call, follow, in_step, info, picture, until_up
from support.servers import start_server
from support.until import until

# No PING and no timeout moves an offset.
QUIET = ("--repl-ping-replica-period", "3600", "--repl-timeout", "7200", "--enable-debug-command", "yes")
SAVING = (*QUIET, "--save", "3600 1")
PAIRS = pytest.mark.parametrize(
    ("kind", "other"), [("rillet", "rillet"), ("rillet", "redis810"), ("redis810", "rillet")]
)


@pytest.fixture
def started():
    """`started(kind, *flags)`: a server of the newest version that ends with the test."""
    with ExitStack() as stack:
        yield lambda kind, *flags: stack.enter_context(start_server(kind, *flags))


def chain(started, *kinds: str) -> list:
    """Servers that save, each of which follows the one before, from its start."""
    servers: list = []
    for kind in kinds:
        above = ("--replicaof", f"127.0.0.1 {servers[-1].port}") if servers else ()
        servers.append(started(kind, *SAVING, *above))
    for replica in servers[1:]:
        until_up(replica)
    return servers


def again(server) -> None:
    """Restart where others look for it."""
    server.stop()
    server.start(server.port)


def crash(server) -> None:
    server._process.kill()
    server._process.wait()
    server.start(server.port)


def counts(*servers) -> list[tuple[str, str]]:
    """Full and partial synchronizations of each."""
    return [(info(each, "sync_full"), info(each, "sync_partial_ok")) for each in servers]


def fill(master, start: int = 1) -> None:
    with master.wire() as wire:
        for number in range(start, start + 20):
            wire.call("XADD", "s", f"{number}-0", "f", "v")
        wire.call("SELECT", 1)
        wire.call("SET", "number", start)


@PAIRS
def test_a_master_that_restarts_continues_with_its_chain_of_replicas(started, kind, other):
    master, replica, last = chain(started, kind, other, kind)
    fill(master)
    in_step(master, replica, last)
    history = info(master, "master_replid")
    again(master)
    in_step(master, replica, last)
    offset = int(info(master, "master_repl_offset"))
    assert info(master, "master_replid2") == history != info(master, "master_replid")
    assert info(master, "second_repl_offset") == str(offset + 1)
    assert counts(master, replica) == [("0", "1"), ("1", "1")]
    fill(master, 100)
    in_step(master, replica, last)
    assert picture(master) == picture(replica) == picture(last)


@PAIRS
def test_a_replica_that_restarts_continues_in_its_database(started, kind, other):
    master, replica, last = chain(started, other, kind, other)
    fill(master)
    in_step(master, replica, last)
    replica.stop()
    with master.wire() as wire:  # the stream has database 1 selected, and does not say so again
        wire.do("SELECT 1; INCR number")
    replica.start(replica.port)
    in_step(master, replica, last)
    assert counts(master, replica) == [("1", "1"), ("0", "1")]
    assert picture(master) == picture(replica) == picture(last)


@pytest.mark.parametrize(("kind", "other"), [("rillet", "redis810"), ("redis810", "rillet")])
def test_a_file_continues_in_a_server_of_another_kind(started, kind, other):
    master, replica = chain(started, kind, other)
    fill(master)
    in_step(master, replica)
    master.stop()
    replica.stop()
    for of, by in ((master, other), (replica, kind)):
        of.kind = by
        of.start(of.port)
    until_up(replica)
    fill(master, 100)
    in_step(master, replica)
    assert counts(master) == [("0", "1")]
    assert picture(master) == picture(replica)


@pytest.mark.parametrize("kind", ["rillet", "redis810"])
def test_keys_past_their_time_are_deleted_in_the_stream_after_a_restart(started, kind):
    master, replica = chain(started, kind, "rillet")
    call(master, "DEBUG", "SET-ACTIVE-EXPIRE", "0")
    with master.wire() as wire:
        for number in range(100):
            wire.call("SELECT", number % 2)
            wire.call("SET", f"k{number}", "x" * 50, "PX", 1)
    in_step(master, replica)
    before = int(info(master, "master_repl_offset"))
    # The end asks a replica that has not acknowledged all yet, and REPLCONF GETACK is a part of the stream.
    until(lambda: f"offset={before}," in info(master, "slave0"))
    again(master)
    in_step(master, replica)
    assert info(master, "rdb_last_load_keys_expired") == "100"
    grown = int(info(master, "master_repl_offset")) - before
    assert grown == int(info(master, "repl_backlog_histlen")) == 2 * 23 + 90 * 22 + 10 * 21
    assert counts(master) == [("0", "1")]
    assert [call(replica, "DBSIZE"), call(master, "DBSIZE")] == [0, 0]


def test_more_deletions_than_the_backlog_holds_cost_a_full_synchronization(started):
    master = started("rillet", *SAVING, "--repl-backlog-size", "16384")
    replica = started("rillet", *SAVING, "--replicaof", f"127.0.0.1 {master.port}")
    until_up(replica)
    call(master, "DEBUG", "SET-ACTIVE-EXPIRE", "0")
    with master.wire() as wire:
        for number in range(2000):
            wire.call("SET", f"k{number}", "x", "PX", 1)
    in_step(master, replica)
    again(master)
    in_step(master, replica)
    assert int(info(master, "repl_backlog_first_byte_offset")) > int(info(master, "second_repl_offset"))
    assert counts(master) == [("1", "0")]
    assert call(replica, "DBSIZE") == 0


@pytest.mark.parametrize("kind", ["rillet", "redis810"])
def test_an_older_file_of_a_master_is_no_place_to_continue_from(started, kind):
    master, replica = chain(started, kind, "rillet")
    fill(master)
    call(master, "SAVE")
    fill(master, 100)
    in_step(master, replica)
    crash(master)
    in_step(master, replica)
    assert counts(master) == [("1", "0")]
    assert picture(master) == picture(replica)


def test_an_older_file_of_a_replica_continues_while_the_backlog_reaches_back(started):
    master, replica = chain(started, "rillet", "rillet")
    fill(master)
    in_step(master, replica)
    call(replica, "SAVE")
    fill(master, 100)
    in_step(master, replica)
    crash(replica)
    in_step(master, replica)
    assert counts(master) == [("1", "1")]
    assert picture(master) == picture(replica)


def test_flushall_leaves_no_file_that_is_ahead_of_the_stream(started):
    master, replica = chain(started, "rillet", "rillet")
    fill(master)
    call(master, "FLUSHALL")
    in_step(master, replica)
    crash(master)
    assert info(master, "master_replid2") == "0" * 40


def test_a_damaged_place_is_none(started):
    from rillet.storage.keyspace.keyspace import Keyspace
    from rillet.storage.rdb import rdb_chunks

    fields = {b"repl-stream-db": b"0", b"repl-id": b"a" * 40, b"repl-offset": b"7"}
    server = started("rillet", *SAVING)
    for damage, found in (
        ({}, "a" * 40),
        ({b"repl-stream-db": b"-1"}, "0" * 40),
        ({b"repl-stream-db": b"16"}, "0" * 40),
        ({b"repl-id": b"a" * 39}, "0" * 40),
        ({b"repl-id": b"\xff" * 40}, "0" * 40),
        ({b"repl-offset": b"x"}, "0" * 40),
        ({b"repl-offset": b"9" * 30}, "0" * 40),
    ):
        server.stop()
        (server.dir / "dump.rdb").write_bytes(b"".join(rdb_chunks(Keyspace(16), aux={**fields, **damage})))
        server.start()
        assert info(server, "master_replid2") == found
        assert info(server, "master_repl_offset") == ("7" if found[0] == "a" else "0")


@pytest.mark.parametrize("kind", ["rillet", "redis810"])
def test_an_append_only_file_continues_to_count(started, kind):
    """The manifest has the offsets at the ends of files; after a crash the size of the last one stands for its end."""
    server = started(kind, *QUIET, "--appendonly", "yes")

    def seen() -> tuple[str, list[str]]:
        manifest = (server.dir / "appendonlydir" / "appendonly.aof.manifest").read_text()
        lines = [line.split(" ", 4)[4] for line in manifest.splitlines() if " type i" in line]
        return info(server, "master_repl_offset"), lines

    for number in range(10):
        call(server, "SET", "a", number)
    assert seen() == ("10", ["type i startoffset 0"])
    server.stop()
    manifest = (server.dir / "appendonlydir" / "appendonly.aof.manifest").read_text()
    assert manifest.endswith(" type i startoffset 0 endoffset 10\n")
    server.start()
    assert seen() == ("10", ["type i startoffset 0"])
    call(server, "SET", "a", 1)
    crash(server)
    after_crash = 12 * 23 + 11 * 27 - 10 * 23  # each start selects its database again
    assert seen() == (str(after_crash), ["type i startoffset 0"])
    call(server, "BGREWRITEAOF")
    until(lambda: info(server, "aof_rewrite_in_progress") == "0")
    assert seen() == (str(after_crash), [f"type i startoffset {after_crash}"])
    call(server, "SET", "a", 1)
    call(server, "CONFIG", "SET", "appendonly", "no")
    assert seen()[1] == [f"type i startoffset {after_crash} endoffset {after_crash + 1}"]
    call(server, "CONFIG", "SET", "appendonly", "yes")
    until(lambda: info(server, "aof_rewrite_in_progress") == info(server, "aof_rewrite_scheduled") == "0")
    assert seen()[1] == [f"type i startoffset {after_crash + 1}"]


@pytest.mark.parametrize("mode", ["WRITE", "ALL"])
@pytest.mark.parametrize("kind", ["rillet", "redis810"])
def test_a_paused_replica_reads_on_and_applies_afterwards(started, kind, mode):
    master = started("rillet", *QUIET)
    replica = started(kind, *QUIET)
    last = started("rillet", *QUIET)
    follow(replica, master.port)
    follow(last, replica.port)
    call(master, "SET", "x", "0")
    in_step(master, replica, last)
    before = info(master, "master_repl_offset")
    with replica.wire() as wire:
        seconds = 60 if mode == "WRITE" else 2  # nothing ends a pause of ALL earlier
        begun = time.monotonic()
        wire.call("CLIENT", "PAUSE", seconds * 1000, mode)
        call(master, "INCR", "x")
        with master.wire() as other:
            other.do("MULTI; INCR x; PUBLISH a b; EXEC; INCR x")
            confirmed = other.call("WAIT", "1", "50").plain()
            assert confirmed == 0 or time.monotonic() - begun > seconds
        after = info(master, "master_repl_offset")
        if mode == "WRITE":
            until(lambda: info(replica, "slave_read_repl_offset") == after)
            assert info(replica, "slave_repl_offset") == info(last, "slave_repl_offset") == before
            assert info(replica, "blocked_clients") == "1"
            assert wire.call("GET", "x").value == b"0"
            wire.call("CLIENT", "UNPAUSE")
        else:
            applied = info(last, "slave_repl_offset")
            assert applied == before or time.monotonic() - begun > seconds
    in_step(master, replica, last)
    assert call(last, "GET", "x") == b"3"
    assert info(replica, "blocked_clients") == "0"


@pytest.mark.parametrize("side", ["master", "replica"])
def test_a_link_that_is_killed_in_a_pause_continues_partially_and_applies_the_rest_behind_it(started, side):
    master = started("rillet", *QUIET)
    replica = started("rillet", *QUIET)
    follow(replica, master.port)
    call(master, "SET", "x", "0")
    in_step(master, replica)
    full = info(master, "sync_full")
    with replica.wire() as wire:
        wire.call("CLIENT", "PAUSE", "600000", "WRITE")
        call(master, "INCR", "x")
        until(lambda: info(replica, "slave_read_repl_offset") == info(master, "master_repl_offset"))
        killed = (master, "replica") if side == "master" else (replica, "master")
        assert call(killed[0], "CLIENT", "KILL", "TYPE", killed[1]) == 1
        call(master, "INCR", "x")
        until_up(replica)
        assert wire.call("GET", "x").value == b"0"
        wire.call("CLIENT", "UNPAUSE")
    in_step(master, replica)
    assert call(replica, "GET", "x") == b"2"
    assert info(master, "sync_full") == full


def test_a_delay_of_each_key_holds_up_a_full_synchronization(started):
    master = started("rillet", *QUIET)
    for number in range(3):
        call(master, "SET", f"k{number}", "v")
    call(master, "CONFIG", "SET", "rdb-key-save-delay", "60000000")
    replica = started("rillet", *QUIET, "--replicaof", f"127.0.0.1 {master.port}")
    until(lambda: "state=send_bulk" in info(master, "slave0"))
    assert info(replica, "master_link_status") == "down"
    call(master, "CONFIG", "SET", "rdb-key-save-delay", "0")
    child = master.log.rpartition("Snapshot for SYNC started by pid ")[2].partition(",")[0]
    os.kill(int(child), signal.SIGKILL)  # the replica asks again
    until_up(replica)
    assert call(replica, "DBSIZE") == 3
