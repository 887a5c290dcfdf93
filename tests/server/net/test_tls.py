"""TLS: redis-cli and redis-py over tls-port, client certificates, changed settings, and replicas both ways."""

import contextlib
import shutil
import socket
import ssl
import subprocess

import pytest
import redis
from support.ports import free_port
from support.servers import ServerProcess, start_server
from support.tls import TlsWire, client_context, connect, flags, make_certificates
from support.until import until


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def secure(certificates):
    port = free_port()
    with start_server("rillet", "--tls-port", port, *flags(certificates)) as server:
        server.tls_port = port
        yield server


def test_redis_cli_speaks_tls(secure, certificates):
    shown = subprocess.run(
        [shutil.which("redis-cli"), "-p", str(secure.tls_port), "--tls", "--cacert", f"{certificates}/ca.crt",
         "--cert", f"{certificates}/client.crt", "--key", f"{certificates}/client.key", "XADD", "s", "1-1", "f", "v"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert shown.stdout == "1-1\n"
    with secure.wire() as plain:
        assert plain.call("XLEN", "s").plain() == 1


def test_a_megabyte_passes_both_ways_and_a_pipeline_keeps_its_order(secure, certificates):
    with connect(secure.tls_port, certificates) as client:
        big = bytes(range(256)) * 4096
        client.set("big", big)
        assert client.get("big") == big
        pipe = client.pipeline(transaction=False)
        for number in range(2000):
            pipe.xadd("s", {"n": number}, id=f"{number + 1}-0")
        pipe.xrange("s", "-", "+")
        *ids, entries = pipe.execute()
        assert [text for text, _ in entries] == ids


def test_a_blocked_reader_wakes_up(secure, certificates):
    with connect(secure.tls_port, certificates) as reader, secure.wire() as writer:
        reader.xgroup_create("s", "g", "$", mkstream=True)
        pubsub = reader.pubsub()
        pubsub.subscribe("c")
        assert pubsub.get_message(timeout=60)["type"] == "subscribe"
        writer.call("PUBLISH", "c", "hello")
        assert pubsub.get_message(timeout=60)["data"] == b"hello"


@pytest.mark.parametrize("name", [None, "stranger"])
def test_a_client_without_a_certificate_of_ours_stays_outside(name, secure, certificates):
    with pytest.raises(redis.ConnectionError), connect(secure.tls_port, certificates, name) as client:
        client.ping()
    with connect(secure.tls_port, certificates) as client:
        assert client.ping()
    assert "Internal error" not in secure.log


def test_bytes_that_are_not_tls_end_one_connection_only(secure, certificates):
    with pytest.raises(redis.ConnectionError), redis.Redis(port=secure.tls_port, retry=None) as client:
        client.ping()
    with connect(secure.tls_port, certificates) as client:
        assert client.ping()
    assert "Internal error" not in secure.log


def test_tls_auth_clients_can_be_switched_off_while_running(secure, certificates):
    with secure.wire() as plain:
        assert plain.call("CONFIG", "SET", "tls-auth-clients", "no").plain() == b"OK"
        with connect(secure.tls_port, certificates, None) as client:
            assert client.ping()
        refused = plain.call("CONFIG", "SET", "tls-cert-file", "/nowhere.crt")
        assert "Unable to update TLS configuration" in str(refused)
        assert (
            plain.call("CONFIG", "GET", "tls-cert-file").plain()[1].decode() == f"{certificates}/server.crt"
        )
        with connect(secure.tls_port, certificates, None) as client:
            assert client.ping()


def test_records_that_come_in_pieces_are_put_together(secure, certificates):
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = client_context(certificates).wrap_bio(incoming, outgoing)

    def exchange(act):
        """Do what wants to read until it has read enough; our bytes leave one by one."""
        while True:
            try:
                done = act()
            except ssl.SSLWantReadError:
                done = None
            for byte in outgoing.read():
                sock.sendall(bytes([byte]))
            if done is not None:
                return done
            data = sock.recv(1 << 16)
            assert data, "closed without a goodbye"
            incoming.write(data)

    with socket.create_connection(("127.0.0.1", secure.tls_port), 10) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        exchange(lambda: tls.do_handshake() or True)
        tls.write(b"*1\r\n$4\r\nPI")
        tls.write(b"NG\r\n")
        assert exchange(lambda: tls.read(100)) == b"+PONG\r\n"
        tls.write(b"*1\r\n$4\r\nQUIT\r\n")
        assert exchange(lambda: tls.read(100)) == b"+OK\r\n"
        assert exchange(lambda: tls.read(100)) == b"", "the server says goodbye, too"
        assert sock.recv(1) == b""


def test_a_client_that_says_goodbye_is_gone_after_what_it_sent(secure, certificates):
    with TlsWire(secure.tls_port, certificates) as client, secure.wire() as plain:
        client.call("PING")
        client.send("SET", "k", "v")
        with contextlib.suppress(ssl.SSLError):  # there is a reply before the server's goodbye
            client._socket.unwrap()
        until(lambda: plain.call("CLIENT", "LIST").plain().count(b"\n") == 1)
        assert plain.call("GET", "k").plain() == b"v"


def test_a_client_that_does_not_read_is_waited_for(secure, certificates):
    with TlsWire(secure.tls_port, certificates) as slow, secure.wire() as plain:
        plain.call("SET", "big", "x" * 1_000_000)
        for _ in range(100):
            slow.send("GET", "big")
        for _ in range(100):
            assert len(slow.read().plain()) == 1_000_000
        assert str(slow.call("PING")) == "+PONG"


def test_shutdown_does_not_wait_for_a_handshake(certificates):
    with start_server("rillet", "--tls-port", port := free_port(), *flags(certificates)) as server:
        with socket.create_connection(("127.0.0.1", port), 10) as sock, server.wire() as plain:
            plain.send("SHUTDOWN", "NOSAVE")
            assert sock.recv(1) == b""
        assert server._process.wait(20) == 0
        assert "Internal error" not in server.log


def test_only_the_protocols_that_were_named_are_spoken(certificates):
    port = free_port()
    with start_server("rillet", "--tls-port", port, *flags(certificates, tls_protocols="TLSv1.3")):
        old = {"ssl_min_version": ssl.TLSVersion.TLSv1_2}
        with connect(port, certificates, **old) as client:
            assert client.ping()
        context = ssl.create_default_context(cafile=str(certificates / "ca.crt"))
        context.check_hostname = False
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        with socket.create_connection(("127.0.0.1", port)) as sock, pytest.raises(ssl.SSLError):
            context.wrap_socket(sock)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"tls_cert_file": ""}, "No tls-cert-file configured!"),
        ({"tls_ca_cert_file": ""}, "Either tls-ca-cert-file or tls-ca-cert-dir must be specified"),
        ({"tls_key_file": "/nowhere"}, "Failed to load certificate"),
        ({"tls_protocols": "SSLv3"}, "Invalid tls-protocols specified"),
    ],
)
def test_a_server_without_usable_tls_does_not_start(more, message, certificates):
    with pytest.raises(RuntimeError, match="did not start") as caught:
        start_server("rillet", "--tls-port", free_port(), *flags(certificates, **more))
    assert message in str(caught.value)


def follow(replica: ServerProcess, port: int) -> None:
    with replica.wire() as wire:
        wire.call("REPLICAOF", "127.0.0.1", port)
        until(lambda: b"master_link_status:up" in wire.call("INFO", "replication").plain(), 15)


@pytest.mark.parametrize(
    ("master", "replica"), [("rillet", "rillet"), ("rillet", "redis7"), ("redis7", "rillet")]
)
def test_a_replica_follows_over_tls(master, replica, certificates):
    port = free_port()
    with (
        start_server(master, "--tls-port", port, *flags(certificates)) as leader,
        start_server(replica, *flags(certificates, tls_replication="yes")) as follower,
    ):
        with leader.wire() as wire:
            wire.call("XADD", "s", "1-1", "f", "v")
            follow(follower, port)
            wire.call("XADD", "s", "2-1", "f", "v")
            assert wire.call("WAIT", 1, 60_000).plain() == 1
        with follower.wire() as wire:
            assert wire.call("XLEN", "s").plain() == 2
