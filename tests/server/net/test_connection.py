"""Connections: batches, limits, flow control, and how they end."""

import re
import socket
import time

import pytest
from support.alone import Alone
from support.live import LiveServer, eventually
from support.wire import encode_command

from rillet.commands.runtime.state import State
from rillet.protocol.replies import command
from rillet.server.execution.turns import NEVER
from rillet.server.net import connection as connection_module


def server_side(server, wire):
    """The server's object of a connection."""
    number = wire.call("CLIENT", "ID").plain()
    return server.inside.clients[number]


# Batches


def test_the_replies_of_a_batch_leave_in_one_write(server, wire, monkeypatch):
    side = server_side(server, wire)
    written = []
    real = side.transport

    class Recorder:
        def write(self, data):
            written.append(data)
            real.write(data)

        def __getattr__(self, name):
            return getattr(real, name)

    server.run_inside(lambda: setattr(side, "transport", Recorder()))
    monkeypatch.setattr(server.inside.turns, "slice", NEVER)  # however busy the machine is
    for count in (1, 2, 100, 129, 1000):
        written.clear()
        wire.send_raw(b"PING\r\n" * count)
        for _ in range(count):
            assert wire.read().value == b"PONG"
        assert written == [b"+PONG\r\n" * count]


# Before authentication


@pytest.fixture(scope="module")
def guarded():
    with LiveServer(requirepass="secret") as server:
        yield server


def test_auth_lifts_the_limits_for_what_follows_in_the_same_packet(guarded):
    with guarded.wire() as wire:
        big = b"x" * 100_000
        many = [f"k{number}" for number in range(50)]
        wire.send_raw(
            encode_command("AUTH", "secret")
            + encode_command("ECHO", big)
            + encode_command("DEL", *many)
            + b"PING\r\n" * 300
        )
        assert wire.read().value == b"OK"
        assert wire.read().value == big
        assert wire.read().plain() == 0
        assert [wire.read().value for _ in range(300)] == [b"PONG"] * 300


def test_every_command_of_a_packet_is_refused_until_auth(guarded):
    with guarded.wire() as wire:
        wire.send_raw(
            b"PING\r\nGET k\r\nAUTH wrong\r\nPING\r\nAUTH secret\r\nPING\r\nRESET\r\nPING\r\nPING\r\n"
        )
        replies = [wire.read().value.split(b" ")[0] for _ in range(9)]
        assert replies == b"NOAUTH NOAUTH WRONGPASS NOAUTH OK PONG RESET NOAUTH NOAUTH".split()
        wire.call("AUTH", "secret")
        assert wire.call("RESET").value == b"RESET"  # which brings the limits back
        wire.send_raw(b"PING\r\nPING\r\nAUTH secret\r\nPING\r\n")
        replies = [wire.read().value.split(b" ")[0] for _ in range(4)]
        assert replies == b"NOAUTH NOAUTH OK PONG".split()


def test_auth_that_was_postponed_is_followed_by_all_that_came_with_it(guarded):
    with guarded.wire() as admin, guarded.wire() as wire:
        admin.do("AUTH secret; CLIENT PAUSE 100000 ALL")
        wire.send_raw(b"AUTH secret\r\nPING\r\nPING\r\n")
        eventually(lambda: guarded.inside.pause.postponed)
        guarded.run_inside(guarded.inside.pause.end)
        assert [wire.read().value for _ in range(3)] == [b"OK", b"PONG", b"PONG"]


# Who is let in


def test_more_than_maxclients_are_turned_away(server, wire):
    eventually(lambda: len(server.inside.clients) == 1)
    wire.do("CONFIG SET maxclients 1; CONFIG RESETSTAT")
    with server.wire() as other:
        assert other.read().value == b"ERR max number of clients reached"
        assert other.is_closed_by_server()
    text = wire.call("INFO", "stats").plain()
    for field in (b"total_connections_received:0", b"rejected_connections:1", b"total_net_output_bytes:5"):
        assert field + b"\r\n" in text
    wire.call("CONFIG", "SET", "maxclients", "10000")
    with server.wire() as other:
        assert other.call("PING").value == b"PONG"


def test_protected_mode_denies_clients_outside_the_loopback(monkeypatch):
    with LiveServer(bind="127.0.0.1", protected_mode=True) as server:
        with server.wire() as wire:
            assert wire.call("PING").value == b"PONG"
        # Another address cannot be had on every machine: the peer's address is changed instead.
        monkeypatch.setattr(connection_module, "address_of", lambda _: b"192.0.2.7:1234")
        with server.wire() as wire:
            assert wire.read().value.startswith(
                b"DENIED Redis is running in protected mode because protected mode"
            )
            assert wire.is_closed_by_server()
        server.run_inside(lambda: setattr(server.inside.config, "protected_mode", False))
        with server.wire() as wire:
            assert wire.call("PING").value == b"PONG"


def test_an_idle_client_is_closed_but_not_one_that_waits(server, wire):
    with server.wire() as admin, server.wire() as blocked, server.wire() as subscriber:
        for each in (wire, blocked, subscriber):
            each.call("PING")
        blocked.send("XREAD", "BLOCK", 0, "STREAMS", "s", "$")
        subscriber.call("SUBSCRIBE", "c")
        server.wait_for_blocked(1)
        admin.call("CONFIG", "SET", "timeout", "100")
        server.clock.advance(seconds=101)
        assert wire.is_closed_by_server()
        with server.wire() as other:
            other.do("XADD s 1-1 a b; PUBLISH c m")
            assert blocked.read().plain()[0][0] == b"s"
            assert subscriber.read().plain() == [b"message", b"c", b"m"]


@pytest.mark.parametrize("is_paused", [False, True])
def test_a_client_whose_request_comes_in_pieces_is_not_idle(server, is_paused):
    with server.wire() as wire, server.wire() as admin:
        side = server_side(server, wire)
        server.clock.freeze()
        if is_paused:
            admin.call("CLIENT", "PAUSE", "1000000", "WRITE")
            wire.send("SET", "k", "w")
            eventually(lambda: server.run_inside(lambda: not side.state.runs))
        for number, piece in enumerate((b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$3\r\n", b"v", b"v"), side.reads + 1):
            wire.send_raw(piece)
            eventually(lambda: server.run_inside(lambda: side.reads) == number)  # noqa: B023
            server.clock.advance(seconds=60)
            assert b" idle=60 " in admin.call("CLIENT", "LIST", "ID", side.id).value
        admin.call("CLIENT", "UNPAUSE")
        wire.send_raw(b"v\r\n")
        assert [wire.read().value for _ in range(1 + is_paused)] == [b"OK"] * (1 + is_paused)


# Flow control


def test_a_client_that_does_not_read_stops_only_itself(server, wire):
    wire.call("SET", "big", b"x" * 1_000_000)
    with server.wire() as lazy:
        side = server_side(server, lazy)
        lazy.send_raw(b"GET big\r\n" * 200)  # 200 MB of replies
        lazy.send_raw(b"INCR behind\r\n")
        eventually(lambda: side.state is State.CONGESTED)

        def shown() -> int:
            line = wire.call("CLIENT", "LIST", "ID", side.id).value.decode()
            return int(re.search(r" omem=(\d+) ", line)[1])

        # What the sockets do not take; from 16 KiB down the transport asks for more.
        eventually(lambda: shown() > 16_000)
        most = 0
        for _ in range(50):
            assert wire.call("PING").value == b"PONG"
            most = max(most, side.transport.get_write_buffer_size() + server.inside.replies.held_bytes(side))
        assert most < 150_000_000
        before = wire.call("EXISTS", "behind").plain()
        assert before == 0
        for _ in range(200):
            assert len(lazy.read().value) == 1_000_000
        assert lazy.read().plain() == 1


def test_a_client_that_never_reads_can_be_killed_and_is_gone(server, wire):
    wire.call("SET", "big", b"x" * 1_000_000)
    lazy = server.wire()
    number = lazy.call("CLIENT", "ID").plain()
    lazy.send_raw(b"GET big\r\n" * 100)
    eventually(lambda: server.inside.clients[number].state is State.CONGESTED)
    assert wire.call("CLIENT", "KILL", "ID", number).plain() == 1
    eventually(lambda: number not in server.inside.clients)
    lazy.close()


# The end


def test_a_client_that_half_closes_gets_the_replies_to_all_it_sent(server):
    for _ in range(20):
        with server.wire() as wire:
            wire.send_raw(b"SET k v\r\nGET k\r\n")
            wire._socket.shutdown(socket.SHUT_WR)
            assert wire.rest() == b"+OK\r\n$1\r\nv\r\n"


def test_nothing_is_remembered_of_a_client_that_is_gone(server):
    inside = server.inside
    eventually(lambda: not inside.clients)
    wires = [server.wire(3) for _ in range(20)]
    for wire in wires:
        wire.do("SUBSCRIBE c; PSUBSCRIBE p*; WATCH k; CLIENT TRACKING ON; GET k; MULTI; SET k v")
    with server.wire() as monitor:
        monitor.call("MONITOR")
    for wire in wires:
        wire.close()
    eventually(lambda: not inside.clients)
    assert not inside.clients.monitors
    assert not inside.has_observers
    assert not inside.keyspace.databases[0].watched
    eventually(lambda: not inside.replies.held)
    assert not inside.replies._closing
    with server.wire() as wire:
        assert wire.call("PUBSUB", "CHANNELS").plain() == []
        assert wire.call("PUBSUB", "NUMPAT").plain() == 0
        assert wire.call("EXISTS", "k").plain() == 0


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("arrives", [True, False])
def test_a_script_waits_for_clients_that_were_accepted_however_busy_the_machine_is(
    server, wire, arrives, is_first
):
    """Nothing reads from them before they have a transport; one whose socket fails never has one."""
    client = server_side(server, wire)
    if not is_first:  # the fast path knows the command
        wire.call("EVAL", "return 2", "0")
    listeners, states = server.inside.listeners, []

    def at_once():
        coming = listeners._expect(connection_module.Connection(server.inside))
        client.data_received(b"EVAL 'return 1' 0\r\n")

        def look():
            states.append(client.state)
            if arrives:
                listeners.welcome(coming)

        server.inside.loop.call_soon(look)
        time.sleep(0.2)

    server.run_inside(at_once)
    assert wire.read().plain() == 1
    assert states == [State.POSTPONED]
    assert not listeners.arriving
    assert b"EVAL" in server.inside.dispatcher.table


def test_other_commands_take_the_fast_path_while_clients_arrive(server, wire):
    listeners, dispatcher = server.inside.listeners, server.inside.dispatcher
    for words in (["GET", "k"], ["EVAL", "return 1", "0"]):
        wire.call(*words)

    def at_once():
        coming = listeners._expect(connection_module.Connection(server.inside))
        try:
            return server.inside.needs_all_checks, b"GET" in dispatcher.table, b"EVAL" in dispatcher.table
        finally:
            listeners.welcome(coming)

    assert server.run_inside(at_once) == (False, True, False)


@pytest.mark.parametrize(
    "words", [[b"MONITOR"], [b"CLIENT", b"TRACKING", b"ON", b"BCAST"]], ids=["MONITOR", "tracking"]
)
def test_the_last_client_that_observes_ends_the_work_for_it(words):
    alone = Alone()
    alone.send(0, command([b"HELLO", b"3"]) + command(words))
    assert alone.server.has_observers
    alone.server.clients.forget(alone.clients[1])
    assert alone.server.has_observers
    alone.server.clients.forget(alone.clients[0])
    assert not alone.server.has_observers


def test_clients_that_observe_nothing_leave_without_a_look_at_all_the_others(monkeypatch):
    # With 10,000 clients that look cost nine seconds when all of them left.
    alone = Alone()
    looks = []
    monkeypatch.setattr(alone.server.clients, "update_observers", lambda: looks.append(1))
    for client in alone.clients:
        alone.server.clients.forget(client)
    assert looks == []
