"""A bad start of a test server is a StartError, whatever the reason, and leaves nothing behind."""

import sys
import tempfile
import threading
from pathlib import Path

import pytest
from support.live import eventually
from support.tool import run_program
from support.wire import Wire

import rillet.testing


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def refuse(process, match, **directives):
    server = rillet.testing.Server(process=process, **directives)
    with pytest.raises(rillet.testing.StartError, match=match):
        server.start()
    assert not server.running


@pytest.mark.parametrize(
    ("directives", "why"),
    [({"nonsense": "1"}, "Bad directive"), ({"appendonly": "perhaps"}, "argument must be 'yes' or 'no'")],
)
def test_an_unknown_directive_and_a_bad_value(process, temporary, directives, why):
    refuse(process, why, **directives)
    assert not list(temporary.iterdir())


def test_a_port_that_is_taken(process, temporary):
    with rillet.testing.Server() as server:
        refuse(process, "Failed listening", port=server.port)
    assert not list(temporary.iterdir())


def test_a_file_that_cannot_be_read(process, tmp_path):
    (tmp_path / "dump.rdb").write_bytes(b"REDIS0011 and then nothing of use")
    refuse(process, "Fatal error loading the DB", dir=tmp_path)
    assert (tmp_path / "dump.rdb").exists()


def test_a_folder_that_does_not_exist(process, tmp_path):
    refuse(process, "No such file or directory", dir=tmp_path / "gone")


def test_an_acl_file_that_does_not_exist(process, tmp_path):
    refuse(process, "Aborting Rillet startup because of ACL errors", aclfile=tmp_path / "gone.acl")


def test_a_folder_where_nothing_may_be_written(process, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", "/proc")
    refuse(process, "'/proc/rillet-")


@pytest.mark.parametrize("level", ["warning", "nothing"])
def test_a_quiet_log_does_not_hide_that_it_is_ready(process, level):
    with rillet.testing.Server(process=process, loglevel=level) as server, server.client() as client:
        assert client.ping()


def test_a_log_file_takes_nothing_from_the_log_of_the_test(process, tmp_path):
    with rillet.testing.Server(process=process, logfile=tmp_path / "log") as server:
        assert "Ready to accept connections" in server.log.text()
    assert "Ready to accept connections" in (tmp_path / "log").read_text()


def test_a_process_that_is_never_ready_is_ended(monkeypatch):
    monkeypatch.setattr("rillet.testing.process.START_SECONDS", 0)
    refuse(True, "It ended with status -9")


def test_a_restart_that_fails_keeps_the_files_for_the_next_one(process):
    with rillet.testing.Server(process=process, appendonly=True) as server:
        folder = Path(server.client().config_get("dir")["dir"]) / "appendonlydir"
        server.client().set("k", "v")
        (commands,) = folder.glob("*.incr.aof")  # the end of a server writes its manifest again
        whole = commands.read_bytes()
        commands.write_bytes(b"nonsense\r\n")
        with pytest.raises(rillet.testing.StartError, match="Bad file format"):
            server.restart()
        commands.write_bytes(whole)
        server.start()
        assert server.client().get("k") == b"v"


def test_a_script_without_an_end_does_not_keep_a_server_from_stopping(process, monkeypatch):
    monkeypatch.setattr("rillet.testing.server.STOP_SECONDS", 0.1)
    monkeypatch.setattr("rillet.testing.process.STOP_SECONDS", 0.1)
    server = rillet.testing.Server(process=process, busy_reply_threshold=1).start()
    snapshot = server.snapshot()
    with Wire(server.port) as wire:
        wire.send("EVAL", "redis.call('SET', 'k', 'v') while true do end", 0)
        eventually(lambda: "Slow script detected" in server.log.text())
        server.stop()
    assert not server.running
    del snapshot


@pytest.fixture
def stuck(monkeypatch):
    """Blocks the threads of servers until the end of the test, which from then on waits for nothing for long."""
    free, threads = threading.Event(), []

    def block(server: rillet.testing.Server, patience: float = 0.1) -> None:
        hangs = threading.Event()
        threads.append(server._thread)
        server._server.loop.call_soon_threadsafe(lambda: (hangs.set(), free.wait()))
        assert hangs.wait(60)
        monkeypatch.setattr("rillet.testing.server.STOP_SECONDS", patience)
        monkeypatch.setattr("rillet.testing.control.CONTROL_SECONDS", patience)

    block.free = free.set
    yield block
    free.set()
    for thread in threads:
        thread.join()


def test_a_thread_that_does_not_stop_is_left_behind_with_an_error_that_shows_where_it_is(stuck):
    server = rillet.testing.Server().start()
    folder = Path(server._folder)
    stuck(server)
    with pytest.raises(rillet.testing.StopError, match=r"(?s)port \d+ does not stop\. It is at:.*in wait"):
        server.stop()
    assert not server.running
    assert not folder.exists()


@pytest.mark.parametrize("transport", ["memory", "tcp"])
def test_a_hanging_server_is_named_by_old_and_new_connections(transport, stuck):
    with rillet.testing.Server(transport=transport) as server:
        server._control._socket.settimeout(0.1)
        stuck(server)
        try:
            for _ in range(2):  # the first call closes the connection
                with pytest.raises(
                    rillet.testing.ControlError, match=r"(?s)not answered .* in 0.1 seconds.*in wait"
                ):
                    server.reset()
        finally:
            stuck.free()


def test_a_server_that_does_not_answer_shows_where_its_thread_is(stuck):
    with rillet.testing.Cluster(shards=1) as cluster:
        stuck(cluster.nodes[0])
        with pytest.raises(
            rillet.testing.ControlError, match=r"(?s)not answered FLUSHALL in 0.1 seconds.*in wait"
        ):
            cluster.nodes[0].call(b"FLUSHALL")
        stuck.free()


def test_a_node_that_does_not_stop_keeps_no_other_from_stopping(stuck):
    cluster = rillet.testing.Cluster(shards=3).start()
    stuck(cluster.nodes[1], patience=0.5)  # the others may take a moment
    with pytest.raises(rillet.testing.StopError, match=str(cluster.nodes[1].port)):
        cluster.stop_all()
    assert not any(node.running for node in cluster.nodes)


def test_a_thread_that_is_never_ready_is_a_bad_start(monkeypatch):
    monkeypatch.setattr("rillet.testing.server.START_SECONDS", 0)
    arrive = rillet.testing.Server._arrive

    def late(self, server, ready):
        eventually(ready.cancelled)  # a thread may be ready sooner than another waits for no time
        arrive(self, server, ready)

    monkeypatch.setattr(rillet.testing.Server, "_arrive", late)
    before = set(threading.enumerate())
    refuse(False, "It was not ready in 0 seconds")
    assert set(threading.enumerate()) <= before


def test_a_server_in_a_process_needs_nothing_of_the_server_in_this_one():
    program = """
import sys, rillet.testing
with rillet.testing.Server(process=True) as server:
    server.watch_from_reset()
    server.reset()
print([name for name in sys.modules if name.startswith("rillet.server.server")])
"""
    done = run_program(sys.executable, "-c", program)
    assert done.stdout.strip() == "[]", done.stderr
