"""Replies that are held until the turn of the loop ends, against replies that leave at once."""

import tempfile
import time
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.alone import Alone
from support.live import LiveServer, eventually
from support.wire import commands

from rillet.commands.runtime.state import State
from rillet.commands.runtime.step_sizes import ServerTuning
from rillet.protocol.replies import command
from rillet.server.net import held_replies
from rillet.server.net.held_replies import ALWAYS

COMMANDS = st.sampled_from(commands("""
    PING; GET a; SET a 1; SET b 2; INCR a; DEL a; XADD s * f v; XADD s 1-1 f v; XLEN s
    XGROUP CREATE s g 0 MKSTREAM; XREADGROUP GROUP g c COUNT 2 STREAMS s >
    XREADGROUP GROUP g d BLOCK 0 STREAMS s >; BLPOP l 0; RPUSH l 1 2; MULTI; EXEC; SUBSCRIBE news; UNSUBSCRIBE
    PUBLISH news text; SELECT 1; CLIENT REPLY SKIP; CONFIG SET appendfsync no
    EVAL "return{redis.call('incr','a'),redis.call('get','b')}" 0; QUIT
"""))  # fmt: skip
# Which client sends what at once, and whether a turn of the loop ends then.
STEPS = st.lists(
    st.tuples(st.integers(0, 2), st.lists(COMMANDS, min_size=1, max_size=3), st.booleans()), max_size=12
)


class Kept(Alone):
    """A server, with an append-only file if it has a folder: then each reply finds all that ran before it in the file."""

    def __init__(self, folder: str | None = None, *, at_once: bool) -> None:
        super().__init__()
        self.server.tuning = ServerTuning(few_clients=0)
        self.folder = folder and Path(folder)
        held = self.server.replies
        if folder is not None:
            self.server.config.dir = folder
            self.server.persistence.open()
            for client in self.clients:
                self._watch(client.transport)
            if not at_once:
                held.hold_last = held.hold
        elif at_once:
            held.at_once = ALWAYS
        else:
            held.at_once = 0

    def _watch(self, transport) -> None:
        write, server = transport.write, self.server

        def checked(data: bytes) -> None:
            assert not server.propagation.effects
            assert not server.persistence.aof.has_unwritten
            write(data)

        transport.write = checked

    def take(self, who: int, *lines: str) -> None:
        """Let a client send commands, and end no turn."""
        self.clients[who].data_received(b"".join(command(line.encode().split()) for line in lines))

    def said(self, who: int) -> bytes:
        """What a client was sent."""
        return b"".join(self.clients[who].transport.written)

    def follow(self, steps) -> tuple[list[bytes], list[tuple[str, bytes]]]:
        """The replies to each client, and the files."""
        for who, sent, ends_turn in steps:
            self.take(who, *map(" ".join, sent))
            if ends_turn:
                self.turn()
        while self.turn():
            pass
        files = sorted(self.folder.rglob("*.aof")) if self.folder else []
        return list(map(self.said, range(4))), [(file.name, file.read_bytes()) for file in files]


@given(STEPS)
@example([(0, [["SET", "a", "1"]], True), (0, [["SET", "b", "2"]], False), (0, [["GET", "b"]], False)])
@example([(0, [["SET", "a", "1"]], True), (1, [["SET", "b", "2"]], False), (0, [["GET", "b"]], False)])
def test_with_a_file_a_reply_that_leaves_at_once_says_and_writes_what_a_held_one_does(steps):
    found = []
    for at_once in (True, False):
        with tempfile.TemporaryDirectory() as folder:
            found.append(Kept(folder, at_once=at_once).follow(steps))
    assert found[0] == found[1]
    assert found[0][1]


@given(STEPS)
@example([(0, [["SUBSCRIBE", "news"]], True), (1, [["PUBLISH", "news", "a"]], False), (0, [["QUIT"]], False)])
def test_each_client_gets_the_same_bytes_at_once_or_at_the_end_of_the_turn(steps):
    assert Kept(at_once=True).follow(steps) == Kept(at_once=False).follow(steps)


@pytest.mark.parametrize("has_file", [False, True])
def test_a_lone_client_is_replied_to_within_the_turn(tmp_path, has_file):
    kept = Kept(str(tmp_path) if has_file else None, at_once=True)
    kept.server.replies.at_once = 0
    kept.follow([(0, [["SET", "a", "1"]], True)])
    kept.take(0, "SET b 2")
    assert kept.said(0) == b"+OK\r\n+OK\r\n"
    assert not kept.turns


def test_replies_to_several_clients_leave_together_when_the_turn_ends():
    kept = Kept(at_once=False)
    for who in (0, 1, 2, 1):
        kept.take(who, "PING")
    assert [kept.said(who) for who in range(3)] == [b"", b"", b""]
    kept.turn()
    assert [client.transport.written for client in kept.clients[:3]] == [
        [b"+PONG\r\n"],
        [b"+PONG\r\n"] * 2,
        [b"+PONG\r\n"],
    ]
    kept.take(0, "PING")
    assert kept.said(0) == b"+PONG\r\n", "the last turn had three"


def test_pushes_to_a_client_leave_in_one_write():
    kept = Kept(at_once=False)
    kept.follow([(0, [["SUBSCRIBE", "news"]], True)])
    kept.server.replies.at_once = 0
    kept.clients[0].transport.written.clear()
    kept.take(1, "PUBLISH news a", "PUBLISH news b")
    kept.turn()
    assert kept.clients[0].transport.written == [
        b"*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$1\r\na\r\n*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$1\r\nb\r\n"
    ]


@pytest.mark.parametrize("has_file", [False, True])
def test_pushes_that_pile_up_within_a_turn_count_as_unread(tmp_path, has_file):
    kept = Kept(str(tmp_path) if has_file else None, at_once=False)
    kept.server.config.set([(b"client-output-buffer-limit", b"pubsub 1000 0 0")])
    kept.follow([(0, [["SUBSCRIBE", "news"]], True)])
    kept.server.replies.at_once = 0
    assert kept.clients[0].unread == 0
    kept.take(1, *["PUBLISH news " + "x" * 3000] * 5)
    assert kept.clients[0].unread > 15_000
    assert kept.clients[0].state is not State.CLOSING
    kept.take(1, "PUBLISH news " + "x" * 3000)
    assert kept.clients[0].state is State.CLOSING
    kept.turn()
    assert kept.clients[0].unread == 0


def test_once_in_a_while_a_lone_client_waits_for_the_end_of_the_turn_to_see_if_it_still_is_alone():
    kept = Kept(at_once=False)
    kept.take(0, "PING")
    kept.turn()
    waited = 0
    for number in range(100):
        kept.take(0, "PING")
        if kept.said(0).count(b"PONG") == number + 1:
            waited += 1
            assert kept.turn()
    assert waited == 3


def test_as_long_as_few_are_connected_their_replies_leave_at_once_but_not_where_a_file_is_written_first(
    tmp_path,
):
    for folder, at_once in ((None, True), (str(tmp_path), False)):
        for most, waits in ((4, not at_once), (3, True)):
            kept = Kept(folder, at_once=False)
            kept.server.tuning = ServerTuning(few_clients=most)
            for who in range(4):
                kept.take(who, "PING")
            kept.turn()  # looks how many there are
            kept.take(0, "PING")
            assert kept.said(0) == b"+PONG\r\n" * (1 if waits else 2)


def test_a_reply_does_not_wait_for_more_than_a_millisecond_of_other_commands():
    kept = Kept(at_once=False)
    kept.take(0, "PING")
    kept.take(1, "PING")
    kept.server.clock.advance(1)
    kept.take(2, "PING")
    assert [kept.said(who) for who in range(3)] == [b"+PONG\r\n", b"+PONG\r\n", b""]
    kept.take(0, "PING")
    assert kept.said(0) == b"+PONG\r\n"
    kept.turn()
    assert [kept.said(who) for who in range(3)] == [b"+PONG\r\n" * 2, b"+PONG\r\n", b"+PONG\r\n"]


def test_small_pipelines_do_not_keep_a_reply_waiting_longer_either():
    kept = Kept(at_once=False)
    kept.take(0, "PING", "PING")
    kept.server.clock.advance(1)
    kept.take(1, "PING", "PING")
    assert kept.said(0) == b"+PONG\r\n" * 2
    kept.take(2, "PING", "PING")
    assert kept.said(1) == b""


def test_a_client_in_a_transaction_does_not_keep_a_reply_waiting_longer_either():
    kept = Kept(at_once=False)
    kept.take(1, "MULTI")
    kept.turn()
    kept.server.replies.at_once = 0
    kept.take(0, "PING")
    kept.server.clock.advance(1)
    kept.take(1, "PING")
    assert kept.said(0) == b"+PONG\r\n"


def test_a_reply_does_not_wait_for_the_long_batch_of_another_client():
    kept = Kept(at_once=False)
    kept.take(0, "PING")
    seen = []
    kept.server.dispatcher.run = lambda *_: seen.append(kept.said(0)) or 200
    kept.take(1, *["PING"] * 200)
    assert seen == [b"+PONG\r\n"]


def test_a_client_that_is_killed_has_no_replies_of_the_same_round():  # as by Redis 8.10.2, 7.0 and Valkey
    kept = Kept(at_once=False)
    kept.take(0, "SET a 1")
    kept.take(1, f"CLIENT KILL ID {kept.clients[0].id}")
    while kept.turn():
        pass
    assert kept.clients[0].transport.written == [b"aborted"]


def test_a_write_that_fails_costs_its_own_client_only():
    kept = Kept(at_once=False)

    def write(_data):
        raise MemoryError

    kept.clients[0].transport.write = write
    for who in range(3):
        kept.take(who, "PING")
    with pytest.raises(MemoryError):
        kept.turn()
    while kept.turn():
        pass
    assert kept.clients[0].transport.written == [b"aborted"]
    assert [kept.said(who) for who in (1, 2)] == [b"+PONG\r\n"] * 2
    kept.take(1, "PING")
    while kept.turn():
        pass
    assert kept.said(1) == b"+PONG\r\n" * 2


def test_replies_that_cannot_be_joined_are_sent_in_the_next_turn(monkeypatch):
    kept = Kept(at_once=False)
    kept.take(0, "PING", "PING")
    kept.take(1, "PING")
    with monkeypatch.context() as patch:
        patch.setattr(held_replies, "_joined", mock.Mock(side_effect=MemoryError))
        with pytest.raises(MemoryError):
            kept.turn()
    kept.turn()
    assert [kept.said(who) for who in (0, 1)] == [b"+PONG\r\n" * 2, b"+PONG\r\n"]


def test_a_client_that_is_lost_before_its_reply_leaves_holds_no_reply_back():
    kept = Kept(at_once=False)
    kept.take(0, "PING")
    kept.take(1, "PING")
    kept.clients[0].transport.is_closing = lambda: True
    kept.clients[0].connection_lost(None)
    kept.turn()
    assert [kept.said(who) for who in (0, 1)] == [b"", b"+PONG\r\n"]


def test_replies_of_a_turn_do_not_wait_for_a_slow_script_in_it():
    with LiveServer() as server:
        server.inside.config.set([(b"busy-reply-threshold", b"50")])
        with server.wire() as first, server.wire() as second, server.wire() as third:
            wires = (first, second, third)
            for wire in wires:
                wire.call("PING")
            for _ in range(3):
                server.run_inside(lambda: vars(server.inside.replies).update(at_once=0))
                server.run_inside(lambda: server.inside.loop.call_soon(time.sleep, 0.2))
                for wire in wires:  # all are there when the loop looks again
                    wire.send("INCR", "n")
                second.send("EVAL", "while true do end", 0)
                # One way or the other: before the script, or as BUSY in the middle of it.
                assert first.read().plain()
                assert third.read().plain()
                with server.wire() as killer:
                    killer.call("SCRIPT", "KILL")
                second.read()
                second.read()


def test_pushes_of_a_slow_script_come_before_what_their_client_asks_in_the_middle_of_it(tmp_path):
    with LiveServer(dir=str(tmp_path), appendonly="yes") as server:
        server.inside.config.set([(b"busy-reply-threshold", b"1")])
        with server.wire() as reader, server.wire() as caller:
            reader.call("SUBSCRIBE", "news")
            late = "for _ = 1, 3e6 do end redis.call('publish', 'news', 'm') while true do end"
            caller.send("EVAL", late, 0)
            with server.wire() as killer:
                eventually(lambda: "BUSY" in str(killer.call("PING")))
                eventually(lambda: server.inside.replies.held)
                reader.send("RESET")
                killer.call("PING")
                killer.call("SCRIPT", "KILL")
            assert reader.read().plain() == [b"message", b"news", b"m"]
            assert reader.read().plain() == b"RESET"
