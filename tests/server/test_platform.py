"""A server as Windows lets it be: no uvloop, no fork, no unix sockets, other signals."""

from __future__ import annotations

import re
import signal
import subprocess
import sys

import pytest
from support.live import DEADLINE, eventually
from support.wire import Wire

PROGRAM = """
import sys
from rillet.server import platform
platform.HERE = platform.WINDOWS
import asyncio.unix_events, os
def refuse(*_):
    raise NotImplementedError
os.fork = refuse
asyncio.unix_events._UnixSelectorEventLoop.add_signal_handler = refuse
asyncio.unix_events._UnixSelectorEventLoop.create_unix_server = refuse
from rillet.__main__ import main
sys.exit(main())
"""


class Windows:
    """A process of that system, as far as another one can be it."""

    def __init__(self, folder, *flags: str) -> None:
        self.log = folder / "log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, "--port", "0", *flags], cwd=folder, stdout=log, stderr=log
            )

    def ready(self) -> Windows:
        eventually(lambda: "Ready to accept" in self.log.read_text() or self.process.poll() is not None)
        assert self.process.poll() is None, self.log.read_text()
        return self

    def wire(self) -> Wire:
        return Wire(int(re.search(r"port=(\d+)", self.log.read_text())[1]), timeout=DEADLINE)


@pytest.fixture
def windows(tmp_path):
    started = []

    def start(*flags):
        started.append(Windows(tmp_path, *flags))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.process.kill()
        each.process.wait()


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
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait(DEADLINE) == 0
    assert "bye bye" in server.log.read_text()
    assert "Traceback" not in server.log.read_text()


def test_a_unix_socket_is_refused_with_the_reason(windows, tmp_path):
    server = windows("--unixsocket", str(tmp_path / "sock"))
    assert server.process.wait(DEADLINE) == 1
    assert "Failed opening Unix socket: this system has none" in server.log.read_text()


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
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(DEADLINE) == 0
