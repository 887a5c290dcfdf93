"""TLS: redis-cli and redis-py over tls-port, client certificates, changed settings, and replicas both ways."""

from __future__ import annotations

import shutil
import ssl
import subprocess

import pytest
import redis
from support.servers import ServerProcess, free_port, start_server
from support.until import until


def openssl(*words: str) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """A folder with ca.crt, and for `server`, `client` and `stranger` a certificate and a key each."""
    folder = tmp_path_factory.mktemp("certificates")
    for ca in ("ca", "other"):
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", f"/CN={ca}",
                "-keyout", f"{folder}/{ca}.key", "-out", f"{folder}/{ca}.crt")  # fmt: skip
    for name, ca in (("server", "ca"), ("client", "ca"), ("stranger", "other")):
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={name}",
                "-keyout", f"{folder}/{name}.key", "-out", f"{folder}/{name}.csr")  # fmt: skip
        openssl("x509", "-req", "-in", f"{folder}/{name}.csr", "-days", "2", "-CA", f"{folder}/{ca}.crt",
                "-CAkey", f"{folder}/{ca}.key", "-CAcreateserial", "-out", f"{folder}/{name}.crt")  # fmt: skip
    return folder


def flags(folder, **more: object) -> list[str]:
    settings = {
        "tls-cert-file": folder / "server.crt",
        "tls-key-file": folder / "server.key",
        "tls-ca-cert-file": folder / "ca.crt",
        **{name.replace("_", "-"): value for name, value in more.items()},
    }
    return [word for name, value in settings.items() for word in (f"--{name}", str(value))]


def connect(port: int, folder, name: str | None = "client", **more: object) -> redis.Redis:
    pair = (
        {}
        if name is None
        else {"ssl_certfile": folder / f"{name}.crt", "ssl_keyfile": folder / f"{name}.key"}
    )
    return redis.Redis(
        port=port, ssl=True, ssl_ca_certs=str(folder / "ca.crt"), ssl_check_hostname=False,
        retry=None, **pair, **more,
    )  # fmt: skip


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


def test_a_megabyte_goes_both_ways_and_a_pipeline_keeps_its_order(secure, certificates):
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
        assert pubsub.get_message(timeout=5)["type"] == "subscribe"
        writer.call("PUBLISH", "c", "hello")
        assert pubsub.get_message(timeout=5)["data"] == b"hello"


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


def test_only_the_protocols_that_were_named_are_spoken(certificates):
    port = free_port()
    with start_server("rillet", "--tls-port", port, *flags(certificates, tls_protocols="TLSv1.3")):
        old = {"ssl_min_version": ssl.TLSVersion.TLSv1_2}
        with connect(port, certificates, **old) as client:
            assert client.ping()
        context = ssl.create_default_context(cafile=str(certificates / "ca.crt"))
        context.check_hostname = False
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        import socket

        with socket.create_connection(("127.0.0.1", port)) as sock, pytest.raises(ssl.SSLError):
            context.wrap_socket(sock)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"tls_cert_file": ""}, "No tls-cert-file configured!"),
        ({"tls_ca_cert_file": ""}, "Either tls-ca-cert-file or tls-ca-cert-dir must be specified"),
        ({"tls_key_file": "/nowhere"}, "Failed to load certificate"),
        ({"tls_protocols": "SSLv3"}, "Invalid tls-protocols specified"),
    ],
)
def test_a_server_that_can_not_speak_tls_does_not_start(more, told, certificates):
    with pytest.raises(RuntimeError, match="did not start") as caught:
        start_server("rillet", "--tls-port", free_port(), *flags(certificates, **more))
    assert told in str(caught.value)


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
            assert wire.call("WAIT", 1, 5000).plain() == 1
        with follower.wire() as wire:
            assert wire.call("XLEN", "s").plain() == 2
