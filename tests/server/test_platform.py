"""A server as Windows lets it be: no uvloop, no fork, no unix sockets, other signals."""

from __future__ import annotations

import re
import signal
from functools import partial
from pathlib import Path

import pytest
from support.live import eventually
from support.servers import start_server

PROGRAM = """
import asyncio.unix_events, contextlib, fcntl, os, sys, types
def refuse(*_):
    raise NotImplementedError
asyncio.unix_events._UnixSelectorEventLoop.add_signal_handler = refuse
asyncio.unix_events._UnixSelectorEventLoop.create_unix_server = refuse
for name in ("fork", "forkpty", "mkfifo", "getppid", "sysconf", "set_blocking", "pidfd_open", "fdatasync"):
    delattr(os, name)
kill, unlink, opened = os.kill, os.unlink, os.open
def no_question(pid, number):
    assert number, "os.kill would end that process"
    kill(pid, number)
def only_closed(path, **options):
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if os.path.samefile(f"/proc/self/fd/{fd}", path):
                raise PermissionError(13, "it is open")
    unlink(path, **options)
def no_folder(path, *more, **options):
    assert not os.path.isdir(path), "a folder cannot be opened"
    return opened(path, *more, **options)
os.kill, os.unlink, os.remove, os.open = no_question, only_closed, only_closed, no_folder
def locking(fd, how, length):
    fcntl.lockf(fd, how, length, os.lseek(fd, 0, os.SEEK_CUR))
sys.modules["msvcrt"] = types.SimpleNamespace(LK_NBLCK=fcntl.LOCK_EX | fcntl.LOCK_NB, LK_UNLCK=fcntl.LOCK_UN, locking=locking)
for name in ("uvloop", "resource", "fcntl", "pwd", "grp", "termios"):
    sys.modules[name] = None
from rillet.storage import system
system.HERE = system.WINDOWS
from rillet.__main__ import main
sys.exit(main())
"""


ROOT = Path(__file__).parents[2]


def test_one_module_asks_which_system_this_is():
    asking = [
        path.relative_to(ROOT).as_posix()
        for room in ("commands", "protocol", "server", "storage")
        for path in (ROOT / room).rglob("*.py")
        if re.search(
            r"sys\.platform|os\.name\b|^import (fcntl|resource|msvcrt)",
            path.read_text(encoding="utf-8"),
            re.MULTILINE,
        )
    ]
    assert asking == ["storage/system.py"]


@pytest.fixture
def windows(launch, tmp_path):
    """`windows(*flags)`: a process of that system, as far as another one can be it."""
    return partial(launch, "--port", "0", folder=tmp_path, program=PROGRAM)


def test_it_serves_on_asyncio_saves_in_a_thread_and_ends_by_ctrl_c(windows, tmp_path):
    server = windows("--appendonly", "yes").ready()
    with server.wire() as wire:
        assert b"multiplexing_api:asyncio" in wire.call("INFO", "server").value
        wire.call("XADD", "s", "1-0", "f", "v")
        assert str(wire.call("BGSAVE")) == "+Background saving started"
        eventually(lambda: b"rdb_bgsave_in_progress:0" in wire.call("INFO", "persistence").value)
        assert (tmp_path / "dump.rdb").exists()
        wire.call("BGREWRITEAOF")
        eventually(lambda: b"aof_rewrite_in_progress:0" in wire.call("INFO", "persistence").value)
        assert b"aof_last_bgrewrite_status:ok" in wire.call("INFO", "persistence").value
    server.popen.send_signal(signal.SIGINT)
    assert server.wait() == 0
    assert "bye bye" in server.output
    assert "Traceback" not in server.output


def test_the_folder_is_locked_and_free_again_after_the_end(windows, tmp_path):
    """An open file cannot be removed there, and a locked byte cannot be read."""
    first = windows("--appendonly", "yes").ready()
    second = windows("--appendonly", "yes")
    assert second.wait() == 1
    assert f"in use by the server with pid {first.popen.pid}" in second.output
    with first.wire() as wire:
        wire.call("SET", "k", "v")
        wire.send("SHUTDOWN")
    assert first.wait() == 0
    assert not (tmp_path / "rillet.lock").exists()
    with windows("--appendonly", "yes").ready().wire() as wire:
        assert wire.call("GET", "k").plain() == b"v"


def test_info_says_what_is_known_there(windows):
    with windows().ready().wire() as wire:
        info = wire.call("INFO", "everything").value
    assert b"used_cpu_user:" in info
    assert b"used_cpu_user_main_thread:" not in info  # as Redis where threads are not measured apart
    assert b"total_system_memory:0\r\n" in info


def test_a_replica_follows_and_files_of_a_killed_server_stay(windows, tmp_path):
    """It cannot ask whether their process has ended: the question would kill one that has not."""
    (tmp_path / "temp-1-0123abcd-7.rdb").touch()
    server = windows("--repl-diskless-sync-delay", "0").ready()
    with server.wire() as wire:
        wire.call("SET", "k", "v")
        with (
            start_server("rillet", "--replicaof", f"127.0.0.1 {server.port}") as replica,
            replica.wire() as theirs,
        ):
            eventually(lambda: theirs.call("GET", "k").plain() == b"v")
    assert (tmp_path / "temp-1-0123abcd-7.rdb").exists()


def test_a_unix_socket_is_refused_with_the_reason(windows, tmp_path):
    server = windows("--unixsocket", str(tmp_path / "sock"))
    assert server.wait() == 1
    assert "Failed opening Unix socket: this system has none" in server.output


def test_script_kill_reaches_an_endless_script(windows):
    """Also from a client that connects while the script runs."""
    server = windows("--busy-reply-threshold", "20").ready()
    with server.wire() as runner, server.wire() as other:
        for wire in (runner, other):
            assert str(wire.call("PING")) == "+PONG"
        runner.send("EVAL", "while true do end", "0")
        eventually(lambda: str(other.call("PING")).startswith("-BUSY"))
        with server.wire() as guest:
            assert str(guest.call("PING")).startswith("-BUSY")
            assert str(guest.call("SCRIPT", "KILL")) == "+OK"
            assert str(runner.read()).startswith("-ERR Script killed by user")
            assert str(guest.call("PING")) == "+PONG"


def test_ctrl_c_ends_an_endless_script_and_the_server(windows):
    server = windows("--busy-reply-threshold", "20").ready()
    with server.wire() as runner, server.wire() as other:
        for wire in (runner, other):
            assert str(wire.call("PING")) == "+PONG"
        runner.send("EVAL", "while true do end", "0")
        eventually(lambda: str(other.call("PING")).startswith("-BUSY"))
        server.popen.send_signal(signal.SIGINT)
        assert server.wait() == 0
