"""A server in a process of its own ends with the process that started it, however that ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.live import eventually
from support.wire import Wire

PARENT = """
import os, sys, time
import rillet.testing

server = rillet.testing.Server(process=True, appendonly=True).start()
folder = server.client().config_get("dir")["dir"]
{more}
print(server.port, server._process.popen.pid, folder, flush=True)
sys.stdin.read()
{end}
"""


def start_parent(more="", end=""):
    """Return a process that holds a server, and the server's port, process ID and folder."""
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT.format(more=more, end=end)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    port, pid, folder = parent.stdout.readline().split()
    return parent, int(port), int(pid), Path(folder)


def is_alive(pid):
    """Whether a process runs; one that has ended may be left as a zombie where no init collects it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at /proc")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_server_ends_when_its_parent_is_killed(number):
    parent, _, pid, folder = start_parent()
    with parent:
        assert is_alive(pid)
        os.kill(parent.pid, number)
    eventually(lambda: not is_alive(pid))
    assert not folder.exists()


@pytest.mark.parametrize("end", ["", "os._exit(0)", "raise SystemExit(1)", "1 / 0"])
def test_a_server_ends_when_its_parent_ends_without_stopping_it(end):
    parent, _, pid, folder = start_parent(end=end)
    parent.communicate("")
    eventually(lambda: not is_alive(pid))
    assert not folder.exists()


def test_a_server_ends_although_a_child_of_its_parent_lives_on():
    fork = "if not (child := os.fork()):\n    time.sleep(600)\nfolder = f'{folder}:{child}'"
    parent, _, pid, folder = start_parent(fork)
    child = int(folder.name.partition(":")[2])
    try:
        with parent:
            parent.kill()
            parent.wait()
            eventually(lambda: not is_alive(pid))
            assert is_alive(child)
            os.kill(child, signal.SIGKILL)  # it holds the pipe that is read to its end here
    finally:
        eventually(lambda: not is_alive(child))


def test_a_server_in_a_script_without_end_ends_with_its_parent():
    parent, port, pid, _ = start_parent()
    with parent, Wire(port, timeout=60) as wire, Wire(port, timeout=60) as other:
        wire.call("CONFIG", "SET", "busy-reply-threshold", "1")
        wire.send("EVAL", "redis.call('set', 'k', 'v') while true do end", "0")
        while not other.call("PING").value.startswith(b"BUSY"):
            time.sleep(0.01)
        parent.kill()
    eventually(lambda: not is_alive(pid))


def test_a_server_outlives_the_thread_that_started_it():
    more = (
        "import threading\nother = rillet.testing.Server(process=True)\n"
        "thread = threading.Thread(target=other.start); thread.start(); thread.join()\n"
        "assert other.client().ping()"
    )
    parent, _, pid, _ = start_parent(more, end="assert other.client().ping()")
    parent.communicate("")
    assert parent.returncode == 0
    eventually(lambda: not is_alive(pid))
