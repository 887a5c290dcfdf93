"""A disk that is full, broken or read-only: writes are refused, reads go on, and room heals it without a restart."""

import contextlib
import errno
import os
import resource
import subprocess
import time

import pytest
from support.limited import limited_process
from support.live import LiveServer, eventually
from support.servers import start_server
from support.wire import ConnectionClosedError, Wire

MISCONF = "MISCONF Errors writing to the AOF file: {}"


@pytest.fixture(params=[errno.ENOSPC, errno.EIO, errno.EROFS])
def number(request) -> int:
    return request.param


@pytest.mark.parametrize("operation", ["write", "fdatasync"])
def test_writes_are_refused_in_redis_words_until_the_disk_works_again(number, operation):
    with LiveServer(appendonly=True) as server, server.wire() as wire:
        mend = server.break_disk(operation, number)
        # The command that met the trouble was answered: it is in memory, and will be written.
        assert wire.call("XADD", "s", "1-1", "a", "b").value == b"1-1"
        refusal = MISCONF.format(os.strerror(number)).encode()
        eventually(lambda: wire.call("XADD", "s", "2-1", "a", "b").value == refusal)
        assert wire.call("PING").value == refusal
        assert wire.call("XLEN", "s").plain() in {1, 2}
        assert wire.call("XRANGE", "s", "1", "1").plain() == [[b"1-1", [b"a", b"b"]]]
        assert server.info("aof_last_write_status") == "err"
        mend()
        eventually(lambda: wire.call("XADD", "s", "*", "a", "b").kind == "$")
        assert server.info("aof_last_write_status") == "ok"
        digest = wire.call("DEBUG", "DIGEST").value
        server.restart()
        with server.wire() as again:
            assert again.call("DEBUG", "DIGEST").value == digest


@pytest.mark.parametrize("operation", ["write", "fdatasync"])
def test_recovery_needs_no_client(number, operation):
    with LiveServer(appendonly=True) as server, server.wire() as wire:
        mend = server.break_disk(operation, number)
        wire.call("SET", "k", "v")
        eventually(lambda: server.inside.disk_error is not None)
        mend()
        eventually(lambda: server.inside.disk_error is None)
        assert server.aof()[-1] == [b"SET", b"k", b"v"]


def test_a_transaction_with_a_write_is_refused_whole(number):
    with LiveServer(appendonly=True) as server, server.wire() as wire:
        wire.do("MULTI; SET k v")
        server.break_disk("write", number)
        with server.wire() as other:
            other.call("SET", "x", "y")
            refusal = MISCONF.format(os.strerror(number)).encode()
            eventually(lambda: other.call("PING").value == refusal)
            other.call("MULTI")
            assert other.call("SET", "k", "x").value == refusal
            assert other.call("EXEC").value == b"EXECABORT Transaction discarded because of previous errors."
        assert wire.call("EXEC").value == b"EXECABORT Transaction discarded because of: " + refusal
        assert wire.call("GET", "k").is_null


def limit_files(size: int):
    """What a child does first: it can write no file beyond so many bytes (EFBIG)."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def test_a_real_process_refuses_writes_until_the_disk_has_room(tmp_path):
    with limited_process(tmp_path, limit=limit_files(20_000)) as (process, port):
        with Wire(port) as wire:
            written = []
            for number in range(1, 400):
                answer = wire.call("XADD", "s", f"{number}-1", "f", "x" * 100)
                if answer.kind == "-":
                    break
                written.append(answer.value)
            assert answer.value == MISCONF.format(os.strerror(errno.EFBIG)).encode()
            assert 100 < len(written) < 200
            assert wire.call("XLEN", "s").plain() == len(written)
            # No torn record: what reached the file ends with a whole one.
            size = (tmp_path / "appendonlydir" / "appendonly.aof.1.incr.aof").stat().st_size
            assert size <= 20_000
            resource.prlimit(
                process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            )
            eventually(lambda: wire.call("XADD", "s", "1000-1", "f", "x").kind == "$")
        process.kill()
        process.wait()
        with LiveServer(dir=tmp_path, appendonly=True) as server, server.wire() as wire:
            assert wire.call("XLEN", "s").plain() == len(written) + 1


def test_under_always_a_process_without_room_ends_with_status_1_and_says_why(tmp_path):
    always = ("--appendfsync", "always")
    with limited_process(tmp_path, *always, limit=limit_files(20_000)) as (process, port):
        confirmed = 0
        with Wire(port) as wire, contextlib.suppress(OSError, ConnectionClosedError):
            for number in range(1, 400):
                assert wire.call("XADD", "s", f"{number}-1", "f", "x" * 100).kind == "$"
                confirmed = number
        assert 100 < confirmed < 200
        assert process.wait(30) == 1
        log = (tmp_path / "out").read_text()
        assert "Can't recover from AOF write error when the AOF fsync policy is 'always'" in log
        assert "Exiting" in log
    with LiveServer(dir=tmp_path, appendonly=True) as server, server.wire() as wire:
        assert wire.call("XLEN", "s").plain() == confirmed


def test_a_rewrite_without_room_fails_and_leaves_the_old_files(tmp_path):
    commands = ("--aof-use-rdb-preamble", "no")
    with (
        limited_process(tmp_path, *commands, limit=limit_files(30_000)) as (process, port),
        Wire(port) as wire,
    ):
        for number in range(1, 400):
            wire.call("SET", f"k{number}", "x" * 30)
        wire.call("CONFIG", "SET", "appendfsync", "no")
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (10_000, resource.RLIM_INFINITY))
        wire.call("BGREWRITEAOF")
        eventually(lambda: b"aof_last_bgrewrite_status:err" in wire.call("INFO", "persistence").value)
        assert wire.call("SET", "k1", "after").value == b"OK"
    with LiveServer(dir=tmp_path, appendonly=True) as server, server.wire() as wire:
        assert wire.call("DBSIZE").plain() == 399
        assert wire.call("GET", "k1").value == b"after"


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 1 MB; None where mounting is not allowed."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True, check=False
    )
    yield folder if mounted.returncode == 0 else None
    if mounted.returncode == 0:
        subprocess.run(["umount", "-l", folder], check=True)


def test_a_disk_of_one_megabyte_fills_up_as_under_redis(small_disk):
    if small_disk is None:
        pytest.skip("NO FULL DISK WAS TRIED, only file limits: no tmpfs can be mounted here (not root?)")
    answers = {}
    for kind in ("redis7", "rillet"):
        (folder := small_disk / kind).mkdir()
        with start_server(
            kind, "--appendonly", "yes", "--appendfsync", "no", "--logfile", "", folder=folder
        ) as server:
            with server.wire() as wire:
                written = 0
                while (answer := wire.call("XADD", "s", "*", "f", "x" * 1000)).kind == "$":
                    written += 1
                    assert written < 5000
                ballast = wire.call("XLEN", "s").plain()
                answers[kind] = (answer.value, ballast == written, wire.call("PING").value)
                (folder / "server.log").unlink()
                for file in small_disk.glob("redis7/appendonlydir/*.incr.aof"):
                    if kind == "rillet":
                        file.unlink()
                if kind == "rillet":  # room again
                    until = time.monotonic() + 20
                    while wire.call("XADD", "s", "*", "f", "x").kind != "$":
                        assert time.monotonic() < until
            server.stop()
            if kind == "redis7":
                (incr,) = folder.glob("appendonlydir/*.incr.aof")
                os.truncate(incr, incr.stat().st_size // 2)
    assert answers["rillet"] == answers["redis7"]
