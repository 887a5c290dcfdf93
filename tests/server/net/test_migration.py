"""MIGRATE: to and from real servers, to targets that misbehave, and beside other clients."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Self

import pytest
from support.deployments.replication import Peer
from support.live import LiveServer, eventually
from support.servers import start_server
from support.wire import ConnectionClosedError

READING = b"IOERR error or timeout reading to target instance"
WRITING = b"IOERR error or timeout writing to target instance"
OK = b"+OK\r\n"


class Target:
    """A listening socket that answers one connection as a test says."""

    def __init__(self, behave: Callable[[Peer], None]) -> None:
        self._behave = behave
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(60)
        self.port: int = self._listener.getsockname()[1]
        self._peer: Peer | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        self._peer = Peer(self._listener.accept()[0])
        with contextlib.suppress(OSError, ConnectionClosedError):
            self._behave(self._peer)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()
        self._listener.close()
        if self._peer is not None:
            self._peer.close()


def take(peer: Peer, name: str) -> list[bytes]:
    """The next command, which must have this name."""
    words = peer.command()
    assert words[0] == name.encode()
    return words


def accepts(*answers: bytes) -> Callable[[Peer], None]:
    """A target that takes SELECT and answers the keys with these bytes."""

    def behave(peer: Peer) -> None:
        take(peer, "select")
        peer.send_raw(OK)
        for answer in answers:
            take(peer, "restore")
            peer.send_raw(answer)

    return behave


def nothing() -> None:
    """No change comes between."""


def confirms(sent: list[list[bytes]], *meanwhile: Callable[[], object]) -> Callable[[Peer], None]:
    """A target that takes SELECT, and a key for each function, which it calls before it confirms the key."""

    def behave(peer: Peer) -> None:
        take(peer, "select")
        peer.send_raw(OK)
        for act in meanwhile:
            sent.append(take(peer, "restore"))
            act()
            peer.send_raw(OK)

    return behave


@pytest.fixture
def server() -> Iterator[LiveServer]:
    with LiveServer(appendonly=True) as server:
        yield server


@pytest.fixture(scope="module", params=["redis810", "rillet"])
def other(request):
    with start_server(request.param) as process:
        yield process


def test_keys_of_every_type_move_with_their_times(server, other):
    with server.wire() as wire, other.wire() as there:
        there.call("FLUSHALL")
        wire.do(
            "SET string v PX 1000000; RPUSH list a b; SADD set a; HSET hash f v; ZADD zset 1.5 m"
            "; XADD stream 1-1 f v"
        )
        names = ["string", "list", "set", "hash", "zset", "stream"]
        moved = wire.call("MIGRATE", "127.0.0.1", other.port, "", 3, 5000, "KEYS", *names, "missing")
        assert moved.value == b"OK"
        assert wire.call("EXISTS", *names).value == b"0"
        there.call("SELECT", 3)
        assert sorted(there.call("KEYS", "*").plain()) == sorted(name.encode() for name in names)
        assert there.call("XRANGE", "stream", "-", "+").plain() == [[b"1-1", [b"f", b"v"]]]
        assert 0 < int(there.call("PTTL", "string").value) <= 1_000_000
        assert there.call("PTTL", "list").value == b"-1"
        assert server.aof()[-1] == [b"DEL", *(name.encode() for name in names)]
        there.call("FLUSHALL")


def test_a_real_server_moves_keys_here(server):
    with start_server("redis810") as real, real.wire() as there, server.wire() as wire:
        there.do("SET a 1 EX 1000; XADD s 1-1 f v")
        reply = there.call("MIGRATE", "127.0.0.1", server.port, "", 2, 5000, "KEYS", "a", "s")
        assert reply.value == b"OK"
        wire.call("SELECT", 2)
        assert wire.call("GET", "a").value == b"1"
        assert wire.call("XLEN", "s").value == b"1"
        there.call("SET", "a", "2")
        busy = there.call("MIGRATE", "127.0.0.1", server.port, "a", 2, 5000).value
        assert busy == b"ERR Target instance replied with error: BUSYKEY Target key name already exists."


def test_copy_and_replace(server, other):
    with server.wire() as wire, other.wire() as there:
        there.call("FLUSHALL")
        target = ("127.0.0.1", other.port, "a", 0, 5000)
        wire.call("SET", "a", "1")
        assert wire.call("MIGRATE", *target, "COPY").value == b"OK"
        assert wire.call("GET", "a").value == b"1"
        busy = wire.call("MIGRATE", *target).value
        assert busy == b"ERR Target instance replied with error: BUSYKEY Target key name already exists."
        assert wire.call("GET", "a").value == b"1"
        wire.call("SET", "a", "2")
        assert wire.call("MIGRATE", *target, "REPLACE").value == b"OK"
        assert there.call("GET", "a").value == b"2"
        assert wire.call("EXISTS", "a").value == b"0"


def test_credentials(server):
    with (
        start_server("redis810", "--requirepass", "secret") as real,
        real.wire() as there,
        server.wire() as wire,
    ):
        there.do("AUTH secret; ACL SETUSER mover on >pw +@all ~*")
        target = ("127.0.0.1", real.port, "a", 0, 5000)
        wire.call("SET", "a", "1")
        refused = b"ERR Target instance replied with error: "
        assert wire.call("MIGRATE", *target).value == refused + b"NOAUTH Authentication required."
        assert wire.call("MIGRATE", *target, "AUTH", "no").value.startswith(refused + b"WRONGPASS")
        assert wire.call("MIGRATE", *target, "COPY", "AUTH", "secret").value == b"OK"
        assert wire.call("MIGRATE", *target, "REPLACE", "AUTH2", "mover", "pw").value == b"OK"
        assert there.call("GET", "a").value == b"1"


def test_a_refused_database_keeps_keys_out_of_every_database(server, other):
    with server.wire() as wire, other.wire() as there:
        there.call("FLUSHALL")
        wire.call("SET", "a", "1")
        refused = wire.call("MIGRATE", "127.0.0.1", other.port, "a", 99, 5000).value
        assert refused == b"ERR Target instance replied with error: ERR DB index is out of range"
        assert wire.call("EXISTS", "a").value == b"1"
        assert there.call("DBSIZE").value == b"0"


def test_only_confirmed_keys_are_deleted(server):
    with server.wire() as wire, Target(accepts(OK, b"-BUSYKEY x\r\n", OK)) as target:
        wire.call("MSET", "a", "1", "b", "2", "c", "3")
        reply = wire.call("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", "a", "b", "c")
        assert reply.value == b"ERR Target instance replied with error: BUSYKEY x"
        assert wire.call("KEYS", "*").plain() == [b"b"]


@pytest.mark.parametrize(
    "behave",
    [
        pytest.param(lambda peer: (peer.command(), peer.close()), id="closes"),
        pytest.param(lambda peer: peer.close(), id="closes at once"),
        pytest.param(lambda peer: peer.send_raw(b"foo\r\n"), id="no protocol"),
        pytest.param(lambda peer: peer.send_raw(b"\0" * 70_000), id="a line without an end"),
        pytest.param(accepts(b":1\r\n"), id="an integer"),
        pytest.param(accepts(b"+OK" + b"x" * 100 + b"\r\n"), id="another status"),
        pytest.param(lambda peer: (accepts(b"-ERR")(peer), peer.close()), id="half an error"),
    ],
)
def test_a_target_that_breaks_the_protocol_gets_no_key(server, behave):
    with server.wire() as wire, Target(behave) as target:
        wire.call("SET", "a", "1")
        reply = wire.call("MIGRATE", "127.0.0.1", target.port, "a", 0, 60_000)
        assert reply.value in {READING, WRITING}
        assert wire.call("GET", "a").value == b"1"


def test_others_are_served_while_a_target_never_answers(server):
    with server.wire() as wire, server.wire() as other:

        def behave(peer: Peer) -> None:
            take(peer, "select")
            assert other.call("INCR", "a").value == b"2"

        reply = unconnected = b"IOERR error or timeout connecting to the client"
        while reply == unconnected:  # by a pause of the machine
            wire.call("SET", "a", "1")
            with Target(behave) as target:
                reply = wire.call("MIGRATE", "127.0.0.1", target.port, "a", 0, 500).value
        assert reply == READING
        assert other.call("GET", "a").value == b"2"


def test_a_client_that_leaves_still_has_its_keys_moved(server):
    with server.wire() as other:
        released = threading.Event()

        def behave(peer: Peer) -> None:
            take(peer, "select")
            released.wait(60)
            peer.send_raw(OK)
            take(peer, "restore")
            peer.send_raw(OK)

        with Target(behave) as target:
            other.call("SET", "a", "1")
            with server.wire() as wire:
                wire.send("MIGRATE", "127.0.0.1", target.port, "a", 0, 60_000)
                server.wait_for_blocked(1)
            server.wait_for_blocked(0)
            released.set()
            eventually(lambda: other.call("EXISTS", "a").value == b"0")


def test_a_client_that_is_unblocked_and_goes_elsewhere_loses_no_key_there(server):
    with server.wire() as wire, server.wire() as other, server.wire() as watcher:
        number = wire.call("CLIENT", "ID").plain()

        def go_elsewhere() -> None:
            other.call("CLIENT", "UNBLOCK", number)
            wire.read()
            wire.do("SELECT 1; SET a there")

        with Target(confirms([], go_elsewhere)) as target:
            wire.call("SET", "a", "here")
            wire.send("MIGRATE", "127.0.0.1", target.port, "a", 0, 60_000)
            eventually(lambda: watcher.call("EXISTS", "a").value == b"0")
        assert wire.call("GET", "a").value == b"there"


def test_nothing_is_deleted_in_a_pause_of_writes(server):
    with server.wire() as wire, server.wire() as other:
        with Target(confirms([], lambda: other.call("CLIENT", "PAUSE", 100_000, "WRITE"))) as target:
            wire.call("SET", "a", "1")
            assert wire.call("MIGRATE", "127.0.0.1", target.port, "a", 0, 60_000).value == WRITING
        assert wire.call("EXISTS", "a").value == b"1"
        assert server.aof()[-1] == [b"SET", b"a", b"1"]


def test_a_key_that_changes_on_its_way_is_sent_again(server):
    sent: list[list[bytes]] = []
    with server.wire() as wire, server.wire() as other:
        meanwhile = (lambda: other.call("APPEND", "a", "2")), nothing
        with Target(confirms(sent, *meanwhile)) as target:
            wire.call("SET", "a", "1")
            assert wire.call("MIGRATE", "127.0.0.1", target.port, "a", 0, 60_000).value == b"OK"
        assert [len(words) for words in sent] == [4, 5]  # the second with REPLACE
        wire.call("RESTORE", "again", "0", sent[1][3])
        assert wire.call("GET", "again").value == b"12"
        assert wire.call("EXISTS", "a").value == b"0"


UNSEEN_BY_WATCH = {
    "XREADGROUP GROUP g c COUNT 1 STREAMS s >": "an entry delivered meanwhile",
    "XACK s g 1-1": "an acknowledgement",
    "XCLAIM s g other 0 1-1": "a claim",
    "XAUTOCLAIM s g other 0 0": "all claims",
    "XNACK s g FAIL IDS 1 1-1": "an entry given back",
    "XREADGROUP GROUP g c STREAMS s 0": "a history read again",
    "XGROUP CREATE s h 0": "a group",
    "XGROUP SETID s g 1-1": "its place",
    "XGROUP CREATECONSUMER s g new": "a consumer",
    "XGROUP DELCONSUMER s g c": "the end of a consumer",
    "XGROUP DESTROY s g": "the end of a group",
    "PEXPIRE s 1000000": "a time to live",
    "HPEXPIRE h 1000000 FIELDS 1 f": "one of a field",
}


@pytest.mark.parametrize("change", UNSEEN_BY_WATCH, ids=list(UNSEEN_BY_WATCH.values()))
def test_what_watch_does_not_see_is_sent_again_too(server, change):
    key = "h" if change.startswith("H") else "s"
    sent: list[list[bytes]] = []
    with server.wire() as wire, server.wire() as other:
        meanwhile = (lambda: other.call(*change.split())), nothing
        with Target(confirms(sent, *meanwhile)) as target:
            wire.call("HSET", "h", "f", "v")
            for n in (1, 2, 3):
                wire.call("XADD", "s", f"{n}-{n}", "f", "v")
            wire.do("XGROUP CREATE s g 0; XREADGROUP GROUP g c COUNT 1 STREAMS s >")
            server.clock.freeze()
            assert wire.call("MIGRATE", "127.0.0.1", target.port, key, 0, 60_000).value == b"OK"
        assert sent[0][1:] != sent[1][1:-1]  # the second with REPLACE


def test_keys_that_others_change_all_the_time_move_while_their_writes_wait(server):
    sent: list[list[bytes]] = []
    with server.wire() as wire, server.wire() as other, server.wire() as reader:

        def write() -> None:
            other.call("APPEND", "a", "2")

        def wait() -> None:
            other.send("APPEND", "a", "3")
            assert other.pending(0.1) == b""
            assert reader.call("GET", "a").value == b"1222"

        with Target(confirms(sent, write, write, write, wait)) as target:
            wire.call("SET", "a", "1")
            assert wire.call("MIGRATE", "127.0.0.1", target.port, "a", 0, 60_000).value == b"OK"
            assert other.read().plain() == 1
        assert len(sent) == 4
        assert wire.call("GET", "a").value == b"3"


def test_a_slow_target_holds_writes_up_for_one_timeout_in_all(server):
    with server.wire() as wire, server.wire() as other:

        def write() -> None:
            for key in "abc":
                other.call("APPEND", key, "2")

        rounds = 3 * [nothing, nothing, write]
        for _ in range(10):
            with Target(confirms([], *rounds, *(3 * [lambda: time.sleep(0.3)]))) as target:
                for key in "abc":
                    wire.call("SET", key, "1")
                words = ["MIGRATE", "127.0.0.1", target.port, "", 0, 500, "KEYS", "a", "b", "c"]
                reply = wire.call(*words).value
                length = other.call("APPEND", "c", "3").plain()
            if length == 5:  # else a pause of the machine has ended an earlier round
                break
        assert (reply, length) == (WRITING, 5)


def test_a_group_that_polls_without_an_end_does_not_keep_its_stream_from_moving(server, other):
    """Each poll is a change: the time at which the consumer was seen."""
    ended = threading.Event()

    def poll() -> None:
        with server.wire() as poller:
            while not ended.is_set():
                poller.call("XREADGROUP", "GROUP", "g", "c", "STREAMS", "polled", ">")

    with server.wire() as wire, other.wire() as target:
        target.call("FLUSHALL")
        wire.call("XGROUP", "CREATE", "polled", "g", "0", "MKSTREAM")
        wire.call("XADD", "polled", "1-1", "f", "v" * 100_000)
        wire.call("XREADGROUP", "GROUP", "g", "c", "STREAMS", "polled", ">")
        threads = [threading.Thread(target=poll) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            moved = wire.call("MIGRATE", "127.0.0.1", other.port, "polled", 0, 60_000).value
        finally:
            ended.set()
            for thread in threads:
                thread.join()
        assert moved == b"OK"
        assert wire.call("EXISTS", "polled").plain() == 0
        assert target.call("XPENDING", "polled", "g").plain()[0] == 1


def test_a_key_that_is_deleted_on_its_way_counts_as_moved(server):
    with server.wire() as wire, server.wire() as other:
        with Target(confirms([], lambda: other.call("DEL", "a"))) as target:
            wire.call("SET", "a", "1")
            assert wire.call("MIGRATE", "127.0.0.1", target.port, "a", 0, 60_000).value == b"OK"
        assert server.aof()[-1] == [b"DEL", b"a"]
        assert len([words for words in server.aof() if words[0] == b"DEL"]) == 1


def test_a_failure_of_ours_answers_the_client_and_keeps_the_keys(server, monkeypatch):
    def fails(*_: object, **__: object) -> None:
        raise MemoryError

    with server.wire() as wire, Target(accepts()) as target:
        wire.call("SET", "a", "1")
        monkeypatch.setattr("rillet.server.net.migration.dump_value", fails)
        assert wire.call("MIGRATE", "127.0.0.1", target.port, "a", 0, 5000).value == b"ERR internal error"
        assert wire.call("GET", "a").value == b"1"


def test_transactions_and_scripts_refuse_it(server):
    with server.wire() as wire:
        wire.do("SET a 1; MULTI; MIGRATE 127.0.0.1 1 a 0 1000")
        assert b"runs neither in a transaction nor in a script" in wire.call("EXEC").plain()[0]
        script = "return redis.call('migrate', '127.0.0.1', '1', 'a', '0', '1000')"
        assert b"runs neither in a transaction nor in a script" in wire.call("EVAL", script, 0).value


def test_passwords_are_hidden_from_monitors(server):
    with server.wire() as wire, server.wire() as watcher:
        watcher.call("MONITOR")
        wire.call("MIGRATE", "127.0.0.1", 1, "nokey", 0, 1000, "AUTH2", "user", "password")
        line = watcher.read().value
        assert b"password" not in line
        assert line.endswith(
            b'"MIGRATE" "127.0.0.1" "1" "nokey" "0" "1000" "AUTH2" "(redacted)" "(redacted)"'
        )


def test_nothing_is_deleted_once_the_server_is_a_replica(server):
    """A client that waits for a target while its server fails over: the new master has the key, so both keep it."""
    answers = threading.Event()
    with (
        start_server("redis810") as replica,
        replica.wire() as there,
        server.wire() as other,
        server.wire() as wire,
    ):
        wire.call("SET", "a", "1")
        there.call("REPLICAOF", "127.0.0.1", server.port)
        eventually(lambda: b"state=online" in other.call("INFO", "replication").value)
        with Target(confirms([], lambda: answers.wait(60))) as target:
            wire.send("MIGRATE", "127.0.0.1", target.port, "a", 0, 60_000)
            server.wait_for_blocked(1)
            assert other.call("FAILOVER").value == b"OK"
            eventually(lambda: b"master_link_status:up" in other.call("INFO", "replication").value)
            assert wire.read().value.startswith(b"UNBLOCKED")
            answers.set()
        assert there.call("SET", "b", "2").value == b"OK"
        eventually(lambda: other.call("EXISTS", "b").value == b"1")
        for each in (there, other):
            assert each.call("GET", "a").value == b"1"
        assert b"master_link_status:up" in other.call("INFO", "replication").value


def test_a_key_that_came_from_another_master_during_the_transfer_stays(server):
    answers, asked = threading.Event(), threading.Event()

    def behave(peer: Peer) -> None:
        take(peer, "select")
        peer.send_raw(OK)
        take(peer, "restore")
        asked.set()
        answers.wait(60)
        peer.send_raw(OK)
        take(peer, "restore")
        peer.send_raw(b"-ERR not this one\r\n")

    with (
        start_server("redis810") as master,
        master.wire() as there,
        server.wire() as other,
        server.wire() as wire,
    ):
        wire.call("SET", "a", "1")
        there.call("SET", "a", "of the master")
        with Target(behave) as target:
            wire.send("MIGRATE", "127.0.0.1", target.port, "a", 0, 60_000)
            assert asked.wait(60)
            other.call("REPLICAOF", "127.0.0.1", master.port)
            eventually(lambda: b"master_link_status:up" in other.call("INFO", "replication").value)
            other.call("REPLICAOF", "NO", "ONE")
            answers.set()
        assert other.call("GET", "a").value == b"of the master"
