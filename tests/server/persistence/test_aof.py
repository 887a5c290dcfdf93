"""The append-only file at work: nothing is confirmed before it is written, and everything is there again."""

import threading

import pytest
from support.live import Gate, LiveServer, eventually, words
from support.ports import free_port
from support.servers import ServerProcess, require_binary
from support.wire import ConnectionClosedError, Wire

from rillet.storage.aof.loader import AofLoader
from rillet.testing import StartError


@pytest.fixture
def server():
    with LiveServer(appendonly=True, appendfsync="no") as server:
        yield server


# Everything is there again


def fill(wire):
    for number in range(1, 6):
        wire.call("XADD", "s", f"{number}-1", "n", number)
    wire.do(
        "XGROUP CREATE s g 0; XREADGROUP GROUP g alice COUNT 3 STREAMS s >"
        "; XCLAIM s g bob 0 2-1 RETRYCOUNT 7; XACK s g 1-1; XGROUP CREATECONSUMER s g idle; XDEL s 5-1"
        "; XADD t MAXLEN 0 9-9 a b; SET k v PX 100000000; SELECT 3; XADD s 7-7 other db; SELECT 0"
    )


def digest(wire):
    return wire.call("DEBUG", "DIGEST").value


@pytest.mark.parametrize("policy", ["always", "everysec", "no"])
@pytest.mark.parametrize("timestamps", [False, True])
def test_a_restart_keeps_everything(policy, timestamps):
    with LiveServer(appendonly=True, appendfsync=policy, aof_timestamp_enabled=timestamps) as server:
        with server.wire() as wire:
            fill(wire)
            before = digest(wire)
            pending = wire.call("XPENDING", "s", "g", "-", "+", "10").plain()
            assert [(entry[0], entry[1], entry[3]) for entry in pending] == [
                (b"2-1", b"bob", 7),
                (b"3-1", b"alice", 1),
            ]
        for _ in range(2):
            server.restart()
            with server.wire() as wire:
                assert digest(wire) == before


def test_debug_loadaof_replays_the_file(server, wire):
    fill(wire)
    before = digest(wire)
    assert wire.call("DEBUG", "LOADAOF").value == b"OK"
    assert digest(wire) == before
    size = len(server.aof())
    wire.call("XADD", "s", "20-1", "a", "b")
    assert server.aof()[size:] == words("XADD s 20-1 a b") or server.aof()[-1] == words("XADD s 20-1 a b")[0]


def test_a_key_that_debug_reload_finds_expired_leaves_the_file_too(server, wire):
    wire.call("DEBUG", "SET-ACTIVE-EXPIRE", "0")
    try:
        wire.do("SET s x PX 1000; DEBUG CLOCK ADVANCE 2000")
        assert wire.call("DEBUG", "RELOAD").value == b"OK"
        wire.call("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
        assert wire.call("DEBUG", "LOADAOF").value == b"OK"
        assert wire.call("TYPE", "s").value == b"stream"
    finally:
        wire.do("DEBUG CLOCK RESET; DEBUG SET-ACTIVE-EXPIRE 1")


def test_a_reader_blocked_across_debug_loadaof_is_served_afterwards(server, wire):
    wire.call("XGROUP", "CREATE", "s", "g", "$", "MKSTREAM")
    with server.wire() as reader:
        server.block(reader, "XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "s", ">")
        assert wire.call("DEBUG", "LOADAOF").value == b"OK"
        assert wire.call("XADD", "s", "1-1", "a", "b").value == b"1-1"
        assert reader.read().plain() == [[b"s", [[b"1-1", [b"a", b"b"]]]]]


# Replies wait for the file


def test_a_reply_leaves_after_the_write(server, wire):
    gate = Gate(server, "write")
    with server.wire() as other:
        other.call("PING")
        wire.send("SET", "k", "v")
        eventually(lambda: gate.calls)
        assert wire.pending() == b""
        gate.open.set()
        assert wire.read().value == b"OK"
        assert server.aof()[-1] == [b"SET", b"k", b"v"]


def test_under_always_replies_wait_for_the_fsync_and_share_it():
    with LiveServer(appendonly=True, appendfsync="always") as server, server.wire() as first:
        first.call("SET", "k", "0")
        gate = Gate(server, "fdatasync")
        first.send_raw(b"SET k 1\r\n")
        eventually(lambda: gate.calls == 1)
        others = [server.wire() for _ in range(10)]
        for number, wire in enumerate(others):
            wire.send("SET", f"k{number}", "v")
        eventually(lambda: server.inside.stats.commands_processed >= 12)
        assert [wire.pending() for wire in (first, *others)] == [b""] * 11
        gate.open.set()
        assert first.read().value == b"OK"
        for wire in others:
            assert wire.read().value == b"OK"
            wire.close()
        assert gate.calls == 2, "one for the first, one for all that came during it"


def test_under_always_replies_of_one_client_keep_their_order():
    with LiveServer(appendonly=True, appendfsync="always") as server, server.wire() as wire:
        for number in range(300):
            wire.send("INCR" if number % 3 else "GET", "n")
        replies = [wire.read().plain() for _ in range(300)]
        assert [int(reply) for reply in replies if reply is not None] == sorted(
            int(reply) for reply in replies if reply is not None
        )
        assert replies[-1] == 200


def test_under_everysec_no_reply_waits_for_the_fsync():
    with LiveServer(appendonly=True, appendfsync="everysec") as server, server.wire() as wire:
        gate = Gate(server, "fdatasync")
        wire.call("SET", "k", "0")
        eventually(lambda: gate.calls == 1)
        for number in range(20):  # while the fsync is under way
            assert wire.call("SET", "k", number).value == b"OK"
        assert server.aof()[-1] == [b"SET", b"k", b"19"]
        assert server.info("aof_pending_bio_fsync") == "1"
        gate.open.set()
        eventually(lambda: not server.inside.persistence.is_syncing)


def test_under_no_the_file_is_written_without_fsync(server, wire):
    gate = Gate(server, "fdatasync")
    gate.open.set()
    wire.call("SET", "k", "v")
    assert server.aof()[-1] == [b"SET", b"k", b"v"]
    assert gate.calls == 0


def test_a_write_without_a_reply_is_written_too(server, wire):
    wire.send_raw(b"CLIENT REPLY OFF\r\nSET k v\r\n")
    eventually(lambda: [b"SET", b"k", b"v"] in server.aof())


# A disk that refuses


def test_under_always_an_error_ends_the_server_and_the_reply_never_comes():
    for operation in ("write", "fdatasync"):
        server = LiveServer(appendonly=True, appendfsync="always").start()
        inside = server.inside
        with server.wire() as wire:
            wire.call("SET", "k", "v")
            server.break_disk(operation)
            wire.send("SET", "k", "w")
            with pytest.raises((ConnectionClosedError, ConnectionError)):
                wire.read()
        server._thread.join(30)
        assert inside.exit_status == 1
        server.stop()


def test_a_disk_that_is_full_at_the_end_sets_the_exit_status():
    server = LiveServer(appendonly=True).start()
    inside = server.inside
    with server.wire() as wire:
        wire.call("SET", "k", "v")
        server.break_disk("write")
        wire.call("SET", "k", "w")
    server.stop()
    assert inside.exit_status == 1


# Switching off


def test_appendonly_no_finishes_the_file_and_stops(server, wire):
    wire.do("SET k v; CONFIG SET appendonly no")
    before = server.aof()
    assert before[-1] == [b"SET", b"k", b"v"]
    wire.call("SET", "k", "w")
    assert server.aof() == before
    assert server.info("aof_enabled") == "0"


def test_appendonly_no_heals_a_server_that_could_not_write(server, wire):
    server.break_disk("write")
    wire.call("SET", "k", "v")
    assert wire.call("SET", "k", "v").value.startswith(b"MISCONF")
    assert wire.call("CONFIG", "SET", "appendonly", "no").value == b"OK"
    assert wire.call("SET", "k", "w").value == b"OK"


def test_appendonly_no_lets_replies_that_wait_for_an_fsync_go_in_order():
    with LiveServer(appendonly=True, appendfsync="always") as server, server.wire() as wire:
        gate = Gate(server, "fdatasync")
        wire.send_raw(b"SET k v\r\n")
        eventually(lambda: gate.calls == 1)
        threading.Timer(0.05, gate.open.set).start()

        def switch_off():
            server.inside.config.appendonly = False
            server.inside.persistence.switch_off()
            # In this very turn, before the fsync reports back:
            next(iter(server.inside.clients.values())).data_received(b"GET k\r\n")

        server.run_inside(switch_off)
        assert [wire.read().value, wire.read().value] == [b"OK", b"v"]


# Loading


def test_clients_get_loading_while_a_file_is_loaded(tmp_path, monkeypatch):
    with LiveServer(dir=tmp_path, appendonly=True) as server, server.wire() as wire:
        for number in range(1, 500):
            wire.call("XADD", "s", f"{number}-1", "f", "x" * 1000)
    go_on = threading.Event()
    real = AofLoader.batches

    def batches(self):
        while not go_on.is_set():
            yield []
        yield from real(self)

    monkeypatch.setattr(AofLoader, "batches", batches)
    server = LiveServer(dir=tmp_path, appendonly=True, port=free_port())
    starting = threading.Thread(target=server.start)
    starting.start()

    def connect():
        try:
            return Wire(server.port)
        except OSError:
            return None

    try:
        with eventually(connect) as wire:
            loading = b"LOADING Redis is loading the dataset in memory"
            for refused in (["PING"], ["GET", "k"], ["XADD", "s", "*", "a", "b"]):
                assert wire.call(*refused).value == loading
            assert b"\r\nloading:1\r\n" in wire.call("INFO", "persistence").value
            assert b"\r\nloading_total_bytes:" in wire.call("INFO", "persistence").value
            assert wire.call("HELLO", "2").kind == "*"
            wire.call("MULTI")
            assert wire.call("GET", "k").value == loading
            assert wire.call("EXEC").value.startswith(b"EXECABORT")
            go_on.set()
            starting.join()
            assert wire.call("XLEN", "s").plain() == 499
            assert b"\r\nloading:0\r\n" in wire.call("INFO", "persistence").value
    finally:
        go_on.set()
        starting.join()
        server.stop()


def test_a_server_stopped_while_loading_leaves_the_file_unchanged(tmp_path, monkeypatch):
    with LiveServer(dir=tmp_path, appendonly=True) as server, server.wire() as wire:
        wire.call("SET", "k", "v")
    file = tmp_path / "appendonlydir" / "appendonly.aof.1.incr.aof"
    before = file.read_bytes()

    def batches(self):
        while True:
            yield []

    with monkeypatch.context() as patch:
        patch.setattr(AofLoader, "batches", batches)
        server = LiveServer(dir=tmp_path, appendonly=True, port=free_port())
        failed = []

        def start():
            try:
                server.start()
            except StartError as error:
                failed.append(error)

        starting = threading.Thread(target=start)
        starting.start()
        inside = eventually(lambda: server._server)
        eventually(lambda: inside.loading)
        inside.loop.call_soon_threadsafe(inside.stop)
        starting.join(30)
        assert not starting.is_alive()
        assert failed
    assert file.read_bytes() == before
    with LiveServer(dir=tmp_path, appendonly=True) as server, server.wire() as wire:
        assert wire.call("GET", "k").value == b"v"


def incr_file(folder):
    return folder / "appendonlydir" / "appendonly.aof.1.incr.aof"


def make_aof(folder):
    with LiveServer(dir=folder, appendonly=True) as server, server.wire() as wire:
        wire.do("SET a 1; SET b 2")
    return incr_file(folder)


@pytest.mark.parametrize(
    ("tail", "flags", "message"),
    [
        (b"garbage\r\n", (), "Bad file format reading the append only file appendonly.aof.1.incr.aof"),
        (b"*1\r\n$4\r\nNOPE\r\n", (), "Unknown command 'NOPE' reading the append only file"),
        (
            b"*1\r\n$4\r\nXADD\r\n" * 9,
            (),
            "Wrong number of arguments for 'xadd' reading the append only file",
        ),
        (b"*2\r\n$4\r\nXADD\r\n$1\r\ns\r\n" * 9, (), "Wrong number of arguments for 'xadd' reading"),
        (
            b"*3\r\n$3\r\nSET",
            ("--aof-load-truncated", "no"),
            "Unexpected end of file reading the append only file",
        ),
    ],
)
def test_a_file_that_cannot_be_loaded_ends_the_start_with_status_1(tmp_path, tail, flags, message):
    require_binary("rillet")
    file = make_aof(tmp_path)
    whole = file.read_bytes()
    file.write_bytes(whole + tail)
    with pytest.raises(RuntimeError, match=r"exit 1") as caught:
        ServerProcess("rillet", "--appendonly", "yes", *flags, folder=tmp_path)
    log = str(caught.value)
    assert message in log
    if message.startswith(("Bad", "Unexpected")):
        assert f"byte offset {len(whole)}" in log
    assert "Traceback" not in log
    assert file.read_bytes() == whole + tail
