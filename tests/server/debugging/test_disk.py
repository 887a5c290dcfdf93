"""Faults of the disk, and what the server does on such a disk."""

import pytest
from support.live import LiveServer, eventually
from support.wire import ConnectionClosedError

NO_SPACE = b"MISCONF Errors writing to the AOF file: No space left on device"


@pytest.fixture
def server():
    with LiveServer(appendonly=True) as server:
        yield server


def test_a_full_disk_refuses_writes_until_there_is_space(server):
    with server.wire() as wire:
        with server.fault(disk="append", expect_hits=True) as fault:
            assert wire.call("SET", "a", 1).plain() == b"OK"  # in memory; it will be written
            eventually(lambda: wire.call("SET", "a", 2).value == NO_SPACE)
            assert fault.hits[0].command == "AOF-WRITE"
            assert wire.call("GET", "a").plain() == b"1"
        eventually(lambda: wire.call("SET", "a", 3).plain() == b"OK")
        files = server.inside.persistence.files
        assert files.write is type(files)().write
    assert [words[-1] for words in server.aof() if words[0] == b"SET"] == [b"1", b"3"]


def test_a_disk_that_is_full_once_heals_by_itself(server):
    with server.wire() as wire, server.fault(disk="append", nth=1) as fault:
        wire.call("SET", "a", 1)
        eventually(lambda: fault.count == 1)
        eventually(lambda: [b"SET", b"a", b"1"] in server.aof())
        assert server.inside.disk_error is None


def test_a_failing_fsync_refuses_writes(server):
    with server.wire() as wire:
        with server.fault(disk="fsync") as fault:
            wire.call("SET", "a", 1)
            eventually(lambda: wire.call("SET", "a", 2).kind == "-")
            assert (
                wire.call("SET", "a", 2).value
                == b"MISCONF Errors writing to the AOF file: Input/output error"
            )
            assert fault.hits[0].command == "AOF-FSYNC"
        eventually(lambda: wire.call("SET", "a", 3).plain() == b"OK")


def test_under_always_a_slow_fsync_holds_replies_and_a_failing_one_ends_the_server():
    with LiveServer(appendonly=True, appendfsync="always") as server, server.wire() as wire:
        with server.fault(disk="fsync", delay=0.02, first=1) as fault:
            assert wire.call("SET", "a", 1).plain() == b"OK"
            assert fault.count == 1
        fault = server.fault(disk="fsync").start()
        with pytest.raises((ConnectionClosedError, ConnectionError)):
            wire.call("SET", "a", 2)
        eventually(lambda: not server._thread.is_alive())
        server.stop()


@pytest.mark.parametrize("process", [False, True])
def test_a_rewrite_fails_and_the_data_is_safe(process):
    with LiveServer(appendonly=True, process=process) as server, server.wire() as wire:
        wire.call("SET", "a", 1)
        with server.fault(disk="rewrite", nth=1, expect_hits=True) as fault:
            wire.call("BGREWRITEAOF")
            eventually(lambda: server.info("aof_last_bgrewrite_status") == "err")
            assert fault.hits[0].command == "AOF-REWRITE"
            eventually(lambda: server.info("aof_rewrite_in_progress") == "0")
            wire.call("BGREWRITEAOF")
            eventually(lambda: server.info("aof_last_bgrewrite_status") == "ok")
        wire.call("INCR", "a")
        server.restart()
        with server.wire() as again:
            assert again.call("GET", "a").plain() == b"2"


def test_other_files_are_not_hit(server):
    with server.wire() as wire, server.fault(disk="append") as fault:
        assert wire.call("SAVE").plain() == b"OK"
        assert fault.fitted == 0
