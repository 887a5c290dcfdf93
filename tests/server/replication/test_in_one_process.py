"""Servers in threads of one process: no fork, no signals, the same behaviour."""

import errno
import os
import socket
from contextlib import ExitStack, contextmanager

from support.deployments.replication import FakeReplica
from support.live import DEADLINE, LiveServer, eventually

from rillet.server.persistence.background_writer import ThreadedWriter


@contextmanager
def a_pair():
    """A master, its replica, and a connection to each."""
    with (
        LiveServer(repl_diskless_sync_delay=0) as master,
        LiveServer() as replica,
        master.wire() as there,
        replica.wire() as here,
    ):
        here.call("REPLICAOF", "127.0.0.1", master.port)
        eventually(lambda: replica.info("master_link_status") == "up")
        yield master, replica, there, here


def test_what_a_replica_got_from_its_master_stays_counted_when_the_link_ends():
    with a_pair() as (_, replica, there, here):
        for _ in range(50):
            there.call("SET", "k", "v" * 1000)
        assert there.call("WAIT", 1, 60_000).plain() == 1
        for end in (("CLIENT", "KILL", "TYPE", "master"), ("REPLICAOF", "NO", "ONE")):
            here.call(*end)
            assert int(replica.info("total_commands_processed")) >= 50
            assert int(replica.info("total_net_input_bytes")) > 50_000
            eventually(lambda last=end[0]: last == "REPLICAOF" or replica.info("master_link_status") == "up")


def test_a_virtual_clock_moves_the_master_and_the_replica_waits_for_its_word():
    with a_pair() as (master, replica, there, here):
        there.call("SET", "k", "v", "EX", 3600)
        assert there.call("WAIT", 1, 60_000).plain() == 1
        replica.clock.advance(hours=2)
        assert here.call("GET", "k").is_null
        assert here.call("DBSIZE").plain() == 1
        replica.clock.advance(hours=-2)
        assert here.call("GET", "k").value == b"v"
        master.clock.advance(hours=2)
        eventually(lambda: here.call("DBSIZE").plain() == 0)


@contextmanager
def a_long_snapshot():
    """A master that begins to send 20 MB to a replica."""
    with LiveServer(repl_diskless_sync_delay=0) as master, master.wire() as there:
        for number in range(20):
            there.call("SET", f"k{number}", "x" * 1_000_000)
        replica = FakeReplica(master, "eof")
        replica.send("PSYNC", "?", "-1")
        assert replica.line().startswith(b"+FULLRESYNC")
        yield master, there, replica


def test_a_server_ends_in_the_middle_of_a_snapshot():
    with a_long_snapshot() as (master, _, replica):
        assert replica.line().startswith(b"$EOF")
        folder = master.folder
        assert list(folder.glob("temp-repl-*")) != []
        # It does not read on: the writer waits for it, and the server must end nevertheless.
        master.stop()
        replica.close()
    assert list(folder.glob("temp-repl-*")) == []


def test_clients_that_come_when_a_snapshot_was_given_up_are_served(monkeypatch):
    """One of them gets the number that the snapshot's pipe had in the system."""
    monkeypatch.setattr(ThreadedWriter, "start", lambda *_: None)
    monkeypatch.setattr(ThreadedWriter, "stop", lambda _: None)
    with LiveServer(repl_diskless_sync_delay=0) as master, master.wire() as wire, ExitStack() as stack:
        # Made before, or they would get that number themselves.
        clients = [stack.enter_context(socket.socket()) for _ in range(5)]
        with FakeReplica(master, "eof", "psync2") as replica:
            replica.send("PSYNC", "?", "-1")
            assert replica.line().startswith(b"+FULLRESYNC ")
            transfer = master.inside.replication.replicas.transfer
            eventually(lambda: transfer._task is not None and transfer._task.get_coro().cr_await is not None)
            assert wire.call("DEBUG", "RESET").value == b"OK"
            for client in clients:
                client.settimeout(DEADLINE)
                client.connect(("127.0.0.1", master.port))
                client.sendall(b"PING\r\n")
                assert client.recv(100) == b"+PONG\r\n"


def test_a_replica_that_leaves_in_the_middle_of_a_snapshot_ends_it():
    with a_long_snapshot() as (master, there, replica):
        replica.close()
        eventually(lambda: not list(master.folder.glob("temp-repl-*")))
        assert there.call("PING").value == b"PONG"
        assert master.info("connected_slaves") == "0"


def test_a_folder_that_takes_no_file_does_not_keep_a_replica_away(monkeypatch):
    refused = []
    make = os.mkfifo

    def mkfifo(path, mode):
        if path.parent == master.folder:
            refused.append(path)
            raise OSError(errno.EROFS, "Read-only file system")
        make(path, mode)

    monkeypatch.setattr(os, "mkfifo", mkfifo)
    with LiveServer(repl_diskless_sync_delay=0) as master, LiveServer() as replica, replica.wire() as here:
        with master.wire() as there:
            there.call("SET", "k", "v")
        here.call("REPLICAOF", "127.0.0.1", master.port)
        eventually(lambda: here.call("GET", "k").plain() == b"v")
    assert len(refused) == 1


def test_a_script_of_transactions_reaches_a_replica_whole():
    """A reader of the replica never sees one key of a transaction without the other."""
    with a_pair() as (_, _, there, here):
        for number in range(300):
            for words in (("MULTI",), ("SET", "a", number), ("SET", "b", number), ("EXEC",)):
                there.send(*words)
            a, b = here.call("MGET", "a", "b").plain()
            assert a == b
        for _ in range(1200):
            there.read()
