import pytest
from support.wired_server import WiredServer, talk

from rillet.commands.runtime.state import State
from rillet.protocol.inline import quote
from rillet.server.admin.monitor import monitor_line


@pytest.fixture
def client():
    return WiredServer().connect()


def test_monitor_registers_once(client):
    assert talk(client, "MONITOR") == b"+OK\r\n"
    assert client.server.clients.monitors == {client}
    assert client.server.clients.observations == 1
    assert client.state is not State.PLAIN
    assert talk(client, "MONITOR") == b""


def test_a_line_shows_time_database_address_and_words(client):
    client.address = b"127.0.0.1:5000"
    talk(client, "SELECT", 5)
    assert monitor_line(1795160567.190772, client, [b"SET", b"a", b""]) == (
        b'+1795160567.190772 [5 127.0.0.1:5000] "SET" "a" ""\r\n'
    )


def test_a_unix_socket_shows_its_path(client):
    client.address, client.unix_socket = b"/tmp/r.sock:0", True
    assert monitor_line(1.5, client, [b"PING"]) == b'+1.500000 [0 unix:/tmp/r.sock] "PING"\r\n'


def test_words_are_quoted_as_in_c():
    assert quote(b'x y\n\r\t\a\b\x00\xff"q\\~\x7f') == rb'"x y\n\r\t\a\b\x00\xff\"q\\~\x7f"'


def test_passwords_are_not_shown(client):
    assert monitor_line(1.0, client, [b"auth", b"user", b"pw"]).endswith(
        b'"auth" "(redacted)" "(redacted)"\r\n'
    )
    assert monitor_line(1.0, client, [b"HELLO", b"3", b"AUTH", b"u", b"p", b"SETNAME", b"n"]).endswith(
        b'"HELLO" "3" "AUTH" "(redacted)" "(redacted)" "SETNAME" "n"\r\n'
    )
