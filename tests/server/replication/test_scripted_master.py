"""What a replica says to its master, byte for byte: the master is played by the test."""

import secrets

import pytest
from support.deployments.replication import FakeMaster, call, info, pause
from support.until import until
from support.wire import encode_command

from rillet.storage.keyspace.keyspace import Keyspace
from rillet.storage.rdb import rdb_chunks

HISTORY = "a" * 40


@pytest.fixture
def master():
    with FakeMaster() as master:
        yield master


def snapshot(**strings: str) -> bytes:
    keyspace = Keyspace(16)
    for key, value in strings.items():
        keyspace.databases[0].put(key.encode(), value.encode())
    return b"".join(rdb_chunks(keyspace))


def in_sync(replica, master, offset=100, **strings):
    """A link that has loaded a snapshot and acknowledged it."""
    peer, words = master.lead(replica)
    assert words[::2] == [b"psync", b"1"]
    file = snapshot(**strings)
    peer.send_raw(f"+FULLRESYNC {HISTORY} {offset}\r\n$".encode() + b"%d\r\n%b" % (len(file), file))
    acknowledged(peer, offset)
    return peer


def acknowledged(peer, offset: int) -> None:
    """Read acknowledgements until one of an offset."""
    while (words := peer.command()) != [b"replconf", b"ACK", b"%d" % offset]:
        assert words[:2] == [b"replconf", b"ACK"], words


@pytest.mark.parametrize("kind", ["rillet", "redis810", "redis7"])
def test_a_master_that_becomes_a_replica_asks_to_continue_its_own_history(started, master, kind):
    replica = started(kind)
    own = info(replica, "master_replid").encode()
    call(replica, "REPLICAOF", "127.0.0.1", master.port)
    for _ in range(2):
        peer, words = master.accept()
        assert words[1:] == [own, b"1"]
        peer.send_raw(f"+FULLRESYNC {HISTORY} 1\r\n".encode())
        peer.close()


@pytest.mark.parametrize("kind", ["rillet", "redis810", "redis7"])
def test_a_server_that_begins_as_a_replica_has_nothing_to_continue(started, master, kind):
    started(kind, "--replicaof", f"127.0.0.1 {master.port}")
    assert master.accept()[1][1:] == [b"?", b"-1"]


def test_a_replica_introduces_itself_in_order(started, master):
    replica = started(
        "rillet", "--masterauth", "secret", "--masteruser", "bob", "--replica-announce-ip", "10.1.1.1"
    )
    call(replica, "REPLICAOF", "127.0.0.1", master.port)
    peer = master.accept.__self__._listener.accept()[0]
    peer.settimeout(20)
    said = []
    buffer = b""
    for answer in (b"+PONG", b"+OK", b"+OK", b"+OK", b"+OK", b"-ERR Unrecognized REPLCONF option: version"):
        buffer = peer.recv(4096)
        said.append(buffer)
        peer.sendall(answer + b"\r\n")
    said.append(peer.recv(4096))
    peer.close()
    assert said == [
        encode_command("PING"),
        encode_command("AUTH", "bob", "secret"),
        encode_command("REPLCONF", "listening-port", replica.port),
        encode_command("REPLCONF", "ip-address", "10.1.1.1"),
        encode_command("REPLCONF", "capa", "eof", "capa", "psync2", "capa", "rillet-8.0"),
        encode_command("REPLCONF", "version", "9.0.0"),
        encode_command("PSYNC", info(replica, "master_replid"), 1),
    ]


def test_commands_are_applied_and_acknowledged_on_request(started, master):
    replica = started("rillet")
    peer = in_sync(replica, master, old="1")
    stream = encode_command("SELECT", 3) + encode_command("SET", "k", "v")
    peer.send_raw(stream + encode_command("REPLCONF", "GETACK", "*"))
    acknowledged(peer, 100 + len(stream))
    with replica.wire() as wire:
        wire.call("SELECT", 3)
        assert wire.call("GET", "k").plain() == b"v"
    acknowledged(peer, 100 + len(stream) + len(encode_command("REPLCONF", "GETACK", "*")))


def test_a_transaction_is_applied_whole_or_asked_for_again(started, master):
    replica = started("rillet")
    peer = in_sync(replica, master)
    whole = encode_command("SELECT", 1) + encode_command("SET", "a", "1")
    half = encode_command("MULTI") + encode_command("SET", "a", "2")
    rest = encode_command("SET", "b", "2") + encode_command("EXEC")
    peer.send_raw(whole + half)
    with replica.wire() as wire:
        wire.call("SELECT", 1)
        until(lambda: wire.call("GET", "a").plain() == b"1")
        peer.close()
        peer, words = master.accept()
        assert words == [b"psync", HISTORY.encode(), b"%d" % (101 + len(whole))]
        peer.send_raw(b"+CONTINUE\r\n" + half + rest)
        acknowledged(peer, 100 + len(whole + half + rest))
        assert wire.call("MGET", "a", "b").plain() == [b"2", b"2"]


def test_a_new_history_of_the_master_is_adopted(started, master):
    replica = started("rillet")
    peer = in_sync(replica, master)
    peer.close()
    peer, _ = master.accept()
    peer.send_raw(b"+CONTINUE %b\r\n" % (b"b" * 40))
    acknowledged(peer, 100)
    assert info(replica, "master_replid") == "b" * 40
    assert info(replica, "master_replid2") == HISTORY
    assert info(replica, "second_repl_offset") == "101"


@pytest.mark.parametrize("marked", [True, False])
def test_a_damaged_snapshot_leaves_the_data_as_it_was(started, master, marked):
    replica = started("rillet")
    call(replica, "SET", "mine", "1")
    call(replica, "REPLICAOF", "127.0.0.1", master.port)
    file = bytearray(snapshot(theirs="2"))
    file[-12] ^= 1
    mark = secrets.token_hex(20).encode()
    own = info(replica, "master_replid").encode()
    for _ in range(2):
        peer, words = master.accept()
        assert words[1] == own
        peer.send_raw(f"+FULLRESYNC {HISTORY} 1\r\n".encode())
        peer.send_raw(b"$EOF:%b\r\n%b%b" % (mark, file, mark) if marked else b"$%d\r\n%b" % (len(file), file))
        assert peer.is_closed_by_server()
        peer.close()
    assert call(replica, "GET", "mine") == b"1"
    assert "Failed trying to load the MASTER synchronization DB" in replica.log
    assert list(replica.dir.glob("temp-*")) == []


def test_a_snapshot_cut_off_leaves_the_data_as_it_was(started, master):
    replica = started("rillet")
    call(replica, "SET", "mine", "1")
    peer, _ = master.lead(replica)
    file = snapshot(theirs="2")
    peer.send_raw(f"+FULLRESYNC {HISTORY} 1\r\n".encode() + b"$%d\r\n%b" % (len(file), file[:-5]))
    until(lambda: info(replica, "master_sync_read_bytes") == str(len(file) - 5))
    assert info(replica, "master_sync_left_bytes") == "5"
    assert info(replica, "master_sync_in_progress") == "1"
    assert list(replica.dir.glob("temp-*")) == []  # nothing would stay if it were killed now
    peer.close()
    peer, _ = master.accept()
    assert call(replica, "GET", "mine") == b"1"


@pytest.mark.parametrize("junk", [b"+OK\r\n", b"hello\r\n", b"*1\r\n:1\r\n"])
def test_junk_in_the_stream_ends_the_link_and_not_the_replica(started, master, junk):
    replica = started("rillet")
    peer = in_sync(replica, master, k="v")
    peer.send_raw(encode_command("SET", "k", "w") + junk)
    peer.close()
    peer, words = master.accept()
    peer.close()
    assert call(replica, "GET", "k") == b"w"
    assert int(words[2]) == 101 + len(encode_command("SET", "k", "w"))


def test_a_command_that_fails_is_logged_and_the_link_continues(started, master):
    replica = started("rillet")
    peer = in_sync(replica, master, k="v")
    stream = (
        encode_command("XADD", "k", "1-0", "a", "b")
        + encode_command("NOSUCH", "l", "1")
        + encode_command("SET", "k", "w")
    )
    peer.send_raw(stream + encode_command("REPLCONF", "GETACK", "*"))
    acknowledged(peer, 100 + len(stream))
    assert call(replica, "GET", "k") == b"w"
    assert replica.log.count("== CRITICAL ==") == 2


def test_a_silent_master_is_left_after_repl_timeout(started, master):
    replica = started("rillet")
    peer = in_sync(replica, master)
    call(replica, "CONFIG", "SET", "repl-timeout", 1)
    until(lambda: "MASTER timeout" in replica.log)
    call(replica, "CONFIG", "SET", "repl-timeout", 60)
    peer.close()
    peer, words = master.accept()
    assert words[1] == HISTORY.encode()


def test_refusals_are_tried_again(started, master):
    replica = started("rillet", "--masterauth", "wrong")
    call(replica, "REPLICAOF", "127.0.0.1", master.port)
    accepted = master._listener.accept()[0]
    accepted.recv(100)
    accepted.sendall(b"-NOAUTH Authentication required.\r\n")
    accepted.recv(100)
    accepted.sendall(b"-WRONGPASS no\r\n")
    accepted.close()
    peer, _ = master.accept()
    peer.send_raw(b"-NOMASTERLINK Can't SYNC while not connected with my master\r\n")
    peer.close()
    peer, _ = master.accept()
    assert "Unable to AUTH to MASTER: -WRONGPASS no" in replica.log
    assert info(replica, "master_link_status") == "down"
    assert call(replica, "ROLE")[3] == b"handshake"


def test_what_has_expired_is_hidden_until_the_master_deletes_it(started, master):
    replica = started("rillet")
    peer = in_sync(replica, master, keep="1")
    stream = encode_command("SET", "gone", "1", "PXAT", 5) + encode_command("XADD", "s", "1-0", "a", "b")
    stream += encode_command("PEXPIREAT", "s", 5)
    peer.send_raw(stream)
    acknowledged(peer, 100 + len(stream))
    pause(0.3)
    with replica.wire() as wire:
        for words, answer in (
            (("GET", "gone"), None),
            (("EXISTS", "gone", "s", "keep"), 1),
            (("TTL", "gone"), -2),
            (("XRANGE", "s", "-", "+"), []),
            (("KEYS", "*"), [b"keep"]),
            (("SCAN", 0), [b"0", [b"keep"]]),
            (("RANDOMKEY",), b"keep"),
            (("DBSIZE",), 3),
        ):
            assert wire.call(*words).plain() == answer, words
        # For the master's own commands it is still there.
        more = encode_command("APPEND", "gone", "2") + encode_command("PERSIST", "gone")
        peer.send_raw(more)
        acknowledged(peer, 100 + len(stream + more))
        assert wire.call("GET", "gone").plain() == b"12"
        last = encode_command("DEL", "s")
        peer.send_raw(last)
        acknowledged(peer, 100 + len(stream + more + last))
        assert wire.call("DBSIZE").plain() == 2
    assert info(replica, "expired_keys") == "0"


def test_randomkey_of_a_replica_names_an_expired_key_where_all_keys_may_expire(started, master):
    """As a real replica, which tries for a while; one key without a time is always found."""
    replica = started("rillet")
    peer = in_sync(replica, master)
    stream = b"".join(encode_command("SET", f"gone:{number}", "1", "PXAT", 5) for number in range(1000))
    peer.send_raw(stream)
    acknowledged(peer, 100 + len(stream))
    with replica.wire() as wire:
        assert wire.call("RANDOMKEY").plain().startswith(b"gone:")
        peer.send_raw(encode_command("SET", "keep", "1"))
        until(lambda: wire.call("EXISTS", "keep").plain())
        assert wire.call("RANDOMKEY").plain() == b"keep"
        assert wire.call("DBSIZE").plain() == 1001


def test_clients_hear_loading_or_read_the_old_data_while_a_snapshot_is_awaited(started, master):
    replica = started("rillet")
    call(replica, "SET", "mine", "1")
    call(replica, "REPLICAOF", "127.0.0.1", master.port)
    assert call(replica, "GET", "mine") == b"1"
    call(replica, "CONFIG", "SET", "replica-serve-stale-data", "no")
    down = b"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."
    assert call(replica, "GET", "mine") == down
    assert call(replica, "PING") == down
    assert call(replica, "SET", "k", "v") == b"READONLY You can't write against a read only replica."
    assert call(replica, "INFO", "server").startswith(b"# Server")
    peer, _ = master.accept()
    file = snapshot(theirs="2")
    peer.send_raw(f"+FULLRESYNC {HISTORY} 1\r\n".encode() + b"$%d\r\n%b" % (len(file), file))
    acknowledged(peer, 1)
    assert call(replica, "MGET", "mine", "theirs") == [None, b"2"]
