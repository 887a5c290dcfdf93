"""Servers that change places: chains, promotion, death; with real servers at either end."""

import contextlib
import os
import signal

import pytest
from support.background import aside, beside, go_on
from support.deployments.replication import Proxy, call, follow, in_step, info, pause, picture, until_up
from support.until import until
from support.wire import ConnectionClosedError, encode_command

REPLICAS = pytest.mark.parametrize("kind", ["redis7", "valkey", "rillet"])
UNBLOCKED = b"UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)"


def fill(server, start: int = 1) -> None:
    with server.wire() as wire:
        for number in range(start, start + 50):
            wire.call("XADD", "s", f"{number}-0", "f", "v" * number)
        wire.call("XGROUP", "CREATE", "s", "g", "0")
        wire.call("XREADGROUP", "GROUP", "g", "a", "COUNT", "20", "STREAMS", "s", ">")
        wire.call("XACK", "s", "g", f"{start}-0", f"{start + 1}-0")
        wire.call("XDEL", "s", f"{start + 5}-0")
        wire.call("SET", "string", "x" * 1000, "EX", 10000)
        wire.do(f"SELECT 1; XADD t {start}-1 a b")


@REPLICAS
@pytest.mark.parametrize("diskless", ["yes", "no"])
def test_a_replica_gets_all_data_including_later_writes(started, kind, diskless):
    master = started("rillet", "--repl-diskless-sync", diskless)
    replica = started(kind)
    fill(master)
    with (
        master.wire() as wire,
        beside(lambda: (wire.call("XADD", "t", "*", "n", "v"), pause(0.001))) as running,
    ):
        follow(replica, master.port)
        go_on(running, 20)
    in_step(master, replica)
    assert picture(replica) == picture(master)
    assert info(master, "sync_full") == "1"


@REPLICAS
@pytest.mark.parametrize("diskless", ["yes", "no"])
def test_rillet_gets_all_the_data(started, kind, diskless):
    master = started(kind, "--repl-diskless-sync", diskless)
    replica = started("rillet", "--appendonly", "yes", "--repl-diskless-load", "swapdb")
    call(replica, "SET", "mine", "1")
    fill(master)
    follow(replica, master.port)
    fill(master, 100)
    in_step(master, replica)
    without = "entries-read" if kind == "redis7" else ""
    assert picture(replica, without=without) == picture(master, without=without)
    before = picture(replica)
    # Its own file has all of it, too.
    until(lambda: info(replica, "aof_rewrite_in_progress") == info(replica, "aof_rewrite_scheduled") == "0")
    call(replica, "REPLICAOF", "NO", "ONE")
    replica.restart()
    assert picture(replica) == before


@REPLICAS
def test_a_promoted_server_is_followed_by_its_old_master_without_a_snapshot(started, kind):
    old = started(kind)
    new = started("rillet")
    other = started("rillet")
    fill(old)
    follow(new, old.port)
    follow(other, old.port)
    fill(old, 100)
    in_step(old, new, other)
    history = info(old, "master_replid")
    call(new, "REPLICAOF", "NO", "ONE")
    assert info(new, "master_replid2") == history
    assert info(new, "second_repl_offset") == str(int(info(new, "master_repl_offset")) + 1)
    assert info(new, "role") == "master"
    call(new, "XADD", "s", "500-0", "new", "master")
    for server in (other, old):
        follow(server, new.port)
    in_step(new, old, other)
    assert info(new, "sync_partial_ok") == "2"
    assert info(new, "sync_full") == "0"
    assert info(other, "master_replid") == info(new, "master_replid")
    without = "entries-read" if kind == "redis7" else ""
    assert picture(old, without=without) == picture(new, without=without)
    assert picture(other) == picture(new)


@pytest.mark.parametrize("kind", ["redis7", "valkey"])
def test_rillet_follows_its_promoted_replica_without_a_snapshot(started, kind):
    old = started("rillet")
    new = started(kind)
    fill(old)
    follow(new, old.port)
    fill(old, 100)
    in_step(old, new)
    call(new, "REPLICAOF", "NO", "ONE")
    call(new, "XADD", "s", "500-0", "new", "master")
    follow(old, new.port)
    in_step(new, old)
    assert info(new, "sync_partial_ok") == "1"
    assert picture(old) == picture(new)


@pytest.mark.parametrize("kind", ["redis7", "valkey"])
def test_a_chain_stands_in_one_history(started, kind):
    first, middle, last = started("rillet"), started("rillet"), started(kind)
    fill(first)
    with Proxy(first.port) as upper, Proxy(middle.port) as lower:
        follow(middle, upper.port)
        call(first, "XADD", "s", "100-0", "a", "b")
        follow(last, lower.port)
        with first.wire() as wire:
            for number in range(200, 230):
                wire.call("SELECT", number % 2)
                wire.call("XADD", "s", f"{number}-0", "a", "b")
                if number % 10 == 0:
                    (upper if number % 20 else lower).cut()
        in_step(first, middle, last)
        assert len({info(server, "master_replid") for server in (first, middle, last)}) == 1
        # A PING may come between two questions.
        until(lambda: len({info(server, "master_repl_offset") for server in (first, middle, last)}) == 1)
        assert picture(first) == picture(middle) == picture(last)
        assert info(first, "sync_full") == info(middle, "sync_full") == "1"
        # The middle one is promoted; the last goes on with it.
        call(middle, "REPLICAOF", "NO", "ONE")
        call(middle, "XADD", "s", "300-0", "a", "b")
        until_up(last)
        in_step(middle, last)
        assert info(middle, "sync_full") == "1"
        assert picture(middle) == picture(last)
        # And the first one becomes the last one's peer.
        follow(first, middle.port)
        in_step(middle, first, last)
        assert picture(first) == picture(middle)


def test_blocked_clients_are_sent_away_from_a_new_replica(started):
    master, server = started("rillet"), started("rillet")
    with server.wire() as reader, server.wire() as group, server.wire() as waiting:
        call(server, "XGROUP", "CREATE", "s", "g", "$", "MKSTREAM")
        reader.send("XREAD", "BLOCK", 0, "STREAMS", "s", "$")
        group.send("XREADGROUP", "GROUP", "g", "a", "BLOCK", 0, "STREAMS", "s", ">")
        waiting.send("WAIT", 1, 0)
        until(lambda: info(server, "blocked_clients") == "3")
        follow(server, master.port)
        for wire in (reader, group, waiting):
            assert wire.read().value == UNBLOCKED
            assert wire.is_closed_by_server()


def test_readers_of_a_replica_are_served_by_the_masters_writes(started):
    master, replica = started("redis7"), started("rillet")
    follow(replica, master.port)
    with replica.wire() as wire:
        wire.send("XREAD", "BLOCK", 0, "STREAMS", "s", "$")
        until(lambda: info(replica, "blocked_clients") == "1")
        call(master, "XADD", "s", "1-0", "a", "b")
        assert wire.read().plain() == [[b"s", [[b"1-0", [b"a", b"b"]]]]]
    with replica.wire() as wire:
        wire.call("SUBSCRIBE", "news")
        call(master, "PUBLISH", "news", "hello")
        assert wire.read().plain() == [b"message", b"news", b"hello"]


def test_a_replica_refuses_writes_and_wait_unless_it_may_take_them(started):
    master, replica = started("rillet"), started("rillet")
    follow(replica, master.port)
    readonly = b"READONLY You can't write against a read only replica."
    assert call(replica, "SET", "k", "v") == readonly
    assert call(replica, "XADD", "s", "*", "a", "b") == readonly
    with replica.wire() as wire:
        wire.call("MULTI")
        assert wire.call("SET", "k", "v").plain() == readonly
        assert wire.call("EXEC").plain().startswith(b"EXECABORT")
    assert call(replica, "WAIT", 0, 0).startswith(b"ERR WAIT cannot be used with replica instances.")
    assert call(replica, "WAITAOF", 0, 0, 0).startswith(b"ERR WAITAOF cannot be used with replica instances.")
    assert call(replica, "REPLICAOF", "127.0.0.1", master.port) == b"OK Already connected to specified master"
    assert call(replica, "REPLICAOF", "127.0.0.1", "x") == b"ERR Invalid master port"
    assert call(replica, "CONFIG", "GET", "replicaof")[1] == f"127.0.0.1 {master.port}".encode()
    hello = call(replica, "HELLO")
    assert hello[hello.index(b"role") + 1] == b"replica"
    assert " flags=M " in call(replica, "CLIENT", "LIST", "TYPE", "master").decode()
    assert call(replica, "CLIENT", "KILL", "TYPE", "master") == 1
    until(lambda: info(master, "sync_partial_ok") == "1")
    call(replica, "CONFIG", "SET", "replica-read-only", "no")
    assert call(replica, "SET", "k", "v") == b"OK"
    assert call(master, "GET", "k") is None
    call(replica, "REPLICAOF", "NO", "ONE")
    assert call(replica, "SET", "k", "w") == b"OK"
    assert call(replica, "ROLE")[0] == b"master"


@pytest.mark.parametrize("kind", ["redis7", "valkey"])
def test_a_master_with_a_password_is_followed(started, kind):
    master = started(kind)
    replica = started("rillet", "--masterauth", "secret")
    call(master, "SET", "k", "v")
    with master.wire() as wire:
        wire.call("CONFIG", "SET", "requirepass", "secret")
        follow(replica, master.port)
    assert call(replica, "GET", "k") == b"v"


@REPLICAS
def test_wait_counts_real_replicas(started, kind):
    master = started("rillet", "--appendonly", "yes")
    replicas = [started(kind, "--appendonly", "yes", "--appendfsync", "everysec") for _ in range(2)]
    for replica in replicas:
        follow(replica, master.port)
    with master.wire() as wire:
        for number in range(5):
            wire.call("SET", "k", number)
            assert wire.call("WAIT", 2, 60_000).plain() == 2
            assert [call(replica, "GET", "k") for replica in replicas] == [b"%d" % number] * 2
        if kind != "redis7":  # which does not report its file
            wire.call("SET", "k", "on disk")
            until(lambda: info(replicas[0], "aof_rewrite_in_progress") == "0")
            assert wire.call("WAITAOF", 1, 2, 60_000).plain() == [1, 2]


@REPLICAS
def test_a_replica_that_is_killed_comes_again(started, kind):
    master = started("rillet", "--min-replicas-to-write", 1)
    replica = started(kind)
    follow(replica, master.port)
    until(lambda: call(master, "SET", "k", "v") == b"OK")
    os.kill(replica.pid, signal.SIGKILL)
    until(lambda: call(master, "SET", "k", "v").startswith(b"NOREPLICAS"))
    replica.restart()
    call(replica, "CONFIG", "SET", "repl-timeout", 10)
    follow(replica, master.port)
    until(lambda: call(master, "SET", "k", "again") == b"OK")
    in_step(master, replica)
    assert picture(replica) == picture(master)


@REPLICAS
def test_a_master_that_is_killed_is_found_again(started, kind):
    master = started("rillet", "--appendonly", "yes", "--appendfsync", "always")
    replica = started(kind)
    with Proxy(master.port) as proxy:
        follow(replica, proxy.port)
        acknowledged = []

        def write() -> None:
            with contextlib.suppress(ConnectionClosedError, OSError), master.wire() as wire:
                while True:
                    acknowledged.append(wire.call("XADD", "s", "*", "a", "b").value)

        writing = aside(write)
        until(lambda: len(acknowledged) > 50)
        os.kill(master.pid, signal.SIGKILL)
        writing.result(60)
        master.restart()
        proxy.target = master.port
        until_up(replica)
        in_step(master, replica)
        there = [entry[0] for entry in call(replica, "XRANGE", "s", "-", "+")]
        assert set(acknowledged) <= set(there)
        assert picture(replica) == picture(master)


def test_two_servers_that_follow_each_other_do_no_harm(started):
    first, second = started("rillet"), started("rillet")
    call(first, "SET", "k", "v")
    call(first, "REPLICAOF", "127.0.0.1", second.port)
    call(second, "REPLICAOF", "127.0.0.1", first.port)
    pause(0.5)
    assert call(first, "GET", "k") == b"v"
    call(first, "REPLICAOF", "NO", "ONE")
    until_up(second)
    assert call(second, "GET", "k") == b"v"


def test_nothing_is_asked_of_a_server_that_is_stopped_while_it_follows(started):
    master, replica = started("rillet"), started("rillet")
    follow(replica, master.port)
    with master.wire() as wire:
        wire.send_raw(encode_command("SET", "last", "1") + encode_command("SHUTDOWN", "NOSAVE"))
        assert wire.read().value == b"OK"
        assert wire.is_closed_by_server()
    until(lambda: call(replica, "GET", "last") == b"1")
    replica.stop()
    assert "Internal error" not in replica.log


@REPLICAS
def test_an_old_master_that_went_on_alone_gets_a_snapshot(started, kind):
    old = started(kind)
    new = started("rillet")
    fill(old)
    follow(new, old.port)
    call(old, "XADD", "s", "100-0", "a", "b")
    in_step(old, new)
    call(new, "REPLICAOF", "NO", "ONE")
    for number in range(200, 210):
        call(old, "XADD", "s", f"{number}-0", "old", "branch")
        call(new, "XADD", "s", f"{number}-0", "new", "branch")
    follow(old, new.port)
    in_step(new, old)
    assert info(new, "sync_full") == "1"
    assert info(new, "sync_partial_ok") == "0"
    assert picture(old) == picture(new)


def test_the_master_is_no_client_of_any_user(started):
    master, replica = started("rillet"), started("rillet")
    follow(replica, master.port)
    with replica.wire() as wire, replica.wire() as other:
        wire.do("ACL SETUSER admin on nopass ~* &* +@all; AUTH admin any")
        other.call("PING")
        listed = wire.call("CLIENT", "LIST", "TYPE", "master").value
        assert b" user=(superuser) " in listed
        assert wire.call("CLIENT", "KILL", "USER", "default").plain() >= 1
        assert wire.call("CLIENT", "LIST", "TYPE", "master").value.split()[0] == listed.split()[0]


@pytest.mark.parametrize("kind", ["rillet", "redis810"])
def test_a_writable_replica_expires_what_its_own_clients_gave_a_time(started, kind):
    master = started("rillet", "--enable-debug-command", "yes")
    replica = started(kind, "--replica-read-only", "no")
    call(master, "DEBUG", "SET-ACTIVE-EXPIRE", "0")
    follow(replica, master.port)
    call(master, "SET", "ours", "x", "PX", "200")
    call(master, "SET", "plain", "x")
    in_step(master, replica)
    with replica.wire() as wire:
        wire.do("SET long x EX 1000; SET kept x PX 1; PERSIST kept; SET kept x")
        for number in range(100):
            wire.call("SET", f"k{number}", "x", "PX", "1")
        wire.do("PEXPIRE plain 1; SELECT 1; SETEX there 1 x")
    # The master's own key stays until the master deletes it.
    until(lambda: info(replica, "db0").startswith("keys=3,") and not info(replica, "db1"))
    until(lambda: info(replica, "slave_expires_tracked_keys") == "1")
    # What the master sets again, and with another time, is the master's.
    call(replica, "SET", "m", "x", "PX", "50")
    call(master, "SET", "m", "y", "EX", "1000")
    in_step(master, replica)
    pause(0.1)
    assert call(replica, "GET", "m") == b"y"


@pytest.mark.parametrize("kind", ["rillet", "redis810"])
def test_a_writable_replica_minds_the_keys_that_a_command_gave_a_time_not_those_that_brought_one(
    started, kind
):
    master = started("redis810", "--enable-debug-command", "yes")
    newest = ("--compat-version", "8.10") if kind == "rillet" else ()
    replica = started(kind, "--replica-read-only", "no", *newest)
    call(master, "DEBUG", "SET-ACTIVE-EXPIRE", "0")
    follow(replica, master.port)

    def minded(number: int) -> bool:
        return info(replica, "slave_expires_tracked_keys") == str(number)

    with replica.wire() as wire:
        wire.call("SET", "string", "v")
        dump = wire.call("DUMP", "string").value
        for given in (
            ["SET", "k", "v", "EX", "1000"],
            ["SETEX", "k", "1000", "v"],
            ["EXPIRE", "string", "1000"],
            ["GETEX", "string", "EX", "1000"],
            ["MSETEX", "1", "k", "v", "EX", "1000"],
            ["INCREX", "number", "EX", "1000"],
        ):
            wire.call(*given)
            assert minded(1), given
            wire.call("FLUSHALL")
            assert minded(0)
            wire.call("SET", "string", "v")
        for brought in (
            ["RENAME", "a", "k"],
            ["RENAMENX", "a", "k"],
            ["MOVE", "a", "1"],
            ["SWAPDB", "0", "1"],
            ["PERSIST", "a"],
            ["SET", "a", "v"],
            ["DEL", "a"],
        ):
            wire.call("SET", "a", "v", "EX", "1000")
            assert minded(1)
            wire.call(*brought)
            until(lambda: minded(0))
            wire.call("FLUSHALL")
        wire.do("SET a v EX 1000; COPY a k")
        wire.call("RESTORE", "b", 1000_000, dump)
        wire.call("DEL", "a")
        until(lambda: minded(0))
        assert wire.call("PTTL", "k").plain() > 0 < wire.call("PTTL", "b").plain()
        wire.call("FLUSHALL")
        # It is minded by its name and its database: even if the master gives it a time later.
        wire.call("SET", "k", "v", "EX", "1000")
        wire.call("SELECT", 1)
        wire.call("SET", "k", "v", "EX", "1000")
        assert minded(1)
        call(master, "SET", "k", "v", "PX", "1")
        until(lambda: not info(replica, "db0"))
        wire.call("SELECT", 0)
        call(master, "SET", "of the master", "v", "PX", "1")
        in_step(master, replica)
        assert minded(1)
        assert wire.call("DBSIZE").plain() == 1
