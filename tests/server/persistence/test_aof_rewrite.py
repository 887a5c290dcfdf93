"""BGREWRITEAOF on a running server: no client waits, nothing is lost, a failure keeps the old files."""

import errno
import os
import threading

import pytest
from support.aof import aof_files, read_commands
from support.live import LiveServer, eventually
from support.servers import start_server
from support.until import until

STARTED = b"Background append only file rewriting started"
SCHEDULED = b"Background append only file rewriting scheduled"


def fill(wire, count=20):
    for number in range(1, count + 1):
        wire.call("XADD", "s", f"{number}-1", "n", number)
    wire.do(
        "XGROUP CREATE s g 0; XREADGROUP GROUP g alice COUNT 3 STREAMS s >; SET k v PX 100000000; SELECT 3"
        "; SET other db; SELECT 0"
    )


def info(wire) -> dict[str, str]:
    text = wire.call("INFO", "persistence").value.decode()
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


def wait(wire):
    eventually(lambda: info(wire)["aof_rewrite_in_progress"] == "0")


def names(folder) -> list[str]:
    return sorted(path.name for path in (folder / "appendonlydir").iterdir())


class Hold:
    """Keeps the snapshot's thread from writing until it is let go; `error` is then raised instead."""

    def __init__(self, server) -> None:
        self.go = threading.Event()
        self.error: OSError | None = None
        self.reached = threading.Event()
        files = server.inside.persistence.files
        real = files.write

        def write(fd, data):
            if threading.current_thread().name == "rillet-snapshot":
                self.reached.set()
                assert self.go.wait(30)
                if self.error is not None:
                    raise self.error
            return real(fd, data)

        server.run_inside(lambda: setattr(files, "write", write))


@pytest.fixture(params=["no", "yes"])
def preamble(request) -> str:
    return request.param


@pytest.fixture
def server():
    with LiveServer(appendonly=True, auto_aof_rewrite_percentage=0) as server:
        yield server


def test_a_rewrite_that_begins_where_one_that_waits_for_an_fsync_is_cancelled_is_under_way(server):
    inside = server.inside
    persistence, rewrite = inside.persistence, inside.persistence.rewrite

    def wait_for_an_fsync():
        persistence._syncing = inside.loop.create_future()
        return rewrite.start()

    assert server.run_inside(wait_for_an_fsync)
    server.run_inside(lambda: None)  # it waits now
    assert server.run_inside(lambda: (rewrite.cancel(), rewrite.start())[1])
    server.run_inside(lambda: None)
    assert server.run_inside(lambda: rewrite.in_progress)

    def end():
        persistence._syncing.set_result(None)
        persistence._syncing = None

    server.run_inside(end)
    eventually(lambda: server.run_inside(lambda: rewrite.count == 1 and not rewrite.in_progress))


@pytest.mark.parametrize("process", [False, True])
def test_a_rewrite_keeps_everything_including_later_writes(tmp_path, preamble, process):
    with LiveServer(
        dir=tmp_path,
        appendonly=True,
        process=process,
        aof_use_rdb_preamble=preamble,
        rdb_key_save_delay=100_000,
        rdb_version=10,
    ) as server:
        with server.wire() as wire:
            fill(wire)
            # Both come in one read, and so nothing can end between them.
            started, seen = wire.calls([("BGREWRITEAOF",), ("INFO", "persistence")])
            assert started.value == STARTED
            assert b"aof_rewrite_in_progress:1\r\n" in seen.value
            # The snapshot waits for an fsync that is running.
            eventually(lambda: "appendonly.aof.2.incr.aof" in names(tmp_path))
            wire.do("XADD s 100-1 late one; XACK s g 1-1")
            wait(wire)
            wire.call("XADD", "s", "101-1", "after", "it")
            facts = info(wire)
            digest = wire.call("DEBUG", "DIGEST").value
        form = "rdb" if preamble == "yes" else "aof"
        assert names(tmp_path) == [
            f"appendonly.aof.2.base.{form}",
            "appendonly.aof.2.incr.aof",
            "appendonly.aof.manifest",
        ]
        assert facts["aof_last_bgrewrite_status"] == "ok"
        assert facts["aof_rewrites"] == "1"
        assert int(facts["aof_last_rewrite_time_sec"]) >= 0
        base, incr = aof_files(tmp_path / "appendonlydir")
        assert int(facts["aof_base_size"]) >= base.stat().st_size
        late = read_commands(incr.read_bytes())
        assert late[0] == [b"SELECT", b"0"]
        assert late[1][:3] == [b"XADD", b"s", b"100-1"]
        server.restart()
        with server.wire() as wire:
            assert wire.call("DEBUG", "DIGEST").value == digest
    for kind in ("redis7", "valkey"):
        with start_server(kind, "--appendonly", "yes", folder=tmp_path) as peer, peer.wire() as wire:
            assert wire.call("XLEN", "s").plain() == 22
            assert wire.call("XPENDING", "s", "g").plain() == [2, b"2-1", b"3-1", [[b"alice", b"2"]]]
            assert wire.call("GET", "k").value == b"v"


def test_there_is_one_at_a_time_and_exec_schedules(server, wire):
    fill(wire)
    hold = Hold(server)
    assert wire.call("BGREWRITEAOF").value == STARTED
    assert wire.call("BGREWRITEAOF").value == (
        b"ERR Background append only file rewriting already in progress"
    )
    hold.go.set()
    wait(wire)
    wire.do("MULTI; BGREWRITEAOF; XADD s 100-1 a b")
    assert wire.call("EXEC").plain()[0] == SCHEDULED
    eventually(lambda: info(wire)["aof_rewrites"] == "2")
    wait(wire)
    assert info(wire)["aof_rewrite_scheduled"] == "0"


def test_a_rewrite_amid_a_pipeline_takes_each_effect_once(preamble):
    with LiveServer(appendonly=True, aof_use_rdb_preamble=preamble) as server:
        with server.wire() as wire:
            wire.call("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
            batch = [f"INCR n\r\nXADD s {number}-1 a b\r\n".encode() for number in range(1, 41)]
            read = b"XREADGROUP GROUP g c COUNT 3 STREAMS s >\r\n"
            wire.send_raw(b"".join([*batch[:20], read, b"BGREWRITEAOF\r\n", read, *batch[20:]]))
            for _ in range(83):
                assert wire.read().kind != "-"
            wait(wire)
            digest = wire.call("DEBUG", "DIGEST").value
        server.restart()
        with server.wire() as wire:
            assert wire.call("DEBUG", "DIGEST").value == digest
            assert wire.call("GET", "n").value == b"40"
            assert wire.call("XPENDING", "s", "g").plain()[0] == 6


def test_growth_begins_one_by_itself(server, wire):
    wire.call("CONFIG", "SET", "auto-aof-rewrite-min-size", "1000", "auto-aof-rewrite-percentage", "50")
    wire.call("SET", "k", "x" * 400)
    assert info(wire)["aof_rewrites"] == "0"
    wire.calls([("SET", "k", "x" * 400)] * 5)  # in one read: no cron comes between them
    eventually(lambda: info(wire)["aof_rewrites"] == "1")
    wait(wire)
    assert int(info(wire)["aof_current_size"]) < 1000


def test_a_snapshot_that_fails_leaves_the_old_files_and_later_ones_wait(server, wire):
    fill(wire)
    for count in range(1, 4):
        hold = Hold(server)
        hold.error = OSError(28, "No space left on device")
        hold.go.set()
        assert wire.call("BGREWRITEAOF").value == STARTED
        wait(wire)
        assert info(wire)["aof_last_bgrewrite_status"] == "err"
        assert info(wire)["aof_rewrites_consecutive_failures"] == str(count)
        server.run_inside(lambda: setattr(server.inside.persistence.files, "write", os.write))
    assert not [name for name in names(server.folder) if name.startswith("temp")]
    wire.call("CONFIG", "SET", "auto-aof-rewrite-min-size", "1", "auto-aof-rewrite-percentage", "1")
    assert server.inside.persistence.rewrite.is_limited()
    digest = wire.call("DEBUG", "DIGEST").value
    server.restart()
    with server.wire() as again:
        assert again.call("DEBUG", "DIGEST").value == digest
        # One that is asked for does not wait.
        assert again.call("BGREWRITEAOF").value == STARTED


def test_a_disk_that_refuses_the_new_files_is_reported_immediately(server, wire):
    fill(wire)
    mend = server.break_disk("rename", errno.EROFS)
    assert wire.call("BGREWRITEAOF").value == (
        b"ERR Can't execute an AOF background rewriting. Please check the server logs for more information."
    )
    mend()
    assert wire.call("SET", "k", "w").value == b"OK"
    assert wire.call("BGREWRITEAOF").value == STARTED


def test_appendonly_yes_at_runtime_writes_the_data_that_is_there(tmp_path, preamble):
    with LiveServer(dir=tmp_path, aof_use_rdb_preamble=preamble) as server, server.wire() as wire:
        fill(wire)
        assert wire.call("CONFIG", "SET", "appendonly", "yes").value == b"OK"
        wire.call("XADD", "s", "100-1", "a", "b")
        wait(wire)
        assert info(wire)["aof_enabled"] == "1"
        wire.call("XADD", "s", "101-1", "a", "b")
        digest = wire.call("DEBUG", "DIGEST").value
    with LiveServer(dir=tmp_path, appendonly=True) as server, server.wire() as wire:
        assert wire.call("DEBUG", "DIGEST").value == digest


def test_appendonly_yes_tries_again_after_a_failure(tmp_path):
    with LiveServer(dir=tmp_path) as server, server.wire() as wire:
        fill(wire)
        hold = Hold(server)
        hold.error = OSError(28, "No space left on device")
        wire.call("CONFIG", "SET", "appendonly", "yes")
        eventually(hold.reached.is_set)
        hold.go.set()
        eventually(lambda: info(wire)["aof_rewrites_consecutive_failures"] != "0")
        hold.error = None
        eventually(lambda: info(wire)["aof_last_bgrewrite_status"] == "ok")
        wire.call("SET", "after", "it")
        digest = wire.call("DEBUG", "DIGEST").value
    with LiveServer(dir=tmp_path, appendonly=True) as server, server.wire() as wire:
        assert wire.call("DEBUG", "DIGEST").value == digest


def test_appendonly_yes_where_there_is_no_folder_to_be_made_is_refused(tmp_path):
    (tmp_path / "appendonlydir").write_bytes(b"in the way")
    with LiveServer(dir=tmp_path) as server, server.wire() as wire:
        answer = wire.call("CONFIG", "SET", "appendonly", "yes").value
        assert answer == (
            b"ERR CONFIG SET failed (possibly related to argument 'appendonly') - "
            b"Unable to turn on AOF. Check server logs."
        )
        assert info(wire)["aof_enabled"] == "0"
        assert wire.call("SET", "k", "v").value == b"OK"


def test_appendonly_no_gives_a_rewrite_up(server, wire):
    fill(wire)
    hold = Hold(server)
    wire.call("BGREWRITEAOF")
    eventually(hold.reached.is_set)
    writer = server.inside.persistence.rewrite.writer
    end = writer._end
    writer._end = lambda: (hold.go.set(), end())  # it has been told to stop, and is waited for
    assert wire.call("CONFIG", "SET", "appendonly", "no").value == b"OK"
    assert info(wire)["aof_rewrite_in_progress"] == "0"
    assert not [name for name in names(server.folder) if name.startswith("temp")]


def test_without_appendonly_a_rewrite_leaves_a_base(tmp_path):
    with LiveServer(dir=tmp_path) as server, server.wire() as wire:
        fill(wire)
        assert wire.call("BGREWRITEAOF").value == STARTED
        wait(wire)
        digest = wire.call("DEBUG", "DIGEST").value
        wire.call("SET", "not", "kept")
    assert names(tmp_path) == ["appendonly.aof.1.base.rdb", "appendonly.aof.manifest"]
    with LiveServer(dir=tmp_path, appendonly=True) as server, server.wire() as wire:
        assert wire.call("DEBUG", "DIGEST").value == digest


@pytest.mark.parametrize("process", [False, True])
def test_what_only_newer_versions_have_is_kept_too(preamble, process):
    with LiveServer(appendonly=True, process=process, aof_use_rdb_preamble=preamble) as server:
        with server.wire() as wire:
            fill(wire)
            for mode, ids in (("FAIL", ["2-1", "1-1"]), ("FATAL", ["3-1"])):
                assert (
                    wire.call("XNACK", "s", "g", mode, "IDS", len(ids), *ids).value == str(len(ids)).encode()
                )
            wire.call("XCFGSET", "s", "IDMP-DURATION", "1000", "IDMP-MAXSIZE", "7")
            entry = wire.call("XADD", "s", "IDMP", "me", "one", "*", "a", "b").value
            wire.call("BGREWRITEAOF")
            wait(wire)
            before = wire.call("XINFO", "STREAM", "s", "FULL").plain()
            pending = wire.call("XPENDING", "s", "g", "-", "+", "10").plain()
        server.restart()
        with server.wire() as wire:
            assert wire.call("XPENDING", "s", "g", "-", "+", "10").plain() == pending
            assert [each[1] for each in pending] == [b"", b"", b""]
            assert wire.call("XADD", "s", "IDMP", "me", "one", "*", "a", "b").value == entry
            after = wire.call("XINFO", "STREAM", "s", "FULL").plain()
            assert len(after) == len(before)


def child_of(server) -> int:
    until(lambda: "rewriting started by pid " in server.log)
    return int(server.log.rsplit("rewriting started by pid ", 1)[1].split()[0])


SLOW = ("--appendonly", "yes", "--rdb-key-save-delay", "60000000")


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123 - a line of /proc
        return file.read().rsplit(")", 1)[1].split()[0] == "Z"


@pytest.mark.parametrize("how", ["terminate", "kill"])
def test_a_server_that_ends_takes_its_child_along(tmp_path, how):
    with start_server("rillet", *SLOW, folder=tmp_path) as server:
        with server.wire() as wire:
            fill(wire)
            wire.call("BGREWRITEAOF")
            child = child_of(server)
            assert not is_gone(child)
        if how == "kill":
            server._process.kill()
            server._process.wait()
        else:
            server.stop()
        until(lambda: is_gone(child))
        server.start()
        assert not [name for name in names(tmp_path) if name.startswith("temp-rewriteaof")]
        with server.wire() as wire:
            assert wire.call("XLEN", "s").plain() == 20


def test_debug_loadaof_waits_for_the_files_that_a_rewrite_puts_in_place(server):
    """Until the old ones are gone, the manifest may name files that are about to be removed."""
    with server.wire() as wire:
        fill(wire)
        rewrite = server.inside.persistence.rewrite
        install, reached, go, installed = rewrite._install, threading.Event(), threading.Event(), []

        def slowly(path):
            reached.set()
            assert go.wait(30)
            install(path)
            installed.append(path)

        rewrite._install = slowly
        wire.call("BGREWRITEAOF")
        assert reached.wait(30)
        before = wire.call("DEBUG", "DIGEST")
        threading.Timer(0.1, go.set).start()
        assert wire.call("DEBUG", "LOADAOF").value == b"OK"
        assert installed
        assert wire.call("DEBUG", "DIGEST") == before
        assert info(wire)["aof_rewrite_in_progress"] == "0"
        assert info(wire)["aof_last_bgrewrite_status"] == "ok"


def test_debug_loadaof_keeps_the_data_where_a_file_is_missing(server):
    with server.wire() as wire:
        fill(wire)
        before = wire.call("DEBUG", "DIGEST")
        for path in aof_files(server.folder / "appendonlydir"):
            path.unlink()
        assert wire.call("DEBUG", "LOADAOF").value.startswith(b"ERR Error trying to load the AOF files")
        assert wire.call("DEBUG", "DIGEST") == before
        assert "Unable to obtain the AOF file" in server.log.text()
