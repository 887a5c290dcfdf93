"""Masters that send nonsense: a clear line in the log, no traceback, bounded memory, and the link tries again."""

import asyncio
import contextlib
from pathlib import Path

import pytest
from support.deployments.replication import FakeMaster, call, start
from support.live import LiveServer
from support.until import until
from support.wire import encode_command

HISTORY = "a" * 40
FULL = f"+FULLRESYNC {HISTORY} 100\r\n".encode()
EMPTY = bytes.fromhex("524544495330303131ff") + bytes(8)  # REDIS0011, no checksum
IN_SYNC = FULL + b"$%d\r\n%b" % (len(EMPTY), EMPTY)
MEGABYTES = 64


@pytest.fixture
def master():
    with FakeMaster() as master:
        yield master


@pytest.fixture(scope="module")
def process():
    """A replica for all masters."""
    with start("rillet") as server:
        yield server


@pytest.fixture
def replica(process):
    """The same, without a master and without data."""
    assert call(process, "REPLICAOF", "NO", "ONE") == b"OK"
    assert call(process, "FLUSHALL") == b"OK"
    return process


def memory(server) -> int:
    with Path(f"/proc/{server.pid}/status").open() as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) >> 10


ANSWERS_TO_PSYNC = {
    "an offset that is no number": (f"+FULLRESYNC {HISTORY} x\r\n", "wrong +FULLRESYNC syntax"),
    "a negative offset": (f"+FULLRESYNC {HISTORY} -5\r\n", "wrong +FULLRESYNC syntax"),
    "an offset beyond 64 bits": (f"+FULLRESYNC {HISTORY} {'9' * 30}\r\n", "wrong +FULLRESYNC syntax"),
    "an offset of 5000 digits": (f"+FULLRESYNC {HISTORY} {'9' * 5000}\r\n", "wrong +FULLRESYNC syntax"),
    "no offset": (f"+FULLRESYNC {HISTORY}\r\n", "wrong +FULLRESYNC syntax"),
    "a short id": ("+FULLRESYNC abc 1\r\n", "wrong +FULLRESYNC syntax"),
    "too many words": (f"+FULLRESYNC {HISTORY} 1 2\r\n", "wrong +FULLRESYNC syntax"),
    "an error": ("-ERR no\x1b[31m\r\n", "Master replied to PSYNC: -ERR no\\x1b[31m"),
    "control characters": ("+\x00\x01\x02 y\r\n", "Master replied to PSYNC: +\\x00\\x01\\x02 y"),
    "another protocol": ("HTTP/1.1 400 Bad Request\r\n\r\n", "Master replied to PSYNC: HTTP/1.1"),
    "a line without an end": ("+" + "x" * (3 << 20), "a line without an end"),
    "a snapshot of no length": (FULL.decode() + "$\r\n", "Bad protocol from MASTER"),
    "a snapshot of 5000 digits": (FULL.decode() + f"${'9' * 5000}\r\n", "Bad protocol from MASTER"),
    "a snapshot of negative length": (FULL.decode() + "$-5\r\n", "Bad protocol from MASTER"),
    "a short mark": (FULL.decode() + "$EOF:abc\r\n", "Bad protocol from MASTER"),
    "no snapshot": (FULL.decode() + "$0\r\n", "Failed trying to load the MASTER synchronization DB"),
    "a snapshot of something else": (FULL.decode() + "$9\r\nREDISXXXX", "Failed trying to load the MASTER"),
    "a broken snapshot": (FULL.decode() + "$12\r\nREDIS0011\x00\x05a", "Failed trying to load the MASTER"),
}


def has_no_bug(log: str) -> None:
    assert "Traceback" not in log, log
    assert "Internal error" not in log, log


def hostile(replica, master, answer: bytes, words: str) -> None:
    seen = len(replica.log)
    call(replica, "SET", "mine", "1")
    before = memory(replica)
    peer, _ = master.lead(replica)
    with contextlib.suppress(OSError):  # it need not take all of it
        peer.send_raw(answer)
    until(lambda: words in replica.log[seen:])
    master.accept()  # the link is made again
    has_no_bug(replica.log[seen:])
    assert memory(replica) - before < MEGABYTES
    assert call(replica, "PING") == b"PONG"


@pytest.mark.parametrize("case", ANSWERS_TO_PSYNC)
def test_a_wrong_answer_to_psync_ends_the_attempt(replica, master, case):
    answer, words = ANSWERS_TO_PSYNC[case]
    hostile(replica, master, answer.encode("latin-1"), words)


def test_a_stream_that_was_not_asked_for_ends_the_attempt(master):
    # Without data it has nothing to continue.
    with start("rillet", "--replicaof", "127.0.0.1", master.port) as replica:
        peer, _ = master.accept()
        peer.send_raw(f"+CONTINUE {HISTORY}\r\n".encode())
        until(lambda: "not asked for" in replica.log)
        master.accept()


STREAMS = {
    "an array of 2^63 - 1 words": (b"*9223372036854775807\r\n", "protocol error in the master's stream"),
    "a length that is no number": (b"*x\r\n", "protocol error in the master's stream"),
    "an empty array": (b"*0\r\n", "which is no command"),
    "a null": (b"*-1\r\n", "which is no command"),
    "a string": (b"+OK\r\n", "which is no command"),
    "a map with a list as a key": (b"%1\r\n*1\r\n$1\r\na\r\n$1\r\nb\r\n", "protocol error in the master's stream"),
    "integers": (b"*1\r\n:1\r\n", "which is no command"),
    "bytes of chance": (bytes(range(1, 256)), "protocol error in the master's stream"),
    "a long word": (b"+" + b"x" * (1 << 20) + b"\r\n", "which is no command"),
}  # fmt: skip


@pytest.mark.parametrize("case", STREAMS)
def test_a_stream_of_something_else_ends_the_link(replica, master, case):
    stream, words = STREAMS[case]
    hostile(replica, master, IN_SYNC + stream, words)


@pytest.mark.parametrize(
    "command",
    [
        "SHUTDOWN", "SHUTDOWN NOSAVE", "SHUTDOWN NOW", "PSYNC ? -1", "SYNC", "REPLCONF listening-port 1",
        "REPLCONF ACK 1", "MONITOR", "SUBSCRIBE a", "PSUBSCRIBE a", "SSUBSCRIBE a", "RESET", "HELLO 3", "AUTH x",
        "BLPOP nothing 0", "XREAD BLOCK 0 STREAMS s $", "WAIT 1 0", "WAITAOF 0 1 0", "CLIENT REPLY OFF",
        "CLIENT TRACKING ON", "CLIENT NO-TOUCH ON", "CLIENT INFO", "CLIENT LIST", "CLIENT SETNAME a", "WATCH a", "DISCARD",
        "UNWATCH", "NOSUCH", "SET", "SELECT 99", "SELECT x", "EVAL x 0", "FCALL f 0", "DEBUG JMAP", "CLIENT PAUSE 1",
        "CLIENT UNPAUSE", "CLIENT KILL TYPE master", "SCRIPT KILL", "FAILOVER", "CLUSTER RESET",
    ],
)  # fmt: skip
def test_a_command_that_no_master_sends_harms_nothing(replica, master, command):
    seen = len(replica.log)
    peer, _ = master.lead(replica)
    peer.send_raw(IN_SYNC)
    peer.send_raw(
        encode_command(*command.split()) + encode_command("SELECT", "0") + encode_command("SET", "k", "v")
    )
    until(lambda: call(replica, "GET", "k") == b"v")
    has_no_bug(replica.log[seen:])
    assert call(replica, "PING") == b"PONG"


@pytest.mark.parametrize("command", ["QUIT", "CLIENT KILL TYPE master SKIPME no"])
def test_a_master_that_ends_its_link_is_asked_for_what_it_sent_behind(replica, master, command):
    peer, _ = master.lead(replica)
    stream = encode_command("SELECT", "0") + encode_command(*command.split())
    peer.send_raw(IN_SYNC + stream + encode_command("SET", "k", "v"))
    _, psync = master.accept()
    assert psync == [b"psync", HISTORY.encode(), b"%d" % (101 + len(stream))]
    assert call(replica, "GET", "k") is None


def test_a_link_that_a_user_kills_is_made_again(started, master):
    replica = started("rillet")
    peer, _ = master.lead(replica)
    peer.send_raw(IN_SYNC)
    until(lambda: "Finished with success" in replica.log)
    assert call(replica, "CLIENT", "KILL", "TYPE", "master") == 1
    _, psync = master.accept()
    assert psync == [b"psync", HISTORY.encode(), b"101"]


@pytest.mark.parametrize("stream", [b"*1\r\n$9223372036854775807\r\n", b"*1\r\n" * 100])
def test_a_command_without_an_end_is_waited_for_until_the_link_ends(started, master, stream):
    replica = started("rillet")
    before = memory(replica)
    peer, _ = master.lead(replica)
    peer.send_raw(IN_SYNC + stream + b"x" * (1 << 20))
    until(lambda: "Finished with success" in replica.log)
    assert call(replica, "PING") == b"PONG"
    peer.close()
    master.accept()
    assert "Traceback" not in replica.log
    assert memory(replica) - before < MEGABYTES


def test_a_connection_that_is_lost_before_the_first_word_is_tried_again_without_a_traceback(monkeypatch):
    connect = asyncio.open_connection

    async def lost(*args, **named):
        reader, writer = await connect(*args, **named)
        writer.transport.abort()
        await asyncio.sleep(0.01)
        return reader, writer

    monkeypatch.setattr(asyncio, "open_connection", lost)
    with LiveServer() as master, LiveServer() as server:
        lines: list[str] = []
        server.inside.log.warning = lambda text, details="": lines.append(text + details)
        with server.wire() as wire:
            wire.call("REPLICAOF", "127.0.0.1", master.port)
            until(lambda: lines)
            wire.call("REPLICAOF", "NO", "ONE")
        assert "Internal error" not in lines[0]


def test_a_link_that_is_given_up_while_its_connection_fails_is_gone(monkeypatch):
    """One that went on would connect to the former master again and again, beside the next one."""
    links = []

    async def refused(*_args, **_named):
        links.append(server.inside.replication.link)
        server.inside.replication.lead()
        raise ConnectionRefusedError

    monkeypatch.setattr(asyncio, "open_connection", refused)
    with LiveServer() as server:
        with server.wire() as wire:
            wire.call("REPLICAOF", "127.0.0.1", 1)
            until(lambda: links)
            wire.call("REPLICAOF", "127.0.0.1", 2)
            until(lambda: len(links) > 1)
            assert wire.call("PING").value == b"PONG"
        until(
            lambda: "_run" not in {task.get_coro().__name__ for task in asyncio.all_tasks(server.inside.loop)}
        )
