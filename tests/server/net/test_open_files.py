"""maxclients under a low limit of open files."""

import contextlib
import resource
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from support.servers import start_server
from support.until import until
from support.wire import ConnectionClosedError

from rillet.server.config.config import Config
from rillet.server.net.open_files import RESERVED, fit_clients


class Lines(list):
    def notice(self, text):
        self.append(text)

    warning = notice


@pytest.fixture
def limit(monkeypatch):
    """`limit(soft, hard)`: what the system says; setting more than the hard limit is refused."""
    state = {}

    def setrlimit(_which, wanted):
        if wanted[1] > state["now"][1]:
            raise ValueError("not allowed to raise maximum limit")
        state["now"] = wanted

    monkeypatch.setattr(resource, "getrlimit", lambda _which: state["now"])
    monkeypatch.setattr(resource, "setrlimit", setrlimit)
    return lambda soft, hard: state.update(now=(soft, hard))


def test_a_limit_that_is_high_enough_is_left_alone(limit):
    limit(20_000, 20_000)
    config, log = Config(), Lines()
    assert fit_clients(config, log)
    assert (config.maxclients, log) == (10_000, [])


def test_the_soft_limit_is_raised_as_far_as_needed(limit):
    limit(1024, 1 << 20)
    config, log = Config(), Lines()
    assert fit_clients(config, log)
    assert config.maxclients == 10_000
    assert log == ["Increased maximum number of open files to 10032 (it was originally set to 1024)."]
    assert resource.getrlimit(0) == (10_032, 1 << 20)


@pytest.mark.parametrize("soft", [40, 64])
def test_maxclients_is_lowered_to_what_the_hard_limit_allows(limit, soft):
    limit(soft, 64)
    config, log = Config(), Lines()
    assert fit_clients(config, log)
    assert config.maxclients == 64 - RESERVED
    assert log == [
        "You requested maxclients of 10000 requiring at least 10032 max file descriptors.",
        "Server can't set maximum open files to 10032 because of OS error: Operation not permitted.",
        (
            "Current maximum open files is 64. maxclients has been reduced to 32 to compensate for low ulimit. If you need "
            "higher maxclients increase 'ulimit -n'."
        ),
    ]


def test_without_room_for_one_client_the_server_does_not_start():
    words = [sys.executable, "-m", "rillet", "--port", "0", "--bind", "127.0.0.1", "--save", ""]
    done = subprocess.run(
        ["sh", "-c", 'ulimit -n 32; exec "$@"', "sh", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert "Your current 'ulimit -n' of 32 is not enough for the server to start." in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def answers(server) -> bool:
    with contextlib.suppress(OSError, ConnectionClosedError), server.wire() as wire:
        return wire.call("PING").value == b"PONG"
    return False


@pytest.mark.parametrize("free", [0, 2])
@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_a_server_without_free_files_says_so_once_and_serves_on(loop, free, monkeypatch, tmp_path):
    if loop == "asyncio":
        tmp_path.joinpath("uvloop.py").write_text("raise ImportError")
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with start_server("rillet") as server, server.wire() as early:
        assert early.call("PING").value == b"PONG"
        limits = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
        highest = max(int(file.name) for file in Path(f"/proc/{server.pid}/fd").iterdir())
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (highest + 1 + free, limits[1]))
        others = [socket.create_connection(("127.0.0.1", server.port), 20) for _ in range(10)]
        until(lambda: "# Accepting client connection: accept: Too many open files\n" in server.log)
        assert early.call("PING").value == b"PONG"
        for other in others:
            other.close()
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, limits)
        until(lambda: answers(server))
        assert server.log.count("Accepting client connection") == 1
        assert "Traceback" not in server.log
        assert "Internal error" not in server.log
