import pytest
from support.wired_server import WiredServer, talk

from rillet.commands.runtime.state import State

WRONGPASS = b"-WRONGPASS invalid username-password pair or user is disabled.\r\n"


@pytest.fixture
def client():
    return WiredServer().connect()


@pytest.fixture
def stranger():
    return WiredServer(requirepass=b"secret").connect()


def test_hello_alone_returns_seven_fields_and_keeps_the_protocol(client):
    assert talk(client, "HELLO") == (
        b"*14\r\n$6\r\nserver\r\n$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n8.0.0\r\n$5\r\nproto\r\n:2\r\n"
        b"$2\r\nid\r\n:1\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n"
    )


def test_hello_3_replies_with_a_map_at_once(client):
    assert talk(client, "HELLO", 3).startswith(b"%7\r\n$6\r\nserver")
    assert client.resp == 3


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("x",), b"ERR Protocol version is not an integer or out of range"),
        (("4",), b"NOPROTO unsupported protocol version"),
        (("1",), b"NOPROTO unsupported protocol version"),
        (("3", "AUTH", "a"), b"ERR Syntax error in HELLO option 'AUTH'"),
        (("3", "setname"), b"ERR Syntax error in HELLO option 'setname'"),
        (("3", "Foo"), b"ERR Syntax error in HELLO option 'Foo'"),
        (
            ("3", "SETNAME", "a b"),
            b"ERR Client names cannot contain spaces, newlines or special characters.",
        ),
    ],
)
def test_a_refused_hello_changes_nothing(client, words, error):
    assert talk(client, "HELLO", *words) == b"-%b\r\n" % error
    assert (client.resp, client.name) == (2, b"")


def test_a_failed_login_in_hello_leaves_name_and_protocol(client):
    assert talk(client, "HELLO", 3, "AUTH", "stranger", "x", "SETNAME", "n") == WRONGPASS
    assert (client.resp, client.name) == (2, b"")
    assert client.server.stats.denied[b"auth"] == 1


def test_hello_refuses_a_stranger_unless_it_logs_in(stranger):
    assert talk(stranger, "HELLO", 3).startswith(
        b"-NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH "
    )
    assert stranger.resp == 2
    assert talk(stranger, "HELLO", 3, "AUTH", "default", "secret", "SETNAME", "me").startswith(b"%7\r\n")
    assert (stranger.authenticated, stranger.name, stranger.resp) == (True, b"me", 3)


def test_auth_wants_the_password_of_the_default_user(stranger):
    assert talk(stranger, "AUTH", "wrong") == WRONGPASS
    assert talk(stranger, "AUTH", "secret", "secret") == WRONGPASS
    assert not stranger.authenticated
    assert stranger.state is not State.PLAIN
    assert talk(stranger, "AUTH", "secret") == b"+OK\r\n"
    assert stranger.authenticated
    assert stranger.state is State.PLAIN


def test_auth_with_a_user_name(stranger):
    assert talk(stranger, "AUTH", "default", "secret") == b"+OK\r\n"
    assert talk(stranger, "AUTH", "a", "b", "c") == b"-ERR syntax error\r\n"


def test_auth_without_a_password_set(client):
    assert talk(client, "AUTH", "x").startswith(
        b"-ERR AUTH <password> called without any password configured"
    )
    assert talk(client, "AUTH", "default", "anything") == b"+OK\r\n"
    assert talk(client, "AUTH", "other", "anything") == WRONGPASS


def test_ping_of_a_resp2_subscriber_looks_like_a_message(client):
    client.shard_channels.add(b"x")
    assert talk(client, "PING") == b"*2\r\n$4\r\npong\r\n$0\r\n\r\n"
    assert talk(client, "PING", "hi") == b"*2\r\n$4\r\npong\r\n$2\r\nhi\r\n"
    client.resp = 3
    assert talk(client, "PING", "hi") == b"$2\r\nhi\r\n"


def test_quit_replies_before_it_closes(client):
    assert talk(client, "QUIT", "whatever") == b"+OK\r\n"
    assert client.closed == "after the reply"


def test_select_changes_the_database(client):
    assert talk(client, "SELECT", 15) == b"+OK\r\n"
    assert client.db is client.server.keyspace.databases[15]


@pytest.mark.parametrize(
    ("index", "error"),
    [
        ("16", b"ERR DB index is out of range"),
        ("-1", b"ERR DB index is out of range"),
        ("a", b"ERR value is not an integer or out of range"),
        ("2147483648", b"ERR value is out of range, value must between -2147483648 and 2147483647"),
    ],
)
def test_select_of_no_database(client, index, error):
    assert talk(client, "SELECT", index) == b"-%b\r\n" % error
    assert client.db is client.server.keyspace.databases[0]


def test_reset_leaves_every_mode(client):
    server = client.server
    for words in (
        ("SUBSCRIBE", "c"),
        ("PSUBSCRIBE", "p*"),
        ("SSUBSCRIBE", "s"),
        ("CLIENT", "TRACKING", "ON"),
        ("CLIENT", "SETNAME", "me"),
        ("CLIENT", "SETINFO", "LIB-NAME", "lib"),
        ("CLIENT", "NO-EVICT", "ON"),
        ("CLIENT", "NO-TOUCH", "ON"),
        ("MONITOR",),
        ("SELECT", 3),
        ("HELLO", 3),
        ("WATCH", "k"),
        ("CLIENT", "REPLY", "OFF"),
        ("MULTI",),
    ):
        talk(client, *words)
    assert client.transaction is not None
    assert talk(client, "RESET") == b"+RESET\r\n"
    assert client.state is State.PLAIN
    assert not client.is_subscriber
    assert (client.resp, client.name, client.lib_name, client.reply_mode) == (2, b"", b"lib", "on")
    assert (client.monitor, client.no_evict, client.no_touch, client.tracking) == (False, False, False, None)
    assert client.db is server.keyspace.databases[0]
    assert not server.clients.monitors
    assert not server.pubsub.channels
    assert not server.pubsub.patterns
    assert not server.pubsub.shard_channels
    assert all(not db.watched for db in server.keyspace.databases)


def test_reset_logs_out_where_there_is_a_password(stranger):
    talk(stranger, "AUTH", "secret")
    talk(stranger, "RESET")
    assert not stranger.authenticated
    assert stranger.state is not State.PLAIN
