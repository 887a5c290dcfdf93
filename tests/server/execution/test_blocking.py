"""Blocked readers: who is served, in which order, and who is forgotten."""

import socket
import struct

import pytest
from support.alone import Alone

from rillet.commands.runtime.state import State
from rillet.protocol.replies import command

NOGROUP = b"NOGROUP No such key 's' or consumer group 'g' in XREADGROUP with GROUP option"


@pytest.fixture
def blocked(server):
    """`blocked(words...)` is a new connection that waits for the command's reply."""
    wires = []

    def start(*words, protocol=2):
        wire = server.wire(protocol)
        wires.append(wire)
        server.block(wire, *words)
        return wire

    yield start
    for wire in wires:
        wire.close()
    server.wait_for_blocked(0)


def read(timeout=0, key="s"):
    return ("XREAD", "BLOCK", timeout, "STREAMS", key, "$")


def read_group(consumer="c", group="g", timeout=0, keys=("s",)):
    return ("XREADGROUP", "GROUP", group, consumer, "BLOCK", timeout, "STREAMS", *keys, *[">"] * len(keys))


def make_group(wire, key="s", group="g"):
    assert wire.call("XGROUP", "CREATE", key, group, "$", "MKSTREAM").value == b"OK"


def ids(node) -> dict[bytes, list[bytes]]:
    """The IDs in a reply of XREAD, by key."""
    return {key: [entry[0] for entry in entries] for key, entries in node.plain()}


def is_quiet(wire) -> bool:
    return wire.pending() == b""


# Serving


def test_a_protocol_error_behind_a_blocked_command_waits_for_its_reply(wire, blocked):
    reader = blocked(*read())
    reader.send_raw(b"*1\r\n!x\r\n")
    assert is_quiet(reader)
    wire.call("XADD", "s", "1-1", "f", "v")
    assert ids(reader.read()) == {b"s": [b"1-1"]}
    assert reader.read().value == b"ERR Protocol error: expected '$', got '!'"
    assert reader.is_closed_by_server()


@pytest.mark.parametrize("behind", [b"", b"*1\r\n$4\r\nPI", b"PING\r\nPI"])
@pytest.mark.parametrize("when", ["with the command that blocks", "while it waits"])
def test_half_a_command_behind_a_blocked_one_goes_on_after_the_reply(behind, when):
    alone = Alone()
    reader = alone.clients[0]
    assert reader.transport is not None
    words = command([b"XREAD", b"BLOCK", b"0", b"STREAMS", b"s", b"$"])
    if when == "while it waits":
        alone.send(0, words)
        alone.send(0, behind)
    else:
        alone.send(0, words + behind)
    reader.data_received(b"")
    assert reader.state is State.BLOCKED
    alone.send(1, command([b"XADD", b"s", b"1-0", b"f", b"v"]))
    assert reader.state is State.PLAIN
    alone.send(0, b"NG\r\n" if behind.endswith(b"PI") else command([b"PING"]))
    replies = b"".join(reader.transport.written)
    assert replies.startswith(b"*1\r\n*2\r\n$1\r\ns\r\n*1\r\n")
    assert replies.endswith(b"\r\nv\r\n" + b"+PONG\r\n" * (2 if behind.startswith(b"PING") else 1))


def test_a_served_reader_that_sent_nothing_more_needs_no_turn():
    alone = Alone()
    alone.send(0, command([b"XREAD", b"BLOCK", b"0", b"STREAMS", b"s", b"$"]))
    alone.clients[1].data_received(command([b"XADD", b"s", b"1-0", b"f", b"v"]))
    assert alone.clients[0].state is State.PLAIN
    assert [what.__name__ for what, _ in alone.turns] == ["_end_round"]  # in which its reply leaves


def test_a_served_reader_was_active_when_it_was_served():
    alone = Alone()
    alone.send(0, command([b"XREAD", b"BLOCK", b"0", b"STREAMS", b"s", b"$"]))
    alone.server.clock.advance(5000)
    alone.send(1, command([b"XADD", b"s", b"1-0", b"f", b"v"]))
    assert alone.clients[0].last_interaction == alone.server.clock.now


# The end of what was waited for


def test_a_key_that_expires_ends_the_wait(server, wire, blocked):
    make_group(wire)
    wire.call("EXPIRE", "s", 3600)
    reader = blocked(*read_group())
    server.clock.advance(hours=2)
    assert reader.read().value == NOGROUP


# Time


def test_the_time_is_in_milliseconds_and_follows_the_servers_clock(server, wire, blocked):
    server.clock.freeze()
    readers = [blocked(*read(timeout=60_000)), blocked(*read(timeout=120_000), protocol=3), blocked(*read())]
    assert server.info("clients_in_timeout_table") == "2"
    server.clock.advance(milliseconds=59_000)
    assert [is_quiet(reader) for reader in readers] == [True, True, True]
    server.clock.advance(milliseconds=2000)
    assert readers[0].read().encode() == b"*-1\r\n"
    server.clock.advance(milliseconds=60_000)
    assert readers[1].read().encode() == b"_\r\n"
    assert is_quiet(readers[2])


def test_a_reader_that_was_woken_for_nothing_keeps_its_first_deadline(server, wire, blocked):
    server.clock.freeze()
    reader = blocked("XREAD", "BLOCK", 10_000, "STREAMS", "s", "5-0")
    server.clock.advance(seconds=9)
    wire.call("XADD", "s", "1-1", "f", "v")
    server.clock.advance(seconds=2)
    assert reader.read().is_null
    server.clock.resume()


def test_deadlines_of_served_readers_do_not_pile_up(server, wire):
    for _ in range(150):
        server.block(wire, "XREAD", "BLOCK", 1_000_000, "STREAMS", "s", "$")
        server.run_inside(lambda: server.inside.blocking.unblock(next(iter(server.inside.blocking.waiters))))
        assert wire.read().is_null
    assert len(server.inside.blocking._deadlines) < 100


# Connections that go away


def reset(wire) -> None:
    wire._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wire.close()


GOING = {
    "close": lambda wire: wire.close(),
    "half-close": lambda wire: wire._socket.shutdown(socket.SHUT_WR),
    "reset": reset,
}


@pytest.mark.parametrize("going", GOING.values(), ids=GOING.keys())
def test_a_blocked_consumer_whose_connection_ends_takes_nothing(server, wire, blocked, going):
    make_group(wire)
    going(blocked(*read_group("dead")))
    server.wait_for_blocked(0)
    living = blocked(*read_group("living"))
    wire.call("XADD", "s", "1-1", "f", "v")
    assert ids(living.read()) == {b"s": [b"1-1"]}
    assert wire.call("XPENDING", "s", "g").plain()[3] == [[b"living", b"1"]]


def test_the_end_of_a_connection_and_an_entry_in_one_turn_of_the_loop(server, wire, blocked):
    """The end is seen first: between that and the closing of the socket the consumer must get nothing."""
    make_group(wire)
    blocked(*read_group("dead"))
    connection = next(iter(server.inside.blocking.waiters))

    def turn():
        connection.eof_received()
        assert not server.inside.blocking.waiters

    server.run_inside(turn)
    wire.call("XADD", "s", "1-1", "f", "v")
    assert wire.call("XPENDING", "s", "g").plain()[0] == 0


# A reader that is passed over


def test_a_reader_that_is_passed_over_was_seen_nevertheless(server, wire, blocked):
    wire.call("XGROUP", "CREATE", "s", "g", "$", "MKSTREAM")
    first, second = blocked(*read_group("first")), blocked(*read_group("second"))
    server.clock.advance(seconds=10)
    wire.call("XADD", "s", "1-0", "f", "v")
    first.read()
    consumers = wire.call("XINFO", "CONSUMERS", "s", "g").encode()
    assert b"second" in consumers
    idle = [int(line[1:]) for line in consumers.split(b"\r\n") if line.startswith(b":1") and len(line) > 5]
    assert not idle  # no client was idle for ten seconds
    wire.call("XADD", "s", "2-0", "f", "v")
    second.read()
