import pytest
from support.wired_server import WiredServer, talk

from rillet.commands.runtime.state import State

BAD_NAME = b"-ERR Client names cannot contain spaces, newlines or special characters.\r\n"


@pytest.fixture
def client():
    return WiredServer().connect()


def test_names(client):
    assert talk(client, "CLIENT", "GETNAME") == b"$-1\r\n"
    assert talk(client, "CLIENT", "SETNAME", "me!~") == b"+OK\r\n"
    assert talk(client, "CLIENT", "GETNAME") == b"$4\r\nme!~\r\n"
    for name in (b"a b", b"a\n", b"\x7f", b"\xc3\xa9"):
        assert talk(client, "CLIENT", "SETNAME", name) == BAD_NAME
    assert talk(client, "CLIENT", "GETNAME") == b"$4\r\nme!~\r\n"
    assert talk(client, "CLIENT", "SETNAME", "") == b"+OK\r\n"
    client.resp = 3
    assert talk(client, "CLIENT", "GETNAME") == b"_\r\n"


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


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("x",), b"ERR timeout is not an integer or out of range"),
        (("99999999999999999999",), b"ERR timeout is not an integer or out of range"),
        (("9223372036854775807",), b"ERR timeout is out of range"),
        (("-1",), b"ERR timeout is negative"),
        (("x", "FOO"), b"ERR CLIENT PAUSE mode must be WRITE or ALL"),
        (
            ("1", "ALL", "x"),
            b"ERR unknown subcommand or wrong number of arguments for 'PAUSE'. Try CLIENT HELP.",
        ),
    ],
)
def test_a_wrong_pause(client, words, error):
    assert talk(client, "CLIENT", "PAUSE", *words) == b"-%b\r\n" % error
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


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("x",), b"ERR value is not an integer or out of range"),
        (("x", "FOO"), b"ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"),
        (
            ("1", "ERROR", "x"),
            b"ERR unknown subcommand or wrong number of arguments for 'UNBLOCK'. Try CLIENT HELP.",
        ),
    ],
)
def test_a_wrong_unblock(client, words, error):
    assert talk(client, "CLIENT", "UNBLOCK", *words) == b"-%b\r\n" % error
