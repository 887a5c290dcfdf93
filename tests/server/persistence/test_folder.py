"""One folder, one server: who has it, who is refused, and when it is free again."""

import os
import signal
import sys
import time

import pytest
import redis

import rillet.testing
from rillet.storage.folder_lock import NAME, FolderInUseError, FolderLock

KEPT = {"appendonly": True, "save": ""}
SAVED = {"save": "3600 1"}
FLEETING = {"save": "", "appendonly": False}


def server(folder, **directives):
    return rillet.testing.Server(dir=str(folder), **directives)


def refusal(pid):
    return f"is in use by the server with pid {pid}: two servers would write the same files"


@pytest.mark.parametrize("first", [KEPT, SAVED])
@pytest.mark.parametrize("second", [KEPT, SAVED])
@pytest.mark.parametrize("process", [False, True])
def test_a_second_server_on_the_folder_is_refused_with_the_pid_of_the_first(tmp_path, first, second, process):
    with server(tmp_path, process=process, **first) as one:
        pid = one.client().info("server")["process_id"]
        with pytest.raises(rillet.testing.StartError, match=refusal(pid)):
            server(tmp_path, **second).start()
        one.client().set("k", "v")
    assert not (tmp_path / NAME).exists()
    with server(tmp_path, **second):
        pass


def test_the_command_ends_with_status_1_and_says_why(launch, tmp_path):
    with server(tmp_path, **KEPT):
        second = launch("--port", "0", "--appendonly", "yes", folder=tmp_path)
        assert second.wait() == 1
    assert refusal(os.getpid()) in second.output
    assert "Traceback" not in second.output


def test_servers_on_folders_of_their_own_and_servers_that_keep_nothing_live_together(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    kept = server(tmp_path / "a", **KEPT), server(tmp_path / "b", **KEPT)
    fleeting = server(tmp_path / "a", **FLEETING), server(tmp_path / "a", **FLEETING)
    with kept[0], kept[1], fleeting[0], fleeting[1]:
        assert all(each.client().ping() for each in (*kept, *fleeting))


def test_a_server_that_keeps_nothing_writes_no_file_in_the_folder_of_another(tmp_path):
    with server(tmp_path, **KEPT), server(tmp_path, **FLEETING, enable_debug_command="yes") as other:
        client = other.client()
        for command in ("SAVE", "BGSAVE", "DEBUG RELOAD"):
            with pytest.raises(redis.ResponseError, match=refusal(os.getpid())):
                client.execute_command(command)
        with pytest.raises(redis.ResponseError, match="Can't execute an AOF background rewriting"):
            client.execute_command("BGREWRITEAOF")
        for name, value in (("appendonly", "yes"), ("save", "3600 1")):
            with pytest.raises(redis.ResponseError, match=refusal(os.getpid())):
                client.config_set(name, value)
        assert client.config_get("appendonly") == {"appendonly": "no"}
        assert not (tmp_path / "dump.rdb").exists()


def test_a_server_that_saves_by_hand_has_the_folder_from_then_on(tmp_path):
    with server(tmp_path, **FLEETING) as one, server(tmp_path, **FLEETING) as other:
        assert one.client().save()
        with pytest.raises(redis.ResponseError, match="is in use"):
            other.client().save()
        one.stop()
        assert other.client().save()


def test_moving_to_another_folder_takes_that_and_gives_up_the_first(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
    with server(tmp_path / "a", **SAVED, enable_protected_configs="yes") as one:
        with server(tmp_path / "b", **SAVED):
            with pytest.raises(redis.ResponseError, match="is in use"):
                one.client().config_set("dir", str(tmp_path / "b"))
            assert one.client().config_get("dir")["dir"] == str(tmp_path / "a")
        one.client().config_set("dir", str(tmp_path / "b"))
        with pytest.raises(rillet.testing.StartError, match="is in use"):
            server(tmp_path / "b", **SAVED).start()
        with server(tmp_path / "a", **SAVED):
            pass


def test_after_kill_9_the_folder_is_free(launch, tmp_path):
    process = launch("--port", "0", "--appendonly", "yes", folder=tmp_path).ready().popen
    with pytest.raises(FolderInUseError, match=refusal(process.pid)):
        FolderLock(str(tmp_path))
    process.kill()
    process.wait()
    assert (tmp_path / NAME).exists()
    with server(tmp_path, **KEPT) as next_one:
        assert next_one.client().ping()


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_a_child_that_has_the_open_file_neither_keeps_the_lock_nor_gives_it_up(tmp_path):
    lock = FolderLock(str(tmp_path))
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(lock._fd)  # as the writer of a snapshot does
        os.write(writer, b"x")
        time.sleep(60)
        os._exit(0)
    try:
        os.read(reader, 1)
        with pytest.raises(FolderInUseError):
            FolderLock(str(tmp_path))
        lock.release()
        FolderLock(str(tmp_path)).release()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reader)
        os.close(writer)


def test_a_file_that_was_removed_during_a_wait_for_it_is_no_lock(tmp_path, monkeypatch):
    first = FolderLock(str(tmp_path))
    opened = []
    real = os.open

    def slow(*words):
        fd = real(*words)
        if not opened:
            opened.append(fd)
            first.release()  # between the second one's open and its lock
        return fd

    monkeypatch.setattr(os, "open", slow)
    second = FolderLock(str(tmp_path))
    with pytest.raises(FolderInUseError):
        FolderLock(str(tmp_path))
    second.release()


def test_a_folder_without_locks_is_used_with_a_warning(tmp_path, monkeypatch):
    import fcntl

    def flock(_fd, _how):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", flock)
    lines = []
    one = server(tmp_path, **KEPT)
    with one:
        assert one.client().ping()
        one._server.log.listener = lines.append
        one._server.folder.take()
    assert "Operation not supported" in lines[0]
