"""What a master says to its replica, byte for byte: the replica is played by the test."""

from pathlib import Path

import pytest
from support.deployments.replication import call, info, pause
from support.live import LiveServer
from support.until import until

from rillet.commands.runtime.step_sizes import ServerTuning


@pytest.fixture
def master(started):
    return started("rillet", "--repl-ping-replica-period", 3600)


def test_after_a_diskless_snapshot_the_stream_waits_for_the_first_ack(master, connect):
    replica = connect(master, "eof", "psync2")
    call(master, "SET", "before", "1")
    history, offset, file = replica.full_sync()
    assert history.decode() == info(master, "master_replid")
    assert file.startswith(b"REDIS0010")
    assert b"before" in file
    call(master, "SET", "after", "2")
    assert replica.pending(0.2) == b""
    replica.send("REPLCONF", "ACK", offset)
    assert [replica.command() for _ in range(2)] == [[b"select", b"0"], [b"set", b"after", b"2"]]


def test_without_capa_eof_the_snapshot_has_a_length_and_the_stream_follows(master, connect):
    replica = connect(master, "psync2")
    replica.send("PSYNC", "?", "-1")
    assert replica.line().startswith(b"+FULLRESYNC ")
    header = replica.line()
    assert header[1:].isdigit()
    assert replica.exactly(int(header[1:])).startswith(b"REDIS0010")
    call(master, "SET", "after", "2")
    assert replica.expect("select", "set") == [b"set", b"after", b"2"]


def test_repl_diskless_sync_no_sends_a_length_to_every_replica(master, connect):
    call(master, "CONFIG", "SET", "repl-diskless-sync", "no")
    replica = connect(master, "eof", "psync2")
    replica.send("PSYNC", "?", "-1")
    assert replica.line().startswith(b"+FULLRESYNC ")
    assert replica.payload(with_length=True).startswith(b"REDIS")
    until(lambda: not list(master.dir.glob("temp-*")))


def test_sync_is_answered_by_the_snapshot_alone(master, connect):
    replica = connect(master)
    replica.send("SYNC")
    assert replica.payload().startswith(b"REDIS")
    call(master, "SET", "k", "v")
    replica.expect("select", "set")


@pytest.mark.parametrize(
    ("announced", "setting", "expected"),
    [
        ("version 7.0.15", 0, b"0010"),
        ("version 9.1.2", 0, b"0011"),
        ("version 9.1.2", 10, b"0010"),
        ("version 7.0.15", 11, b"0011"),
        ("", 0, b"0010"),
        ("", 12, b"0012"),
        ("capa rdb-channel-repl", 0, b"0015"),
        ("capa rdb-channel-repl", 13, b"0013"),
        ("capa rillet-7.0 version 9.0.0", 0, b"0015"),
    ],
)
def test_the_snapshot_is_one_that_the_replica_can_read(started, announced, setting, expected, connect):
    master = started("rillet", "--compat-version", "8.10", "--repl-rdb-version", setting)
    replica = connect(master, "eof", "psync2")
    if announced:
        assert replica.call("REPLCONF", *announced.split()).value == b"OK"
    assert replica.full_sync()[2][5:9] == expected


def test_nor_newer_than_the_server_answers_as(started, connect):
    master = started("rillet", "--compat-version", "8.6")
    replica = connect(master, "eof", "psync2", "rdb-channel-repl")
    assert replica.full_sync()[2][5:9] == b"0013"


def test_a_replica_that_knows_the_history_gets_what_it_lacks(master, connect):
    first = connect(master, "eof", "psync2")
    history, offset, _ = first.full_sync()
    first.send("REPLCONF", "ACK", offset)
    call(master, "SET", "k", "v")
    missing = b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n"
    assert first.exactly(len(missing)) == missing
    for at in (0, 23, len(missing)):
        again = connect(master, "psync2")
        again.send("PSYNC", history, offset + 1 + at)
        assert again.line() == b"+CONTINUE " + history
        assert again.exactly(len(missing) - at) == missing[at:]
    old = connect(master)
    old.send("PSYNC", history, offset + 1)
    assert old.line() == b"+CONTINUE"
    assert info(master, "sync_partial_ok") == "4"


@pytest.mark.parametrize("beyond", [False, True])
def test_a_replica_that_asks_for_what_is_not_kept_gets_a_snapshot(master, beyond, connect):
    first = connect(master, "eof", "psync2")
    history, offset, _ = first.full_sync()
    again = connect(master, "eof", "psync2")
    place = (history.decode(), offset + 2) if beyond else ("f" * 40, offset + 1)
    assert again.full_sync(*place)[0] == history
    assert info(master, "sync_partial_err") == "1"
    assert info(master, "sync_full") == "2"


def test_the_next_replica_hears_the_database_again(master, connect):
    first = connect(master, "eof", "psync2")
    first.acknowledged_sync()
    call(master, "SET", "a", "1")
    second = connect(master, "eof", "psync2")
    second.acknowledged_sync()
    call(master, "SET", "b", "2")
    assert second.expect("select", "set") == [b"set", b"b", b"2"]
    first.expect("select", "set a", "select", "set b")


def test_published_messages_go_to_replicas_and_not_to_the_file(started, connect):
    master = started("rillet", "--appendonly", "yes", "--repl-ping-replica-period", 3600)
    replica = connect(master, "eof", "psync2")
    replica.acknowledged_sync()
    call(master, "PUBLISH", "channel", "one")
    with master.wire() as wire:
        for words in (("MULTI",), ("SET", "k", "v"), ("SPUBLISH", "shard", "two"), ("EXEC",)):
            wire.call(*words)
    replica.expect("select", "publish channel one", "multi", "set k v", "spublish shard two", "exec")
    data = b"".join(path.read_bytes() for path in (master.dir / "appendonlydir").glob("*.incr.aof"))
    assert b"one" not in data
    assert b"two" not in data
    assert b"MULTI" not in data
    assert data.endswith(b"$1\r\nk\r\n$1\r\nv\r\n")


def test_wait_asks_for_an_acknowledgement_and_ends_with_it(master, connect):
    replica = connect(master, "eof", "psync2")
    offset = replica.acknowledged_sync()
    with master.wire() as wire:
        assert wire.call("WAIT", 0, 0).plain() == 1  # it wrote nothing, so they have all of it
        wire.call("SET", "k", "v")
        wire.send("WAIT", 1, 0)
        replica.expect("select", "set", "replconf getack *")
        assert wire.pending(0.05) == b""
        written = len(b"*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n")
        replica.send("REPLCONF", "ACK", offset + written - 1)
        assert wire.pending(0.05) == b""
        replica.send("REPLCONF", "ACK", offset + written)
        assert wire.read().plain() == 1
        wire.call("SET", "k", "w")
        assert wire.call("WAIT", 2, 50).plain() == 0
        wire.do("MULTI; WAIT 1 0")
        assert wire.call("EXEC").plain() == [0]


def test_an_acknowledgement_does_not_end_what_a_client_waits_for_after_wait(master, connect):
    replica = connect(master, "eof", "psync2")
    offset = replica.acknowledged_sync()
    with master.wire() as wire:
        wire.call("SET", "k", "v")
        assert wire.call("WAIT", 1, 20).plain() == 0
        wire.send("BLPOP", "l", 0)
        replica.expect("select", "set", "replconf getack *")
        replica.send("REPLCONF", "ACK", offset + 1000)
        assert wire.pending(0.05) == b""
        assert call(master, "RPUSH", "l", "v") == 1
        assert wire.read().plain() == [b"l", b"v"]


def test_clients_that_wait_and_leave_are_not_kept():
    with LiveServer() as server:
        server.inside.tuning = ServerTuning(waits=4)
        for _ in range(20):
            with server.wire() as wire:
                assert wire.call("WAIT", 1, 1).plain() == 0
        assert len(server.inside.replication.waits._waits) < 10


def test_waitaof_counts_what_replicas_have_on_the_disk(started, connect):
    master = started("rillet", "--appendonly", "yes")
    replica = connect(master, "eof", "psync2")
    replica.acknowledged_sync()
    with master.wire() as wire:
        wire.call("SET", "k", "v")
        replica.send("REPLCONF", "ACK", 1000)
        assert wire.call("WAITAOF", 1, 0, 0).plain() == [1, 0]
        wire.send("WAITAOF", 0, 1, 0)
        assert wire.pending(0.05) == b""
        replica.send("REPLCONF", "ACK", 1000, "FACK", 1000)
        assert wire.read().plain() == [1, 1]


def test_replconf_is_answered_as_by_redis(master, connect):
    replica = connect(master)
    for words, answer in (
        ("listening-port 7000", b"OK"),
        ("ip-address 10.0.0.1 capa eof capa unheard-of", b"OK"),
        ("rdb-only 1", b"OK"),
        ("rdb-filter-only functions", b"OK"),
        ("rdb-filter-only keys", b"ERR Unsupported rdb-filter-only option: keys"),
        ("nonsense 1", b"ERR Unrecognized REPLCONF option: nonsense"),
        ("listening-port", b"ERR syntax error"),
        ("listening-port x", b"ERR value is not an integer or out of range"),
        ("version x", b"ERR Unrecognized version format: x"),
        (f"version {'9' * 5000}.0.0", b"ERR Unrecognized version format: " + b"9" * 5000 + b".0.0"),
    ):
        assert replica.call("REPLCONF", *words.split()).value == answer, words
    replica.send("REPLCONF", "ACK", 5)
    replica.send("REPLCONF", "GETACK", "*")
    assert replica.call("PING").value == b"PONG"


def test_replicas_that_come_within_the_delay_share_a_snapshot(started, connect):
    master = started("rillet")
    call(master, "CONFIG", "SET", "repl-diskless-sync-delay", "3600")
    replicas = [connect(master, "eof", "psync2") for _ in range(3)]
    for replica in replicas[:2]:
        replica.send("PSYNC", "?", "-1")
    until(lambda: call(master, "INFO", "replication").count(b"state=wait_bgsave") == 2)
    call(master, "CONFIG", "SET", "repl-diskless-sync-delay", "0")
    replicas[2].send("PSYNC", "?", "-1")
    assert len({replica.line() for replica in replicas}) == 1
    for replica in replicas:
        assert replica.payload().startswith(b"REDIS")
    assert master.log.count("Starting snapshot for SYNC") == 1
    assert info(master, "sync_full") == "3"
    call(master, "CONFIG", "SET", "repl-diskless-sync-delay", "1")
    connect(master, "eof", "psync2").full_sync()
    assert master.log.count("Delay next snapshot for diskless SYNC") == 2


def test_a_replica_in_the_list_and_out_of_it(master, connect):
    replica = connect(master, "eof", "psync2")
    replica.call("REPLCONF", "listening-port", 7777)
    offset = replica.acknowledged_sync()
    address = f"slave0:ip=127.0.0.1,port=7777,state=online,offset={offset},lag=0"

    def is_listed() -> bool:
        replica.send("REPLCONF", "ACK", offset)  # each second without one is a lag
        return address in call(master, "INFO", "replication").decode()

    until(is_listed)
    assert call(master, "ROLE") == [b"master", offset, [[b"127.0.0.1", b"7777", b"%d" % offset]]]
    assert info(master, "connected_clients") == "1"
    line = call(master, "CLIENT", "LIST", "TYPE", "replica").decode()
    assert " flags=S " in line
    assert " cmd=replconf " in line
    assert call(master, "CLIENT", "KILL", "TYPE", "slave") == 1
    assert replica.is_closed_by_server()
    until(lambda: info(master, "connected_slaves") == "0")


def test_pings_come_in_their_period_and_empty_lines_while_a_snapshot_is_awaited(started, connect):
    master = started("rillet", "--repl-ping-replica-period", 1)
    replica = connect(master, "eof", "psync2")
    replica.acknowledged_sync()
    replica.expect("ping", "ping")
    call(master, "CONFIG", "SET", "repl-diskless-sync-delay", "3600")
    waiting = connect(master, "eof", "psync2")
    waiting.send("PSYNC", "?", "-1")
    assert waiting.exactly(2) == b"\n\n"


def test_a_silent_replica_is_left_after_repl_timeout(started, connect):
    master = started("rillet")
    replica = connect(master, "eof", "psync2")
    replica.acknowledged_sync()
    call(master, "CONFIG", "SET", "repl-timeout", 1)
    until(lambda: "Disconnecting timedout replica" in master.log)
    until(lambda: info(master, "connected_slaves") == "0")


def test_a_replica_that_does_not_read_is_closed_at_its_output_limit(master, connect):
    call(master, "CONFIG", "SET", "client-output-buffer-limit", "replica 20000000 0 0")
    replica = connect(master, "eof", "psync2")
    replica.full_sync()
    # It does not acknowledge the snapshot either: what it shall get is held.
    with master.wire() as wire:
        for _ in range(50):
            wire.call("SET", "k", "x" * 1_000_000)
    until(lambda: info(master, "connected_slaves") == "0")
    assert "closed for overcoming of output buffer limits" in master.log


def test_the_backlog_is_freed_after_its_time_without_replicas(started, connect):
    master = started("rillet", "--repl-backlog-ttl", 1)
    replica = connect(master, "eof", "psync2")
    history = replica.full_sync()[0].decode()
    assert info(master, "repl_backlog_active") == "1"
    replica.close()
    until(lambda: info(master, "repl_backlog_active") == "0")
    assert info(master, "master_replid") != history


def test_expired_keys_are_deleted_on_replicas_by_name(master, connect):
    replica = connect(master, "eof", "psync2")
    replica.acknowledged_sync()
    call(master, "SET", "k", "v", "PX", 1)
    replica.expect("select", "set k v pxat", "del k")


def test_writes_need_as_many_good_replicas_as_configured(master, connect):
    call(master, "CONFIG", "SET", "min-replicas-to-write", 1)
    refused = b"NOREPLICAS Not enough good replicas to write."
    assert call(master, "SET", "k", "v") == refused
    assert call(master, "GET", "k") is None
    with master.wire() as wire:
        wire.call("MULTI")
        assert wire.call("SET", "k", "v").plain() == refused
        assert wire.call("EXEC").plain().startswith(b"EXECABORT")
    replica = connect(master, "eof", "psync2")
    replica.acknowledged_sync()
    until(lambda: info(master, "min_slaves_good_slaves") == "1")
    assert call(master, "SET", "k", "v") == b"OK"
    replica.close()
    until(lambda: call(master, "SET", "k", "v") == refused)
    call(master, "CONFIG", "SET", "min-replicas-max-lag", 0)
    assert call(master, "SET", "k", "v") == b"OK"


def test_the_server_keeps_serving_while_a_slow_replica_takes_its_snapshot(master, connect):
    with master.wire() as wire:
        wire.call("CONFIG", "SET", "rdbcompression", "no")
        for number in range(8):
            wire.call("SET", f"k{number}", "x" * 1_000_000)
    slow = connect(master, "eof", "psync2")
    slow.send("PSYNC", "?", "-1")
    assert slow.line().startswith(b"+FULLRESYNC ")
    header = slow.line()
    pause(0.2)
    call(master, "SET", "late", "1")
    file = slow.exactly(8_000_000)
    while not file.endswith(header[5:]):
        file += slow.exactly(1)
    assert b"late" not in file
    slow.send("REPLCONF", "ACK", 0)
    assert slow.expect("select", "set") == [b"set", b"late", b"1"]


@pytest.mark.parametrize("kind", ["rillet", "redis7", "redis810"])
def test_a_snapshot_that_no_replica_is_left_for_holds_the_next_replica_up_no_longer(started, connect, kind):
    master = started(kind, "--repl-diskless-sync", "no", "--rdb-key-save-delay", 600_000_000)
    call(master, "SET", "k", "v")
    leaving = connect(master, "eof", "psync2")
    leaving.send("PSYNC", "?", "-1")
    assert leaving.line().startswith(b"+FULLRESYNC ")
    children = Path(f"/proc/{master.pid}/task/{master.pid}/children")
    until(children.read_text)
    leaving.close()
    until(lambda: info(master, "connected_slaves") == "0")
    until(lambda: not children.read_text())
    call(master, "CONFIG", "SET", "rdb-key-save-delay", 0)
    assert connect(master, "eof", "psync2").full_sync()[2].startswith(b"REDIS")


def test_a_snapshot_goes_on_while_one_of_its_replicas_is_left(started, connect):
    master = started("rillet", "--repl-diskless-sync-delay", 3600)
    replicas = [connect(master, "eof", "psync2") for _ in range(2)]
    replicas[0].send("PSYNC", "?", "-1")
    until(lambda: b"state=wait_bgsave" in call(master, "INFO", "replication"))
    call(master, "CONFIG", "SET", "repl-diskless-sync-delay", 0)
    replicas[1].send("PSYNC", "?", "-1")
    assert replicas[0].line() == replicas[1].line()
    replicas[0].close()
    assert replicas[1].payload().startswith(b"REDIS")


@pytest.mark.parametrize("kind", ["rillet", "redis810"])
def test_a_replica_may_ask_for_parts_of_the_snapshot(started, connect, kind):
    master = started(kind, "--repl-diskless-sync", "no")
    call(master, "SET", "k", "v")
    call(master, "FUNCTION", "LOAD", "#!lua name=lib\nredis.register_function('f', function() end)")
    bad = b"ERR Unsupported rdb-filter-only option: bad"
    for words, answer, has_library in (
        (["rdb-filter-only", "functions"], b"OK", True),
        (["rdb-filter-only", '"FUNCTIONS" functions', "rdb-only", "1"], b"OK", True),
        (["rdb-filter-only", ""], b"OK", False),
        (["rdb-filter-only", "functions", "rdb-filter-only", ""], b"OK", False),
        (["rdb-filter-only", "functions bad keys"], bad, True),
        (["rdb-filter-only", "bad functions"], bad, False),
        (["rdb-filter-only", '"functions'], b"ERR Missing rdb-filter-only values", None),
        (["rdb-only", "2"], b"ERR value is out of range, value must between 0 and 1", None),
    ):
        replica = connect(master, "eof")
        assert replica.call("REPLCONF", *words).value == answer
        file = replica.full_sync()[2]
        assert (b"\x00\x01k\x01v" in file) == (has_library is None)
        assert (b"#!lua name=lib" in file) == (has_library is not False)
        if "rdb-only 1" in " ".join(words):
            call(master, "SET", "k", "v")
            assert replica.pending(0.1) == b""
        replica.close()
    unable = connect(master)
    unable.call("REPLCONF", "rdb-filter-only", "functions")
    for request in (["PSYNC", "?", "-1"], ["SYNC"]):
        assert unable.call(*request).value == b"ERR Filtered replica requires EOF capability"
