import pytest
from support.wired_server import WiredServer, talk

from rillet.commands.runtime.state import State


@pytest.fixture
def client():
    return WiredServer().connect()


def test_each_client_has_an_id(client):
    assert talk(client, "CLIENT", "ID") == b":1\r\n"
    assert talk(client.server.connect(), "CLIENT", "ID") == b":2\r\n"


def test_setinfo_names_the_library(client):
    assert talk(client, "CLIENT", "SETINFO", "lib-name", "redis-py(x)") == b"+OK\r\n"
    assert talk(client, "CLIENT", "SETINFO", "LIB-VER", "5.0") == b"+OK\r\n"
    assert (client.lib_name, client.lib_ver) == (b"redis-py(x)", b"5.0")
    assert talk(client, "CLIENT", "SETINFO", "lib-name", "a b") == (
        b"-ERR lib-name cannot contain spaces, newlines or special characters.\r\n"
    )
    assert talk(client, "CLIENT", "SETINFO", "Foo", "a") == b"-ERR Unrecognized option 'Foo'\r\n"
    assert talk(client, "CLIENT", "SETINFO", "LIB-VER", "") == b"+OK\r\n"
    assert (client.lib_name, client.lib_ver) == (b"redis-py(x)", b"")


def test_reply_modes(client):
    assert talk(client, "CLIENT", "REPLY", "x") == b"-ERR syntax error\r\n"
    assert talk(client, "CLIENT", "REPLY", "off") == b""
    assert (client.reply_mode, client.state) == ("off", State.CAREFUL)
    assert talk(client, "CLIENT", "REPLY", "SKIP") == b""
    assert client.reply_mode == "off"
    assert talk(client, "CLIENT", "REPLY", "ON") == b"+OK\r\n"
    assert (client.reply_mode, client.state) == ("on", State.PLAIN)
    assert talk(client, "CLIENT", "REPLY", "skip") == b""
    assert client.reply_mode == "skip-next"
    assert talk(client, "CLIENT", "REPLY", "ON") == b"+OK\r\n"


@pytest.mark.parametrize(("mode", "field"), [("NO-EVICT", "no_evict"), ("NO-TOUCH", "no_touch")])
def test_modes_that_are_on_or_off(client, mode, field):
    assert talk(client, "CLIENT", mode, "on") == b"+OK\r\n"
    assert getattr(client, field) is True
    assert talk(client, "CLIENT", mode, "maybe") == b"-ERR syntax error\r\n"
    assert talk(client, "CLIENT", mode, "OFF") == b"+OK\r\n"
    assert getattr(client, field) is False
    assert client.state is State.PLAIN


def test_pause_and_unpause(client):
    now = client.server.clock.now
    assert talk(client, "CLIENT", "PAUSE", 100) == b"+OK\r\n"
    assert talk(client, "CLIENT", "PAUSE", 200, "all") == b"+OK\r\n"
    assert talk(client, "CLIENT", "PAUSE", 0, "write") == b"+OK\r\n"
    assert talk(client, "CLIENT", "UNPAUSE") == b"+OK\r\n"
    assert client.server.pauses == [(now + 100, False), (now + 200, False), (now, True), None]


def test_a_pause_beyond_64_bits_is_refused(client):
    assert talk(client, "CLIENT", "PAUSE", "9223372036854775807") == b"-ERR timeout is out of range\r\n"
    assert client.server.pauses == []


def test_unblock_ends_a_wait(client, monkeypatch):
    server = client.server
    other = server.connect()
    seen = []
    monkeypatch.setattr(
        server.blocking, "unblock", lambda *words, asked: seen.append((*words, asked)) or True
    )
    assert talk(client, "CLIENT", "UNBLOCK", other.id) == b":0\r\n"
    other.state = State.BLOCKED
    assert talk(client, "CLIENT", "UNBLOCK", other.id) == b":1\r\n"
    assert talk(client, "CLIENT", "UNBLOCK", other.id, "timeout") == b":1\r\n"
    assert talk(client, "CLIENT", "UNBLOCK", other.id, "Error") == b":1\r\n"
    assert talk(client, "CLIENT", "UNBLOCK", 99) == b":0\r\n"
    assert seen == [
        (other, None, True),
        (other, None, True),
        (other, b"-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n", True),
    ]
