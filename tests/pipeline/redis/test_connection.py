"""pipeline/redis/connection.py: what is sent again, what is not, and what a user reads when nothing helps."""

import socket
import subprocess
import threading
from contextlib import contextmanager
from dataclasses import replace

import hiredis
import pytest
from support import servers
from support.ports import free_port

from rillet.pipeline.redis.connection import Connection, ConnectionLost, RedisError, ServerError
from rillet.pipeline.redis.options import Endpoint

OK = b"+OK\r\n"
CLOSE = None


@contextmanager
def scripted(*connections):
    """A connection, and the commands that its server sees, which answers them at each connect with the next replies.

    CLOSE hangs up instead.
    """
    listener = socket.create_server(("127.0.0.1", 0))
    seen = []

    def serve():
        for replies in connections:
            connection, _ = listener.accept()
            reader, waiting = hiredis.Reader(), list(replies)
            with connection:
                while waiting:
                    data = connection.recv(65536)
                    if not data:
                        break
                    reader.feed(data)
                    while (words := reader.gets()) is not False:
                        seen.append(b" ".join(words).decode())
                        reply = waiting.pop(0)
                        if reply is CLOSE:
                            break
                        connection.sendall(reply)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    with listener:
        with Connection(
            Endpoint(port=listener.getsockname()[1], retries=2, retry_interval_ms=1)
        ) as connection:
            yield connection, seen
        thread.join(5)


@pytest.mark.parametrize("kind", servers.KINDS)
def test_replies_arrive_in_order_and_errors_keep_their_words(running, kind):
    with Connection(Endpoint(port=running(kind).port, db=3)) as connection:
        assert connection.call("DEL", "connection-test") in {0, 1}
        assert connection.call("XADD", "connection-test", "5-1", b"f\xff", 7) == b"5-1"
        assert connection.call("XRANGE", b"connection-test", "-", "+") == [[b"5-1", [b"f\xff", b"7"]]]
        first, wrong, last = connection.pipeline([("PING",), ("GET", "connection-test"), ("ECHO", "x")])
        assert (first, last) == (b"PONG", b"x")
        assert isinstance(wrong, ServerError)
        assert wrong.code == "WRONGTYPE"
        with pytest.raises(ServerError, match="WRONGTYPE"):
            connection.call("GET", "connection-test")
        assert connection.call("UNLINK", "connection-test") == 1
        assert connection.pipeline([]) == []


def test_a_reading_command_is_sent_again_after_a_break():
    with scripted([CLOSE], [b":3\r\n"]) as (connection, seen):
        assert connection.call("XLEN", "s") == 3
    assert seen == ["XLEN s", "XLEN s"]


def test_a_writing_command_is_not_sent_again_unless_its_caller_says_so():
    with scripted([CLOSE], [CLOSE], [b":1\r\n"]) as (connection, seen):
        with pytest.raises(ConnectionLost, match="broke during XADD"):
            connection.call("XADD", "s", "*", "f", "v")
        assert connection.call("XACK", "s", "g", "1-1", repeatable=True) == 1
    assert seen == ["XADD s * f v", "XACK s g 1-1", "XACK s g 1-1"]


def test_a_pipeline_with_one_write_in_it_is_a_write():
    with scripted([b":1\r\n", CLOSE]) as (connection, _), pytest.raises(ConnectionLost):
        connection.pipeline([("XLEN", "s"), ("XADD", "s", "*", "f", "v")])


def test_a_write_leaves_a_connection_that_the_server_closed_while_it_was_idle():
    with scripted([OK], [b"$3\r\n1-1\r\n"]) as (connection, _):
        assert connection.call("PING") == b"OK"
        assert connection._socket.recv(1, socket.MSG_PEEK) == b""  # the server's end has arrived
        assert connection.call("XADD", "s", "*", "f", "v") == b"1-1"


def test_a_watched_connection_is_never_replaced():
    with scripted([OK, CLOSE]) as (connection, seen):
        connection.call("WATCH", "marker")
        with pytest.raises(ConnectionLost, match="broke during GET"):
            connection.call("GET", "marker")
    assert seen == ["WATCH marker", "GET marker"]


def test_after_exec_the_connection_may_break_again():
    with scripted([OK, b"*0\r\n", CLOSE], [b"$1\r\nx\r\n"]) as (connection, _):
        connection.pipeline([("WATCH", "marker"), ("EXEC",)])
        assert connection.call("GET", "marker") == b"x"


def test_a_loading_server_is_asked_again_even_for_a_write():
    loading = b"-LOADING Redis is loading the dataset in memory\r\n"
    with scripted([loading, OK]) as (connection, seen):
        assert connection.call("SET", "k", "v") == b"OK"
    assert seen == ["SET k v"] * 2


def test_a_full_server_is_asked_again_on_a_new_connection():
    with scripted([b"-ERR max number of clients reached\r\n"], [OK]) as (connection, _):
        assert connection.call("SET", "k", "v") == b"OK"


def test_in_the_end_a_user_reads_where_and_how_often_and_why():
    port = free_port()
    connection = Connection(Endpoint(port=port, password="hidden-word", retries=1, retry_interval_ms=1))
    with pytest.raises(
        ConnectionLost, match=rf"no answer .* at 127.0.0.1:{port} \(tried 2 times\): .*refused"
    ) as caught:
        connection.call("XADD", "s", "*", "f", "v")
    assert "hidden-word" not in str(caught.value)


def test_a_wrong_password_is_reported_at_once():
    with scripted([b"-WRONGPASS invalid username-password pair\r\n"]) as (other, seen):
        connection = Connection(replace(other.endpoint, username="u", password="p"))
        with pytest.raises(ServerError, match=r"WRONGPASS .* \(at 127"):
            connection.call("PING")
    assert len(seen) == 1


def test_it_logs_in_over_a_unix_socket(tmp_path):
    where = tmp_path / "s"
    with servers.start_server("redis7", "--requirepass", "pw", "--unixsocket", where):
        with Connection(Endpoint(unix_socket=str(where), password="pw", db=2)) as connection:
            assert connection.call("PING") == b"PONG"
        with (
            Connection(Endpoint(unix_socket=str(where))) as connection,
            pytest.raises(ServerError, match="NOAUTH"),
        ):
            connection.call("PING")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
         "-addext", "keyUsage=critical,digitalSignature,keyCertSign", "-days", "2",
         "-keyout", folder / "key", "-out", folder / "cert"],
        check=True, capture_output=True,
    )  # fmt: skip
    return str(folder / "cert"), str(folder / "key")


def test_tls_checks_the_server_and_shows_our_certificate(certificate):
    cert, key = certificate
    port = free_port()
    flags = ("--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert)
    with servers.start_server("redis7", *flags):
        both = {"tls_cert": cert, "tls_key": key}
        for endpoint in (
            Endpoint(port=port, tls=True, tls_ca_cert=cert, **both),
            Endpoint(port=port, tls=True, tls_skip_verify=True, **both),
        ):
            with Connection(endpoint) as connection:
                assert connection.call("SET", "k", b"x" * 100_000) == b"OK"
                assert len(connection.call("GET", "k")) == 100_000
        with pytest.raises(ConnectionLost, match=r"self.signed certificate .*tlsCaCert"):
            Connection(Endpoint(port=port, tls=True, **both)).call("PING")
        with pytest.raises(ConnectionLost, match="tried once"):  # the server wants a certificate of ours
            Connection(Endpoint(port=port, tls=True, tls_ca_cert=cert, retries=0)).call("PING")


def test_missing_tls_files_are_named():
    with pytest.raises(RedisError, match="tlsCaCert"):
        Connection(Endpoint(tls=True, tls_ca_cert="/nowhere"))
