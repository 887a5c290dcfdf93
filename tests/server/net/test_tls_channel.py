"""TLS channels without sockets: how much is encrypted ahead, and how much is decrypted at once."""

import contextlib
import ssl

import pytest
from support.alone import Alone, Wire
from support.tls import client_context, make_certificates

from rillet.protocol.replies import command
from rillet.server.net.connection import Connection
from rillet.server.net.tls_channel import SecureChannel
from rillet.server.net.tls_context import server_context

FULL = 1 << 16
MEGABYTE = 1 << 20


class Socket(Wire):
    """A transport whose client reads only on request."""

    def __init__(self, channel):
        super().__init__()
        self.channel = channel
        self.unread = []
        self.is_full = False

    def write(self, data):
        self.unread.append(data)
        if self.get_write_buffer_size() > FULL and not self.is_full:
            self.is_full = True
            self.channel.pause_writing()

    def get_write_buffer_size(self):
        return sum(map(len, self.unread))

    def is_closing(self):
        return bool(self.written)

    def take(self):
        """The client reads all that there is."""
        data, self.unread = b"".join(self.unread), []
        if self.is_full:
            self.is_full = False
            self.channel.resume_writing()
        return data


class Peer:
    """A client of a server without sockets, behind TLS."""

    def __init__(self, alone, folder):
        self.alone = alone
        config = alone.server.config
        config.tls_cert_file, config.tls_key_file = str(folder / "server.crt"), str(folder / "server.key")
        config.tls_ca_cert_file = str(folder / "ca.crt")
        self.connection = Connection(alone.server, unix_socket=True)
        self.channel = SecureChannel(alone.server, server_context(config), self.connection)
        self.socket = Socket(self.channel)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = client_context(folder).wrap_bio(self.incoming, self.outgoing)

    def shake_hands(self):
        self.channel.connection_made(self.socket)
        while True:
            try:
                self.tls.do_handshake()
            except ssl.SSLWantReadError:
                self.flush()
                self.incoming.write(self.socket.take())
            else:
                self.flush()
                break
        return self

    def flush(self):
        if data := self.outgoing.read():
            self.channel.data_received(data)

    def send(self, data):
        self.tls.write(data)
        self.flush()

    def read(self):
        """All that the server has to say, turn by turn."""
        pieces = []
        while True:
            self.incoming.write(self.socket.take())
            with contextlib.suppress(ssl.SSLWantReadError):
                while piece := self.tls.read(MEGABYTE):
                    pieces.append(piece)
            if not self.alone.turn() and not self.socket.unread:
                return b"".join(pieces)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def alone():
    return Alone()


@pytest.fixture
def peer(alone, folder):
    return Peer(alone, folder).shake_hands()


def test_what_a_client_does_not_read_is_neither_encrypted_nor_made(alone, peer):
    big = b"x" * (5 * MEGABYTE)
    alone.send(0, command([b"SET", b"big", big]))
    peer.read()
    alone.server.turns.slice = 0
    peer.send(command([b"GET", b"big"]) * 20 + command([b"INCR", b"behind"]))
    while alone.turn():
        pass
    assert peer.socket.get_write_buffer_size() < 4 * FULL
    waiting = peer.channel.get_write_buffer_size()
    assert waiting < 2 * len(big), "one reply is there, the others are not made yet"
    assert peer.connection.unread == waiting
    assert peer.connection.is_congested
    assert b"behind" not in alone.server.keyspace.databases[0].entries
    header = b"$%d\r\n" % len(big)
    assert peer.read() == (header + big + b"\r\n") * 20 + b":1\r\n"
    assert not peer.connection.is_congested
    assert peer.channel.get_write_buffer_size() == 0


def test_a_client_that_does_not_read_is_closed_at_its_output_limit(alone, peer):
    alone.server.config.set([(b"client-output-buffer-limit", b"normal 1mb 0 0")])
    alone.send(0, command([b"SET", b"big", b"x" * (5 * MEGABYTE)]))
    peer.send(command([b"GET", b"big"]))
    peer.connection.check_output_limit(alone.server.clock.now)
    assert peer.socket.written == [b"aborted"]
    assert peer.channel.get_write_buffer_size() == peer.socket.get_write_buffer_size()


def test_a_long_reply_is_encrypted_over_several_turns(alone, peer):
    big = b"x" * (5 * MEGABYTE)
    alone.send(0, command([b"SET", b"big", big]))
    peer.read()
    peer.socket.is_full = True  # a client that reads as fast as it can: the socket never asks for a pause
    peer.send(command([b"GET", b"big"]))
    turns = 0
    while peer.channel._waiting:
        before = peer.socket.get_write_buffer_size()
        assert alone.turn()
        assert peer.socket.get_write_buffer_size() - before <= MEGABYTE
        turns += 1
    assert turns >= 5
    peer.socket.is_full = False
    assert peer.read() == b"$%d\r\n%b\r\n" % (len(big), big)


def test_many_small_messages_that_wait_are_encrypted_together(alone, peer):
    peer.send(command([b"SUBSCRIBE", b"news"]))
    peer.read()
    peer.channel.pause_writing()
    for number in range(5000):
        alone.send(0, command([b"PUBLISH", b"news", b"%d" % number]))
    assert not peer.socket.unread
    waiting = peer.channel._waiting_bytes
    assert waiting > 5000 * 30
    peer.channel.resume_writing()
    alone.turn()
    assert len(peer.socket.unread) <= waiting // FULL + 1
    replies = peer.read()
    assert replies.count(b"message") == 5000
    assert replies.endswith(b"$4\r\n4999\r\n")


def test_a_goodbye_waits_for_what_is_not_encrypted_yet(alone, peer):
    big = b"x" * (5 * MEGABYTE)
    alone.send(0, command([b"SET", b"big", big]))
    peer.read()
    peer.send(command([b"GET", b"big"]) + command([b"QUIT"]))
    assert not peer.socket.written
    assert peer.read().endswith(b"x\r\n+OK\r\n")
    assert peer.socket.written == [b"closed"]


def test_tiny_records_are_decrypted_some_at_a_time(alone, peer):
    for _ in range(500):
        for byte in b"*1\r\n$4\r\nPING\r\n":
            peer.tls.write(bytes([byte]))
    peer.flush()
    assert peer.connection.total_commands <= 512 // 14
    assert not peer.socket.reads
    turns = 0
    while alone.turn():
        turns += 1
    assert turns >= 13
    assert peer.socket.reads
    assert peer.read() == b"+PONG\r\n" * 500


def test_what_a_client_sends_while_it_has_a_backlog_is_not_decrypted(alone, peer):
    alone.server.turns.slice = 0
    data = command([b"PING"]) * 10_000
    peer.send(data)
    peer.send(data)
    assert not peer.socket.reads
    assert peer.read() == b"+PONG\r\n" * 20_000
    assert peer.socket.reads


# Handshakes


def test_an_unfinished_handshake_counts_as_a_client(alone, folder):
    server = alone.server
    server.config.maxclients = 4 + 2
    first, second, third = (Peer(alone, folder) for _ in range(3))
    first.channel.connection_made(first.socket)
    second.shake_hands()
    third.channel.connection_made(third.socket)
    assert third.socket.written == [b"closed"]
    assert server.stats.connections_rejected == 1
    assert server.listeners.shaking_hands == {first.channel}
    plain = Connection(server, unix_socket=True)
    plain.connection_made(wire := Wire())
    assert wire.written == [b"-ERR max number of clients reached\r\n", b"closed"]
    first.channel.connection_lost(None)
    assert Peer(alone, folder).shake_hands().connection.id in server.clients


def test_a_handshake_that_is_not_finished_in_ten_seconds_is_ended(alone, folder, monkeypatch):
    timers = []
    monkeypatch.setattr(alone.server.loop, "call_later", lambda *args: timers.append(args))
    peer = Peer(alone, folder)
    peer.channel.connection_made(peer.socket)
    (seconds, act), *_ = timers
    assert seconds == 10
    act()
    assert peer.socket.written == [b"aborted"]
