"""Test servers, their folders and the processes around them: forks, killed processes, the end of an interpreter."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.forks import run_python
from support.live import eventually
from support.programs.pytest_run import run_tests

from rillet.storage import system
from rillet.testing import Server, folders
from rillet.testing.folders import TemporaryFolder

pytestmark = pytest.mark.skipif(not system.HERE.has_fork, reason="the system has no fork")

BEGIN = """
import asyncio, atexit, contextlib, gc, multiprocessing, os, signal, sys, unittest, weakref
import rillet.testing
from rillet.testing import Cluster, LoopServer, Sentinel, Server

class Left(Exception):
    pass

def fork():
    # Fork; the parent waits for the child, which has a minute.
    child = os.fork()
    if not child:
        signal.alarm(60)
        sys.stdout = open(os.devnull, "w")
        return True
    _, status = os.waitpid(child, 0)
    print("child", os.waitstatus_to_exitcode(status), flush=True)
    return False
"""
LEAVES = """
def by_exit(server):
    sys.exit(3)

def by_os_exit(server):
    os._exit(3)

def by_exception(server):
    raise Left

def by_stop(server):
    server.stop()
    os._exit(3)

def by_finalizers(server):
    del server
    gc.collect()
    atexit._run_exitfuncs()
    os._exit(3)

def by_restart(server):
    try:
        server.restart()
    except rillet.testing.StopError:
        sys.exit(3)

def by_use(server):
    server.clock.advance(hours=1)
    assert server.running
    assert server.start() is server
    with server.fault(command="SET", error="OOM") as fault:
        assert fault.hits == []
    other = server.snapshot()
    server.restore(other)
    del other
    server.snapshot()
    sys.exit(3)

LEAVES = [by_exit, by_os_exit, by_exception, by_stop, by_finalizers, by_restart, by_use]
"""
WITH = """
try:
    with {make} as stage:
        server = {server}
        client = server.client()
        client.set("a", 1)
        folder = client.config_get("dir")["dir"]
        snapshot = server.snapshot()
        for number, leave in enumerate(LEAVES):
            if fork():
                leave(server)
            assert server.running
            client.set("n", number)
            assert os.path.exists(folder)
        server.restart()
        assert server.client(decode_responses=True).get("n") == str(number), "lost"
        server.restore(snapshot)
        assert server.client(decode_responses=True).get("a") == "1"
except Left:
    sys.exit(3)
print("removed", not os.path.exists(folder), flush=True)
"""
KINDS = {
    "a thread": ("Server(appendonly=True)", "stage"),
    "a process": ("Server(process=True, appendonly=True)", "stage"),
    "a cluster": ("Cluster(shards=1, appendonly=True)", "stage.nodes[0]"),
    "a sentinel": ("Sentinel(replicas=0, appendonly=True)", "stage.master"),
}


def run(script: str, *, status: int = 0) -> list[str]:
    """Run a script in a process of its own; return what it prints."""
    done = run_python("-c", BEGIN + script, cwd=Path.cwd())
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("kind", KINDS)
def test_a_fork_that_leaves_takes_nothing_with_it_however_it_leaves(kind):
    make, server = KINDS[kind]
    assert run(LEAVES + WITH.format(make=make, server=server)) == [*["child 3"] * 7, "removed True"]


def test_a_child_of_multiprocessing_takes_nothing_with_it():
    lines = run("""
def work(url):
    import redis
    redis.Redis.from_url(url).set("b", 1)

with Server(appendonly=True) as server:
    process = multiprocessing.get_context("fork").Process(target=work, args=(server.url,))
    process.start()
    process.join()
    print(process.exitcode)
    server.restart()
    print(server.client().exists("a", "b"))
""")
    assert lines == ["0", "1"]


def test_workers_that_were_forked_after_the_start_as_by_gunicorn_end_alone():
    lines = run("""
server = Server(appendonly=True).start()  # as a module that is loaded before the workers are forked
for number in range(3):
    if fork():
        server.client().incr("requests")
        sys.exit(0)
print(server.client(decode_responses=True).get("requests"), server.running)
folder = server.client().config_get("dir")["dir"]
server.stop()
print(os.path.exists(folder))
""")
    assert lines == [*["child 0"] * 3, "3 True", "False"]


def test_a_fork_in_an_event_loop_takes_nothing_with_it():
    for leave, status in (
        ("sys.exit(3)", 3),
        ("os._exit(4)", 4),
        ("raise Left", 1),
        ("await server.stop(); os._exit(5)", 5),
    ):
        lines = run(f"""
async def main():
    async with LoopServer(appendonly=True) as server:
        client = server.client()
        await client.set("a", 1)
        folder = (await client.config_get("dir"))["dir"]
        if fork():
            {leave}
        await client.set("a", 2)
        await server.restart()
        print(await client.get("a"), os.path.exists(folder), flush=True)
    print(os.path.exists(folder))

asyncio.run(main())
""")
        assert lines == [f"child {status}", "b'2' True", "False"], leave


def test_a_fork_that_leaves_an_asynchronous_block_takes_nothing_with_it():
    lines = run("""
async def main():
    async with rillet.testing.AsyncServer(appendonly=True) as server:
        client = server.client()
        await client.set("a", 1)
        if fork():
            raise Left
        await client.aclose()
        await asyncio.to_thread(server.restart)
        client = server.client()
        print(await client.get("a"), flush=True)
        await client.aclose()

async def outside():
    try:
        await main()
    except Left:
        os._exit(3)  # not by the end of the loop: what asyncio closes in a fork, the parent's loop no longer hears of

asyncio.run(outside())
""")
    assert lines == ["child 3", "b'1'"]


def test_a_fork_in_a_test_case_takes_nothing_with_it():
    lines = run("""
from rillet.testing.unittest import RilletMixin

class Test(RilletMixin, unittest.TestCase):
    rillet_options = {"appendonly": True}

    def test_it(self):
        self.rillet.set("a", 1)
        if fork():
            self.doClassCleanups()
            os._exit(3)
        self.rillet_server.restart()
        print(self.rillet.get("a"))

unittest.main(argv=["x"], exit=False, verbosity=0)
""")
    assert lines == ["child 3", "b'1'"]


def test_a_fork_in_a_pytest_session_takes_nothing_with_it(tmp_path):
    """As pytest-forked does: the child runs the test and its fixtures, and the session goes on in the parent."""
    run_tests(
        tmp_path,
        """
import os

@pytest.mark.parametrize("ends", ["by os._exit", "by stop"])
def test_child(rillet, rillet_server, rillet_factory, ends):
    rillet.set("a", 1)
    child = os.fork()
    if not child:
        own = rillet_factory()
        assert own.client().ping()
        rillet_server.reset()
        assert rillet_server.client().dbsize() == 0
        if ends == "by stop":
            rillet_server.stop()
        own.stop()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert rillet_server.client().dbsize() == 0
    assert rillet_server.client().ping()

def test_after(rillet):
    assert rillet.ping()
""",
        *("-W", "ignore"),
    ).outcome(passed=3)


# The server binds the shorter form of the path, which is the relative one where it starts nearby.
@pytest.mark.parametrize("is_near", [False, True])
def test_a_child_that_lives_on_holds_neither_connections_nor_the_port(tmp_path, is_near):
    folder = tmp_path if is_near else Path(os.__file__).parent
    lines = run(f"""
import socket

os.chdir({str(folder)!r})
with Server(appendonly=True, unixsocket={str(tmp_path / "socket")!r}) as server:
    server.client().set("a", 1)
    by_port = socket.create_connection((server.host, server.port))
    by_path = socket.socket(socket.AF_UNIX)
    by_path.connect({str(tmp_path / "socket")!r})
    for each in by_port, by_path:
        each.sendall(b"PING\\r\\n")
        assert each.recv(100) == b"+PONG\\r\\n"
        each.settimeout(60)
    child = os.fork()
    if not child:
        signal.alarm(110)
        signal.pause()
    assert server.client().client_kill_filter(_type="normal", skipme=True) == 2
    print(by_port.recv(1), by_path.recv(1))
    server.client().bgsave()
    server.restart()
    print(server.client().get("a"))
    os.kill(child, signal.SIGKILL)
""")
    assert lines == ["b'' b''", "b'1'"]


# Folders


@pytest.mark.parametrize("ends", ["", "raise Left", "sys.exit(2)", "del server; gc.collect()"])
def test_a_server_that_was_never_stopped_leaves_no_folder(ends):
    status = {"": 0, "raise Left": 1, "sys.exit(2)": 2}.get(ends, 0)
    [folder] = run(
        f"""
server = Server(appendonly=True).start()
print(server.client().config_get("dir")["dir"], flush=True)
server.client().set("a", 1)
{ends}
""",
        status=status,
    )
    assert re.fullmatch(r"rillet-testing-\d+-\w+", Path(folder).name)
    assert not Path(folder).exists()


def test_a_loop_server_that_was_never_stopped_leaves_no_folder():
    [folder] = run("""
async def main():
    server = await LoopServer(appendonly=True).start()
    print((await server.client().config_get("dir"))["dir"], flush=True)

asyncio.run(main())
""")
    assert not Path(folder).exists()


def start_and_wait() -> tuple[subprocess.Popen[str], Path]:
    script = """
server = Server(appendonly=True).start()
print(server.client().config_get("dir")["dir"], flush=True)
sys.stdin.read()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", BEGIN + script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_a_later_start_removes_what_a_killed_process_left_and_nothing_of_a_living_one():
    killed, left = start_and_wait()
    living, kept = start_and_wait()
    with killed, living:
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert left.exists()
        with Server() as server:
            assert server.client().ping()
            assert not left.exists()
            assert kept.exists()
        living.communicate("")
    eventually(lambda: not kept.exists())


def test_a_forked_child_keeps_what_it_may_still_use_of_a_killed_parent():
    child = None
    process = subprocess.Popen(
        [sys.executable, "-c", BEGIN + """
server = Server(appendonly=True).start()
child = os.fork()
if not child:
    signal.pause()
print(server.client().config_get("dir")["dir"], child, flush=True)
signal.pause()
"""], stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        folder, child = process.stdout.readline().split()
        process.kill()
        process.wait()
        TemporaryFolder().remove()
        assert Path(folder).exists()
        os.kill(int(child), signal.SIGKILL)
        eventually(lambda: TemporaryFolder().remove() or not Path(folder).exists())


def test_folders_that_only_look_alike_stay(tmp_path):
    names = [
        "rillet-testing-1-abcdefgh",
        "rillet-testing-1-short",
        "rillet-data",
        "rillet-testing-x-abcdefgh",
    ]
    for name in names:
        (tmp_path / name).mkdir(mode=0o755)
    (tmp_path / "target").mkdir(mode=0o700)
    (tmp_path / "rillet-testing-2-abcdefgh").symlink_to(tmp_path / "target")
    (tmp_path / "rillet-testing-3-abcdefgh").write_text("a file")
    (tmp_path / "rillet-testing-4-abcdefgh").mkdir(mode=0o700)  # as a killed process leaves it
    with TemporaryFolder(str(tmp_path)) as folder:
        there = {path.name for path in tmp_path.iterdir()}
    assert there == {
        *names, "target", "rillet-testing-2-abcdefgh", "rillet-testing-3-abcdefgh", Path(folder.path).name,
    }  # fmt: skip


def test_a_start_whose_folder_is_taken_twice_closes_each_lock_once(tmp_path, monkeypatch):
    """Another process removes the first folder once it is locked, and the second one before."""
    held, original = [], folders.hold

    def hold(folder):
        held.append(folder)
        if len(held) == 2:
            raise BlockingIOError
        descriptor = original(folder)
        if len(held) == 1:
            Path(folder).rmdir()
        return descriptor

    monkeypatch.setattr(folders, "hold", hold)
    with TemporaryFolder(str(tmp_path)) as folder:
        assert held[2:] == [folder.path]


def test_starts_that_race_for_what_is_left_do_not_disturb_each_other(tmp_path):
    for number in range(20):
        (tmp_path / f"rillet-testing-{number}-abcdefgh").mkdir(mode=0o700)
    script = f"""
from rillet.testing.folders import TemporaryFolder
for _ in range(100):
    with TemporaryFolder({str(tmp_path)!r}) as folder:
        assert os.path.isdir(folder.path)
"""
    racing = [
        subprocess.Popen([sys.executable, "-c", BEGIN + script], stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    for each in racing:
        assert (each.communicate()[1], each.returncode) == ("", 0)
    assert not [*tmp_path.iterdir()]
