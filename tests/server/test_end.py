"""The moment at which the end is decided: after it no command runs, whatever the order in which bytes arrive."""

import asyncio

import pytest
from support.live import LiveServer, eventually
from support.wire import ConnectionClosedError

from rillet.commands.runtime.state import CLOSING
from rillet.server.net.connection import Connection

SHUTDOWN = b"SHUTDOWN NOSAVE\r\n"


@pytest.fixture
def server():
    with LiveServer(appendonly=True, repl_diskless_sync_delay=0) as server:  # no replica waits for others
        yield server


def connections(server, *wires):
    """The server's side of each."""
    ids = [server.call(wire, "CLIENT", "ID") for wire in wires]
    return [server.inside.clients[each] for each in ids]


def is_closed(wire):
    try:
        wire.read()
    except (ConnectionClosedError, ConnectionError):
        return True
    return False


class Unheard(asyncio.Transport):
    """The transport of a client that nothing is sent to."""

    def __init__(self):
        super().__init__()
        self.written, self.closed = b"", False

    def write(self, data):
        self.written += data

    def close(self):
        self.closed = True

    def is_closing(self):
        return self.closed


@pytest.mark.parametrize("rest", [b"", b"SET late 1\r\n"], ids=["alone", "in a pipeline"])
def test_no_command_runs_after_shutdown_was_decided(server, rest):
    with server.wire() as one, server.wire() as other, server.wire() as blocked:
        ender, late = connections(server, one, other)
        blocked.send("BLPOP", "late", 0)
        server.wait_for_blocked(1)

        def at_once():
            ender.data_received(b"SET early 1\r\n")
            ender.data_received(SHUTDOWN + rest)
            late.data_received(b"SET late 1\r\nRPUSH late 1\r\n")
            late.take_turn()
            ender.take_turn()

        server.run_inside(at_once)
        assert server.inside.stopping
        assert str(one.read()) == "+OK"
        assert all(is_closed(wire) for wire in (one, other, blocked))
        assert not server.running
        assert [command for command in server.aof() if b"SELECT" not in command] == [[b"SET", b"early", b"1"]]


def test_a_client_that_comes_after_the_decision_is_turned_away(server):
    def at_once():
        server.inside.stop()
        arriving = Connection(server.inside)
        arriving.connection_made(Unheard())
        arriving.data_received(b"SET late 1\r\n")
        return arriving

    inside = server.inside
    arriving = server.run_inside(at_once)
    assert arriving.state is CLOSING
    assert (arriving.transport.closed, arriving.transport.written) == (True, b"")
    assert arriving not in inside.clients.values()


def test_a_replica_has_all_that_ran_before_the_decision(server):
    with LiveServer(replicaof=("127.0.0.1", server.port)) as replica, server.wire() as wire:
        eventually(lambda: replica.info("master_link_status") == "up")
        [ender] = connections(server, wire)
        server.run_inside(lambda: [ender.data_received(each) for each in (b"SET k v\r\n", SHUTDOWN)])
        with replica.wire() as reader:
            eventually(lambda: replica.call(reader, "GET", "k") == b"v")


def test_a_replica_that_ends_applies_no_more_of_its_master(server):
    with LiveServer(replicaof=("127.0.0.1", server.port)) as replica:
        eventually(lambda: replica.info("master_link_status") == "up")
        link = replica.inside.replication.link

        def at_once():
            replica.inside.stop()
            return link.client

        assert replica.run_inside(at_once) is None
        assert not replica.running
