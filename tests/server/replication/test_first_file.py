"""WAITAOF while the first append-only file is written, beside Redis: nothing of it is on the disk until it is whole."""

import os
import signal
from pathlib import Path

import pytest
from support.deployments.replication import call, follow, info
from support.until import until

KINDS = pytest.mark.parametrize("kind", ["rillet", "redis810"])


def begin_first_file(server) -> None:
    call(server, "CONFIG", "SET", "rdb-key-save-delay", 600_000_000)
    call(server, "CONFIG", "SET", "appendonly", "yes")
    until(lambda: info(server, "aof_rewrite_in_progress") == "1")


def let_it_be_written(server) -> None:
    """By another child, without a delay."""
    call(server, "CONFIG", "SET", "rdb-key-save-delay", 0)
    for child in Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split():
        os.kill(int(child), signal.SIGKILL)


@KINDS
@pytest.mark.parametrize("policy", ["always", "everysec"])
def test_waitaof_waits_until_the_first_file_is_whole(started, kind, policy):
    server = started(kind, "--appendfsync", policy)
    call(server, "SET", "before", "v")
    begin_first_file(server)
    with server.wire() as wire:
        assert wire.call("SET", "k", "v").plain() == b"OK"
        assert wire.call("WAITAOF", 1, 0, 1).plain() == [0, 0]
        assert wire.call("WAITAOF", 0, 0, 0).plain() == [0, 0]
        wire.send("WAITAOF", 1, 0, 0)
        let_it_be_written(server)
        assert wire.read().plain() == [1, 0]
    server._process.kill()
    server._process.wait()
    server.flags = (*server.flags, "--appendonly", "yes")
    server.start()
    assert call(server, "MGET", "before", "k") == [b"v", b"v"]


@KINDS
def test_a_replica_acknowledges_its_first_file_once_it_is_whole(started, kind):
    master, replica = started("rillet"), started(kind, "--appendfsync", "always")
    call(master, "SET", "before", "v")
    follow(replica, master.port)
    begin_first_file(replica)
    with master.wire() as wire:
        assert wire.call("SET", "k", "v").plain() == b"OK"
        assert wire.call("WAIT", 1, 0).plain() == 1
        # It acknowledges each second, and where it is asked to.
        assert wire.call("WAITAOF", 0, 1, 1500).plain() == [0, 0]
        wire.send("WAITAOF", 0, 1, 0)
        let_it_be_written(replica)
        assert wire.read().plain() == [0, 1]
