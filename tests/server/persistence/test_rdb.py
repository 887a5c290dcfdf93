"""The dump file: when it is written, what happens where it cannot be, and what is loaded at the start."""

import os
import signal
from pathlib import Path

import pytest
from support.aof import AofTail, flags_for
from support.live import Gate, LiveServer, eventually
from support.servers import start_server
from support.wire import ConnectionClosedError, encode_command

from rillet.storage.codecs.crc64 import crc64
from rillet.testing import StartError

MISCONF = b"MISCONF Redis is configured to save RDB snapshots"


@pytest.fixture
def server():
    with LiveServer() as server:
        yield server


def files_of(server):
    return sorted(path.name for path in server.folder.iterdir() if path.suffix == ".rdb")


def fill(wire):
    for number in range(1, 6):
        wire.call("XADD", "s", f"{number}-1", "n", number)
    wire.do(
        "XGROUP CREATE s g 0; XREADGROUP GROUP g alice COUNT 3 STREAMS s >; XDEL s 5-1; SET k v PX 10000000"
        "; SELECT 3; SET other w; SELECT 0"
    )


def digest(wire):
    return wire.call("DEBUG", "DIGEST").value


# Save and load


def test_strings_are_compressed_unless_rdbcompression_is_no(server, wire):
    wire.call("SET", "text", "every sentence ends " * 500)
    for number in range(1, 500):
        wire.call("XADD", "s", f"{number}-1", "sensor", "kitchen", "reading", number)
    before = digest(wire)
    sizes = []
    for choice in ("yes", "no"):
        wire.call("CONFIG", "SET", "rdbcompression", choice)
        wire.call("SAVE")
        sizes.append((server.folder / "dump.rdb").stat().st_size)
        wire.call("DEBUG", "RELOAD", "NOSAVE")
        assert digest(wire) == before
    assert sizes[0] * 3 < sizes[1]


@pytest.mark.parametrize("command", ["SAVE", "BGSAVE"])
def test_what_was_saved_is_there_again(server, wire, command):
    fill(wire)
    before = digest(wire)
    assert not wire.call(command).value.startswith(b"ERR")
    eventually(lambda: server.info("rdb_bgsave_in_progress") == "0")
    assert files_of(server) == ["dump.rdb"]
    wire.call("SET", "late", "lost")
    server.restart()
    with server.wire() as again:
        assert digest(again) == before
        assert again.call("PTTL", "k").plain() > 0
    assert server.info("rdb_last_load_keys_loaded") == "3"


def test_what_no_stream_type_of_the_file_can_say_survives(server, wire):
    for version in (10, 11):
        wire.call("FLUSHALL")
        wire.call("CONFIG", "SET", "rdb-version", version)
        first = wire.call("XADD", "s", "IDMP", "producer", "message", "*", "f", "v").plain()
        wire.call("XADD", "s", "*", "f", "v")
        wire.call("XGROUP", "CREATE", "s", "g", "0")
        wire.call("XGROUP", "CREATECONSUMER", "s", "g", "idle")
        wire.call("XREADGROUP", "GROUP", "g", "bob", "STREAMS", "s", ">")
        wire.call("XNACK", "s", "g", "FAIL", "IDS", 1, first)
        server.clock.freeze()
        before = wire.call("XINFO", "STREAM", "s", "FULL").plain()
        assert wire.call("DEBUG", "RELOAD").plain() == b"OK"
        assert wire.call("XINFO", "STREAM", "s", "FULL").plain() == before
        server.clock.resume()
        assert wire.call("XADD", "s", "IDMP", "producer", "message", "*", "f", "v").plain() == first
        assert wire.call("XINFO", "CONSUMERS", "s", "g").plain()[1][-1] == -1


def test_a_process_of_its_own_forks(tmp_path):
    with start_server("rillet", "--enable-debug-command", "yes", folder=tmp_path) as server:
        with server.wire() as wire:
            fill(wire)
            before = digest(wire)
            assert wire.call("BGSAVE").value == b"Background saving started"
            eventually(lambda: b"bgsave_in_progress:0" in wire.call("INFO", "persistence").value)
            info = wire.call("INFO").value
            assert b"rdb_saves:1\r\n" in info
            assert b"total_forks:1\r\n" in info
            assert b"rdb_last_bgsave_status:ok" in info
            assert b"rdb_changes_since_last_save:0\r\n" in info
        server.restart()
        with server.wire() as wire:
            assert digest(wire) == before


def test_what_changes_during_a_background_save_is_not_in_it(server, wire):
    wire.do("SET k then; XADD s 1-0 f v")
    gate = Gate(server, "fsync")
    wire.call("BGSAVE")
    eventually(lambda: gate.calls)
    assert server.info("rdb_bgsave_in_progress") == "1"
    wire.do("SET k now; XADD s 2-0 f v")
    gate.open.set()
    eventually(lambda: server.info("rdb_bgsave_in_progress") == "0")
    assert server.info("rdb_changes_since_last_save") == "2"
    server.restart()
    with server.wire() as again:
        assert again.call("GET", "k").plain() == b"then"
        assert again.call("XLEN", "s").plain() == 1


def test_info_reports_the_time_of_the_last_save(server, wire):
    server.clock.advance(seconds=1000)
    before = wire.call("LASTSAVE").plain()
    wire.call("SAVE")
    assert wire.call("LASTSAVE").plain() >= before + 1000


def test_a_file_without_checksum_can_be_written():
    with LiveServer(rdbchecksum="no") as server, server.wire() as wire:
        wire.do("SET k v; SAVE")
        assert (server.folder / "dump.rdb").read_bytes().endswith(bytes(8))
        server.restart()
        with server.wire() as again:
            assert again.call("GET", "k").plain() == b"v"


def test_keys_past_their_time_are_left_out_at_the_start(server, wire):
    wire.do("SET k v PX 10000000; SET l v; SAVE")
    server.clock.advance(hours=10)
    server.restart()
    assert (server.info("rdb_last_load_keys_expired"), server.info("rdb_last_load_keys_loaded")) == ("1", "1")


def test_the_dump_file_is_not_looked_at_with_an_aof(tmp_path):
    with start_server("rillet", folder=tmp_path) as server, server.wire() as wire:
        wire.do("SET k v; SAVE")
    with start_server("rillet", "--appendonly", "yes", folder=tmp_path) as server, server.wire() as wire:
        assert wire.call("DBSIZE").plain() == 0


# One at a time


def open_at_the_end(gate, writer):
    """Let a gate be opened when its writer has been told to stop and is waited for, not before."""
    end = writer._end
    writer._end = lambda: (gate.open.set(), end())


def test_a_second_one_is_refused_while_the_first_is_written(server, wire):
    gate = Gate(server, "fsync")
    assert wire.call("BGSAVE").value == b"Background saving started"
    eventually(lambda: gate.calls)
    for command in (["SAVE"], ["BGSAVE"], ["BGSAVE", "SCHEDULE"]):
        assert wire.call(*command).value == b"ERR Background save already in progress"
    gate.open.set()
    eventually(lambda: server.info("rdb_bgsave_in_progress") == "0")
    assert wire.call("SAVE").plain() == b"OK"


def test_it_waits_for_an_aof_rewrite_if_asked(server, wire):
    gate = Gate(server, "write")
    wire.call("BGREWRITEAOF")
    eventually(lambda: gate.calls)
    assert wire.call("BGSAVE").value.startswith(b"ERR Another child process is active (AOF?): can't BGSAVE")
    assert wire.call("BGSAVE", "SCHEDULE").value == b"Background saving scheduled"
    gate.open.set()
    eventually(lambda: server.info("rdb_saves") == "1")


def test_in_a_transaction_it_is_scheduled(server, wire):
    wire.do("MULTI; BGSAVE")
    assert wire.call("EXEC").plain() == [b"Background saving scheduled"]
    eventually(lambda: server.info("rdb_saves") == "1")


# By itself


def test_a_save_point_begins_a_save():
    with LiveServer(save="3600 1000 60 2") as server, server.wire() as wire:
        wire.call("SET", "k", "v")
        server.clock.advance(seconds=100)
        wire.call("PING")
        assert server.info("rdb_saves") == "0"
        wire.call("SET", "l", "v")
        eventually(lambda: server.info("rdb_saves") == "1")  # counted when it begins
        eventually(lambda: server.info("rdb_changes_since_last_save") == "0")


def test_without_save_points_nothing_is_written(server, wire):
    wire.call("SET", "k", "v")
    server.clock.advance(hours=10)
    wire.call("PING")
    server.restart()
    assert files_of(server) == []


@pytest.mark.parametrize(
    ("flags", "saved"),
    [
        (["--save", "3600 1", "--shutdown-on-sigterm", "nosave"], False),
        (["--shutdown-on-sigterm", "save"], True),
    ],
)
def test_the_end_by_signal_saves_as_configured(tmp_path, flags, saved):
    with start_server("rillet", *flags, folder=tmp_path) as server:
        with server.wire() as wire:
            wire.call("SET", "k", "v")
        server.stop()
    assert (tmp_path / "dump.rdb").exists() is saved
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("temp")] == []


def test_flushall_leaves_no_file_that_brings_the_data_back():
    with LiveServer(save="3600 1") as server, server.wire() as wire:
        wire.do("SET k v; SAVE; FLUSHALL")
        assert server.info("rdb_changes_since_last_save") == "0"
        assert b"\x01k" not in (server.folder / "dump.rdb").read_bytes()


def test_flushall_stops_a_save_of_what_it_deletes(server, wire):
    wire.call("SET", "k", "v")
    gate = Gate(server, "fsync")
    wire.call("BGSAVE")
    eventually(lambda: gate.calls)
    open_at_the_end(gate, server.inside.snapshots._writer)
    wire.call("FLUSHALL")
    assert server.info("rdb_bgsave_in_progress") == "0"
    assert files_of(server) == []


# Trouble


def test_a_full_disk_is_reported_and_stops_writes_until_a_save_succeeds():
    with LiveServer(save="3600 1") as server, server.wire() as wire:
        wire.call("SET", "k", "v")
        mend = server.break_disk("write")
        wire.call("BGSAVE")
        eventually(lambda: server.info("rdb_last_bgsave_status") == "err")
        assert files_of(server) == []
        assert wire.call("SET", "k", "w").value.startswith(MISCONF)
        assert wire.call("PING").value.startswith(MISCONF)
        assert wire.call("GET", "k").plain() == b"v"
        wire.call("CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
        assert wire.call("SET", "k", "w").plain() == b"OK"
        wire.call("CONFIG", "SET", "stop-writes-on-bgsave-error", "yes")
        assert wire.call("SET", "k", "w").value.startswith(MISCONF)
        mend()
        server.clock.advance(seconds=10)  # it tries again by itself only after a while
        wire.call("BGSAVE")
        eventually(lambda: server.info("rdb_last_bgsave_status") == "ok")
        assert wire.call("SET", "k", "w").plain() == b"OK"


def test_a_server_without_save_points_keeps_accepting_writes(server, wire):
    server.break_disk("write")
    wire.call("BGSAVE")
    eventually(lambda: server.info("rdb_last_bgsave_status") == "err")
    assert wire.call("SET", "k", "v").plain() == b"OK"


@pytest.mark.parametrize("kind", ["rillet", "redis7"])
def test_a_file_that_cannot_take_its_place_is_answered_as_by_redis(kind, tmp_path):
    with start_server(kind, "--save", "3600 1", folder=tmp_path) as server, server.wire() as wire:
        (tmp_path / "dump.rdb").mkdir()
        assert wire.call("SAVE").value == b"ERR"
        wire.call("BGSAVE")
        eventually(lambda: b"rdb_last_bgsave_status:err" in wire.call("INFO", "persistence").value)
        assert wire.call("SET", "k", "v").value == (
            b"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands "
            b"that may modify the data set are disabled, because this instance is configured to report errors during "
            b"writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). Please check the Redis logs for "
            b"details about the RDB error."
        )
        assert wire.call("SHUTDOWN").value == b"ERR Errors trying to SHUTDOWN. Check logs."
        os.kill(server.pid, signal.SIGTERM)
        eventually(lambda: "Errors trying to shut down the server" in server.log)
        assert wire.call("GET", "k").is_null
        wire.send("SHUTDOWN", "FORCE")
        with pytest.raises(ConnectionClosedError):
            wire.read()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("temp")] == []


def test_a_child_that_is_killed_is_a_failed_save(tmp_path):
    flags = ("--rdb-key-save-delay", "600000000")
    with start_server("rillet", *flags, folder=tmp_path) as server, server.wire() as wire:
        wire.call("SET", "k", "v")
        wire.call("BGSAVE")
        eventually(lambda: list(tmp_path.glob("temp-*.rdb")))
        child = int(server.log.rpartition("saving started by pid ")[2].split()[0])
        os.kill(child, signal.SIGKILL)
        eventually(lambda: b"rdb_bgsave_in_progress:0" in wire.call("INFO", "persistence").value)
        assert "Background saving terminated by signal 9" in server.log
        assert list(tmp_path.glob("*.rdb")) == []


def end_in_the_last_save(folder) -> tuple[int, str]:
    """Signal a server again once it saves for the last time; return its status and its log."""
    folder.mkdir()
    with start_server("rillet", "--save", "3600 1", folder=folder) as server:
        with server.wire() as wire:
            for number in range(100):
                wire.call("XADD", "s", "*", *(["f", "1"] * 5000), "n", number)
        process = server._process
        process.send_signal(signal.SIGTERM)
        eventually(lambda: "Saving the final RDB snapshot" in server.log)
        process.send_signal(signal.SIGTERM)
        return process.wait(60), server.log


def test_a_second_signal_ends_even_the_last_save(tmp_path):
    for number in range(10):
        folder = tmp_path / str(number)
        status, log = end_in_the_last_save(folder)
        if "DB saved on disk" not in log:  # else the second signal came too late on a busy machine
            break
    assert "You insist... exiting now." in log
    assert status == 1
    assert not (folder / "dump.rdb").exists()


def test_an_end_stops_the_save_under_way(server, wire):
    gate = Gate(server, "fsync")
    wire.call("BGSAVE")
    eventually(lambda: gate.calls)
    open_at_the_end(gate, server.inside.snapshots._writer)
    folder = Path(server.folder)
    server.restart()
    assert list(folder.glob("*.rdb")) == []


# The start


def start_with(folder, data, **options):
    (folder / "dump.rdb").write_bytes(data)
    return LiveServer(dir=str(folder), **options)


MODULE_VALUE = b"REDIS0011\xfe\x00\x07\x05bloom\x81" + bytes(8) + b"\x02\x05\x00\x00\x01k\x01v\xff" + bytes(8)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"REDIS0011\xfe", "Short read or OOM loading DB"),
        (b"hello", "Wrong signature"),
        (MODULE_VALUE, r"key 'bloom' holds a module value.*rdb-skip-unknown-types"),
    ],
)
def test_a_file_that_cannot_be_read_ends_the_start(tmp_path, data, message):
    with pytest.raises(StartError, match=message), start_with(tmp_path, data):
        pass


def test_a_type_that_we_do_not_have_is_left_out_with_a_warning_where_that_is_wanted(tmp_path):
    with start_with(tmp_path, MODULE_VALUE, rdb_skip_unknown_types="yes") as server, server.wire() as wire:
        assert wire.call("KEYS", "*").plain() == [b"k"]


# DEBUG RELOAD


def test_reload_can_load_an_older_file(server, wire):
    wire.do("SET k old; SAVE; SET k new; SET l new")
    assert wire.call("DEBUG", "RELOAD", "NOSAVE", "NOFLUSH").value.startswith(
        b"ERR Error trying to load the RDB"
    )
    assert wire.call("DEBUG", "RELOAD", "NOSAVE", "NOFLUSH", "MERGE").plain() == b"OK"
    assert [wire.call("GET", key).plain() for key in "kl"] == [b"old", b"new"]
    assert wire.call("DEBUG", "RELOAD", "NOSAVE").plain() == b"OK"
    assert wire.call("DBSIZE").plain() == 1


def test_reload_without_a_file_keeps_the_data(server, wire):
    wire.call("SET", "k", "v")
    assert wire.call("DEBUG", "RELOAD", "NOSAVE").value.startswith(b"ERR Error trying to load the RDB")
    assert wire.call("GET", "k").plain() == b"v"


@pytest.mark.parametrize("kind", ["redis810", "rillet"])
def test_a_reload_in_a_transaction_propagates_what_came_before_it(kind):
    with (
        start_server(kind, *flags_for(kind), "--enable-debug-command", "yes") as server,
        server.wire() as wire,
    ):
        tail = AofTail(server)
        for words in (["MULTI"], ["SET", "a", "1"], ["DEBUG", "RELOAD"], ["SET", "b", "2"]):
            wire.call(*words)
        assert wire.call("EXEC").plain() == [b"OK"] * 3
        written = [words for words in tail.take() if words[0] == b"SET"]
    assert [b"SET", b"a", b"1"] in written


# What a right checksum does not prove


def damaged_nodes(path):
    """Damage a node in the middle of a stream of a file, and make the checksum of the file right."""
    data = path.read_bytes()
    damaged = data.replace(b"value-150", b"value\xff150")
    assert damaged != data
    at = damaged.index(b"value\xff150") - 1
    damaged = damaged[:at] + b"\xff" + damaged[at + 1 :]
    path.write_bytes(damaged[:-8] + crc64(damaged[:-8]).to_bytes(8, "little"))


def fill_nodes(server, wire):
    wire.call("CONFIG", "SET", "rdbcompression", "no")
    for number in range(1, 401):
        wire.call("XADD", "s", f"{number}-0", "field", f"value-{number}")
    wire.do("XGROUP CREATE s g 0; XREADGROUP GROUP g amy COUNT 200 STREAMS s >; SAVE")
    damaged_nodes(server.folder / "dump.rdb")


def test_a_damaged_node_of_a_file_fails_where_it_is_read_and_goes_at_the_first_write_to_it(
    server, wire, caplog
):
    fill_nodes(server, wire)
    assert wire.call("DEBUG", "RELOAD", "NOSAVE").plain() == b"OK"
    for _ in range(2):
        assert wire.call("XRANGE", "s", "150-0", "151-0").value == b"ERR internal error"
    assert caplog.text.count("DamagedError: Stream listpack integrity check failed.") == 2
    assert wire.call("XLEN", "s").plain() == 400
    assert len(wire.call("XRANGE", "s", "1-0", "99-0").plain()) == 99
    assert wire.call("XADD", "s", "401-0", "f", "v").plain() == b"401-0"
    assert wire.call("XDEL", "s", "99-0", "150-0", "250-0").value == b"ERR internal error"
    assert wire.call("XLEN", "s").plain() == 300
    assert wire.call("XDEL", "s", "150-0", "250-0").plain() == 1
    assert len(wire.call("XRANGE", "s", "-", "+").plain()) == 299
    assert wire.call("XPENDING", "s", "g").plain()[0] == 200
    assert wire.call("SAVE").plain() == b"OK"
    before = digest(wire)
    wire.call("DEBUG", "RELOAD")
    assert digest(wire) == before


def test_with_sanitize_dump_payload_a_file_with_a_damaged_node_is_refused(server, wire, caplog):
    fill_nodes(server, wire)
    wire.call("CONFIG", "SET", "sanitize-dump-payload", "yes")
    assert wire.call("DEBUG", "RELOAD", "NOSAVE").value.startswith(b"ERR Error trying to load the RDB dump")
    assert "Stream listpack integrity check failed. (key 's')" in caplog.text


def test_an_append_only_file_that_reads_a_damaged_node_of_its_base_is_refused(server, wire, tmp_path):
    fill_nodes(server, wire)
    folder = tmp_path / "appendonlydir"
    folder.mkdir()
    (folder / "appendonly.aof.1.base.rdb").write_bytes((server.folder / "dump.rdb").read_bytes())
    (folder / "appendonly.aof.manifest").write_text(
        "file appendonly.aof.1.base.rdb seq 1 type b\nfile appendonly.aof.1.incr.aof seq 1 type i\n"
    )
    commands = folder / "appendonly.aof.1.incr.aof"
    commands.write_bytes(encode_command("XDEL", "s", "301-0"))
    with start_server("rillet", "--dir", tmp_path, "--appendonly", "yes") as other, other.wire() as there:
        assert there.call("XLEN", "s").plain() == 399
    commands.write_bytes(encode_command("XDEL", "s", "150-0"))
    said = "Stream listpack integrity check failed. A command read this in the append only file"
    with pytest.raises(StartError, match=said), LiveServer(dir=str(tmp_path), appendonly="yes"):
        pass
