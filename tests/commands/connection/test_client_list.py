import pytest
from support.servers import start_server
from support.until import until
from support.wired_server import WiredServer, talk

from rillet.commands.runtime.client_line import flag_letters
from rillet.commands.runtime.state import State


@pytest.fixture
def server():
    return WiredServer()


def text_of(reply):
    return reply.split(b"\r\n", 1)[1].removesuffix(b"\r\n").decode()


def info(client):
    line = text_of(talk(client, "CLIENT", "INFO"))
    assert line.endswith("\n")
    return dict(pair.split("=", 1) for pair in line[:-1].split(" "))


def ids(reply):
    return [int(line.split(" ")[0].removeprefix("id=")) for line in text_of(reply).splitlines()]


def test_qbuf_shows_what_is_not_parsed():
    with start_server("rillet") as server, server.wire() as client, server.wire() as other:
        number = other.call("CLIENT", "ID").plain()
        other.send_raw(b"*2\r\n$4\r\nECHO\r\n$1000\r\n" + b"x" * 500)

        def line():
            text = client.call("CLIENT", "LIST", "ID", number).plain().decode()
            return dict(pair.split("=", 1) for pair in text.split())

        until(lambda: 500 <= int(line()["qbuf"]) <= 530)
        assert int(line()["tot-mem"]) >= int(line()["qbuf"])
        other.send_raw(b"x" * 500 + b"\r\n")
        assert other.read().plain() == b"x" * 1000
        assert line()["qbuf"] == "0"


def test_a_line_shows_the_state_of_the_client(server):
    client = server.connect()
    client.address, client.local_address, client.fd = b"1.2.3.4:5", b"6.7.8.9:10", 7
    client.last_command = "client|info"
    client.net_in, client.net_out, client.total_commands = 11, 12, 13
    for words in (
        ("CLIENT", "SETNAME", "me"),
        ("CLIENT", "SETINFO", "LIB-NAME", "lib"),
        ("CLIENT", "SETINFO", "LIB-VER", "1.0"),
        ("SELECT", 2),
        ("WATCH", "a", "b"),
        ("CLIENT", "TRACKING", "ON", "REDIRECT", 1),
    ):
        talk(client, *words)
    server.advance(2500)
    client.last_interaction = server.clock.now - 1100
    shown = info(client)
    assert {
        name: shown[name] for name in ("id", "addr", "laddr", "fd", "name", "age", "idle", "flags", "db")
    } == {
        "id": "1", "addr": "1.2.3.4:5", "laddr": "6.7.8.9:10", "fd": "7", "name": "me", "age": "2", "idle": "1",
        "flags": "t", "db": "2",
    }  # fmt: skip
    assert [shown[name] for name in ("multi", "watch", "cmd", "user", "redir", "resp", "lib-name", "lib-ver")] == [
        "-1", "2", "client|info", "default", "1", "2", "lib", "1.0"
    ]  # fmt: skip
    assert [shown[name] for name in ("tot-net-in", "tot-net-out", "tot-cmds")] == ["11", "12", "13"]


def test_flags(server):
    client = server.connect(3)
    assert flag_letters(client) == "N"
    talk(client, "CLIENT", "TRACKING", "ON", "BCAST")
    talk(client, "WATCH", "k")
    assert flag_letters(client) == "tB"
    client.db.modified(b"k")
    talk(client, "MULTI")
    talk(client, "MONITOR")
    client.monitor = client.no_evict = client.no_touch = client.unix_socket = True
    client.tracking.broken_redirect = True
    client.channels.add(b"c")
    client.state = State.BLOCKED
    assert flag_letters(client) == "OPxbtRBdUeT"
    client.begin_to_close()
    assert flag_letters(client) == "OPxtRBdAUeT"


def test_list_shows_all_or_some(server):
    for _ in range(3):
        server.connect()
    client = server.connect()
    talk(server.clients[2], "SUBSCRIBE", "c")
    assert ids(talk(client, "CLIENT", "LIST")) == [1, 2, 3, 4]
    assert ids(talk(client, "CLIENT", "LIST", "TYPE", "NORMAL")) == [1, 3, 4]
    assert ids(talk(client, "CLIENT", "LIST", "type", "pubsub")) == [2]
    assert ids(talk(client, "CLIENT", "LIST", "TYPE", "replica")) == []
    server.clients[3].trusted = True
    assert ids(talk(client, "CLIENT", "LIST", "TYPE", "master")) == [3]
    assert ids(talk(client, "CLIENT", "LIST", "ID", 3, 99, 1, -5)) == [3, 1]


def killed(server):
    return [client.id for client in server.clients.values() if client.closed == "at once"]


def test_kill_by_address(server):
    client, other = server.connect(), server.connect()
    client.address, other.address = b"1.1.1.1:1", b"1.1.1.1:2"
    assert talk(client, "CLIENT", "KILL", "1.1.1.1:2") == b"+OK\r\n"
    assert killed(server) == [2]
    assert talk(client, "CLIENT", "KILL", "1.1.1.1:3") == b"-ERR No such client\r\n"
    assert talk(client, "CLIENT", "KILL", "1.1.1.1:1") == b"+OK\r\n"
    assert client.closed == "after the reply"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("ID", 2), [2]), (("ID", 1), []), (("ID", 99), []), (("ADDR", "a:3"), [3]),
        (("LADDR", "here:1"), [2, 3, 4]), (("LADDR", "here:1", "ADDR", "a:3"), [3]), (("TYPE", "pubsub"), [4]),
        (("TYPE", "normal"), [2, 3]), (("TYPE", "replica"), []), (("USER", "default"), [2, 3, 4]),
        (("MAXAGE", 10), [2, 3]), (("MAXAGE", 11), []), (("SKIPME", "yes"), [2, 3, 4]),
        (("maxage", 10, "id", 3), [3]),
    ],
)  # fmt: skip
def test_kill_by_filters(server, words, expected):
    clients = [server.connect() for _ in range(3)]
    server.advance(10_999)
    clients.append(server.connect())
    for client in clients:
        client.address, client.local_address = b"a:%d" % client.id, b"here:1"
    talk(clients[3], "SUBSCRIBE", "c")
    assert talk(clients[0], "CLIENT", "KILL", *words) == b":%d\r\n" % len(expected)
    assert killed(server) == expected
    assert clients[0].closed is None


def test_kill_may_include_oneself(server):
    client = server.connect()
    server.connect()
    assert talk(client, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no") == b":2\r\n"
    assert killed(server) == [2]
    assert client.closed == "after the reply"
