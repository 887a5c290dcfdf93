"""What an append-only folder holds, beside a real server that is treated in the same way."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.aof import rewrite
from support.ports import free_port
from support.servers import compared, require_binary, start_server
from support.until import until
from support.wire import ConnectionClosedError, Wire, encode_command

KINDS = ("redis810", "rillet")
FOLDER = "appendonlydir"
QUIET = ("--appendonly", "yes", "--auto-aof-rewrite-percentage", "0", "--enable-debug-command", "yes")


def facts(wire):
    text = wire.call("INFO", "persistence").plain().decode()
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


def folder_of(server):
    """The names in the folder, and the manifest without what only Redis 8 notes in it."""
    folder = server.dir / FOLDER
    words = [line.split() for line in (folder / "appendonly.aof.manifest").read_text().splitlines()]
    return sorted(path.name for path in folder.iterdir()), [line[:6] for line in words]


def listed(*names):
    """A manifest with these files, and nothing else in the folder."""
    lines = []
    for name in names:
        kind = "b" if ".base." in name else "i"
        lines.append(["file", f"appendonly.aof.{name}", "seq", name.split(".")[0], "type", kind])
    return sorted([*(f"appendonly.aof.{name}" for name in names), "appendonly.aof.manifest"]), lines


def rewrite_is_over(wire):
    seen = facts(wire)
    return seen["aof_rewrite_in_progress"] == "0" and seen["aof_rewrite_scheduled"] == "0"


def end_rewrite(server, wire):
    """End the child of a rewrite, which may not be there yet: whether nothing is rewritten any more."""
    for child in Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(child), signal.SIGKILL)
    return facts(wire)["aof_rewrite_in_progress"] == "0"


# The first start


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("preamble", "form"), [("yes", "rdb"), ("no", "aof")])
def test_a_server_that_starts_from_nothing_writes_a_base(kind, preamble, form):
    with start_server(kind, *QUIET, "--aof-use-rdb-preamble", preamble) as server, server.wire() as wire:
        assert folder_of(server) == listed(f"1.base.{form}", "1.incr.aof")
        base = (server.dir / FOLDER / f"appendonly.aof.1.base.{form}").read_bytes()
        assert base.startswith(b"REDIS0015") == (form == "rdb")
        assert b"aof-base\xc0\x01" in base or not base
        assert (facts(wire)["aof_current_size"], facts(wire)["aof_base_size"]) == ("0", "0")
        wire.call("SET", "k", "v")
        server.restart()
        with server.wire() as again:
            assert again.call("GET", "k").plain() == b"v"
        assert folder_of(server) == listed(f"1.base.{form}", "1.incr.aof")


VERSIONS = {"redis810": "8.10", "redis86": "8.6", "redis7": "7.0"}


@pytest.mark.parametrize("peer", compared(*VERSIONS))
def test_a_real_server_of_that_version_goes_on_with_the_folder(peer, tmp_path):
    with start_server(f"rillet-{VERSIONS[peer]}", *QUIET, folder=tmp_path) as server, server.wire() as wire:
        wire.call("SET", "k", "v")
    with start_server(peer, *QUIET, folder=tmp_path) as server, server.wire() as wire:
        assert wire.call("GET", "k").plain() == b"v"


# Rewrites that fail


@pytest.mark.skipif(sys.platform != "linux", reason="finds the child in /proc")
@pytest.mark.parametrize("kind", KINDS)
def test_failed_rewrites_leave_incr_files_and_limit_automatic_ones(kind):
    with start_server(kind, *QUIET, "--rdb-key-save-delay", "10000000") as server, server.wire() as wire:
        for number in range(5):
            wire.call("SET", f"k{number}", "v")
        incr = ["1.incr.aof"]
        for number in range(1, 5):
            assert wire.call("BGREWRITEAOF").value == b"Background append only file rewriting started"
            until(lambda: facts(wire)["aof_rewrite_in_progress"] == "1")
            incr.append(f"{number + 1}.incr.aof")
            wire.call("SET", f"during {number}", "v")
            until(lambda: end_rewrite(server, wire))
            assert folder_of(server) == listed("1.base.rdb", *incr)
            assert server.log.count("Background AOF rewrite terminated by signal 9") == number
            seen = facts(wire)
            assert seen["aof_last_bgrewrite_status"] == "err"
            assert seen["aof_rewrites_consecutive_failures"] == str(number)
        wire.call("CONFIG", "SET", "auto-aof-rewrite-min-size", "64", "auto-aof-rewrite-percentage", "1")
        until(lambda: "triggered the limit" in server.log)
        assert facts(wire)["aof_rewrites"] == "4"
        wire.call("CONFIG", "SET", "rdb-key-save-delay", "0", "auto-aof-rewrite-percentage", "0")
        expected = wire.call("DBSIZE").plain()
        server.restart()
        with server.wire() as again:
            assert again.call("DBSIZE").plain() == expected
            assert folder_of(server) == listed("1.base.rdb", *incr)
            again.call("CONFIG", "SET", "rdb-key-save-delay", "0")
            rewrite(again)
            until(lambda: folder_of(server) == listed("2.base.rdb", "6.incr.aof"))
            assert facts(again)["aof_rewrites_consecutive_failures"] == "0"


# Numbers


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_go_on_after_a_reload_a_restart_and_a_time_without_the_file(kind):
    with start_server(kind, *QUIET) as server:
        with server.wire() as wire:
            wire.call("SET", "a", 1)
            rewrite(wire)
            until(lambda: folder_of(server) == listed("2.base.rdb", "2.incr.aof"))
            rewrite(wire)
            until(lambda: folder_of(server) == listed("3.base.rdb", "3.incr.aof"))
            assert wire.call("DEBUG", "LOADAOF").value == b"OK"
            assert folder_of(server) == listed("3.base.rdb", "3.incr.aof")
        server.restart()
        with server.wire() as wire:
            assert folder_of(server) == listed("3.base.rdb", "3.incr.aof")
            rewrite(wire)
            until(lambda: folder_of(server) == listed("4.base.rdb", "4.incr.aof"))
            wire.do("CONFIG SET appendonly no; CONFIG SET appendonly yes")
            until(lambda: rewrite_is_over(wire))
            until(lambda: folder_of(server) == listed("5.base.rdb", "5.incr.aof"))


@pytest.mark.parametrize("kind", KINDS)
def test_switching_on_during_a_background_save_waits_for_its_end(kind):
    flags = ("--rdb-key-save-delay", "20000", "--enable-debug-command", "yes")
    with start_server(kind, *flags) as server, server.wire() as wire:
        for number in range(5):
            wire.call("SET", f"k{number}", "v")
        # All come in one read: the save cannot end between them.
        asked = ("BGSAVE",), ("CONFIG", "SET", "appendonly", "yes"), ("INFO", "persistence")
        started, switched, seen = wire.calls(asked)
        assert started.value == b"Background saving started"
        assert switched.value == b"OK"
        for field in ("aof_enabled:1", "aof_rewrite_in_progress:0", "aof_rewrite_scheduled:1"):
            assert f"{field}\r\n".encode() in seen.value
        wire.do("CONFIG SET rdb-key-save-delay 0; SET late v")
        until(lambda: rewrite_is_over(wire))
        until(lambda: folder_of(server) == listed("1.base.rdb", "1.incr.aof"))
        expected = wire.call("DBSIZE").plain()
        server.flags = (*server.flags, "--appendonly", "yes")
        server.restart()
        with server.wire() as again:
            assert again.call("DBSIZE").plain() == expected == 6


@pytest.mark.parametrize("kind", KINDS)
def test_history_files_go_when_their_removal_is_allowed_again(kind):
    with start_server(kind, *QUIET, "--aof-disable-auto-gc", "yes") as server, server.wire() as wire:
        rewrite(wire)
        rewrite(wire)
        names, lines = folder_of(server)
        assert len(names) == 7
        assert sorted(line[5] for line in lines) == ["b", "h", "h", "h", "h", "i"]
        assert wire.call("CONFIG", "SET", "aof-disable-auto-gc", "no").value == b"OK"
        until(lambda: folder_of(server) == listed("3.base.rdb", "3.incr.aof"))


# Scripts in a file


def start_with(kind, folder, script, *flags):
    """A server that loads an append-only file with one script in database 9, perhaps still loading."""
    directory = folder / FOLDER
    directory.mkdir()
    (directory / "appendonly.aof.manifest").write_text("file appendonly.aof.1.incr.aof seq 1 type i\n")
    commands = encode_command("SELECT", 9) + encode_command("EVAL", script, 0)
    (directory / "appendonly.aof.1.incr.aof").write_bytes(commands)
    port = free_port()
    words = [
        require_binary(kind),
        "--port",
        port,
        "--dir",
        folder,
        "--save",
        "",
        "--bind",
        "127.0.0.1",
        *QUIET,
    ]
    with (folder / "log").open("wb") as log:
        return port, subprocess.Popen([str(word) for word in (*words, *flags)], stdout=log, stderr=log)


@contextlib.contextmanager
def connected(port, process):
    """A connection to a server as soon as it listens; the server ends with it."""
    wires = []

    def connect():
        with contextlib.suppress(OSError, ConnectionClosedError):
            wires.append(Wire(port))
        return wires

    try:
        until(connect)
        yield wires[0]
        wires[0].close()
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("kind", KINDS)
def test_a_script_in_a_file_writes_in_a_read_only_replica(kind, tmp_path):
    started = start_with(kind, tmp_path, "redis.call('set', 'k', 'v')", "--replicaof", "127.0.0.1 1")
    with connected(*started) as wire:
        until(lambda: wire.call("SELECT", 9).value == b"OK")
        until(lambda: wire.call("GET", "k").plain() == b"v")
        assert wire.call("SET", "k", "w").value.startswith(b"READONLY")


@pytest.mark.parametrize("kind", KINDS)
def test_while_a_script_in_a_file_runs_clients_hear_loading_or_busy(kind, tmp_path):
    script = "redis.call('set', 'k', 'v') while true do end"
    with connected(*start_with(kind, tmp_path, script, "--lua-time-limit", 10)) as wire:
        assert wire.call("GET", "k").value.startswith(b"LOADING")
        until(lambda: wire.call("INFO").value.startswith(b"BUSY"))
        assert wire.call("SCRIPT", "KILL").value.startswith(b"LOADING")
        assert wire.call("PING").value.startswith(b"LOADING")


def test_the_error_of_a_script_in_a_file_is_logged(tmp_path):
    port, process = start_with("rillet", tmp_path, "return redis.call('lpop', 'k', 'not a number')")
    with connected(port, process) as wire:
        until(lambda: wire.call("PING").value == b"PONG")
    assert (
        "AOF: 'eval' answered an error while being replayed: ERR value is out of range"
        in (tmp_path / "log").read_text()
    )


# Checking


@pytest.mark.parametrize(
    "data",
    [
        encode_command("SET", "file", "file"),
        encode_command("SET", *["file appendonly.aof.2.base.rdb seq 2 type b"] * 2),
        b"#TS:1628217470\r\n" + encode_command("SET", "x\nfile a.aof seq 1 type b\n", "v"),
    ],
)
def test_an_old_style_file_that_looks_like_a_manifest_is_checked_as_a_file(data, tmp_path):
    path = tmp_path / "appendonly.aof"
    path.write_bytes(data)
    for words, program in (
        (["redis-check-aof", path], "redis810"),
        (["rillet", "check-aof", path], "rillet"),
    ):
        command = {"args": words, "executable": require_binary(program)}
        each = subprocess.run(**command, capture_output=True, text=True, check=False)
        assert each.returncode == 0
        assert each.stdout.startswith("Start checking Old-Style AOF\n")
        assert "is valid" in each.stdout
