import pytest
from support.wired_server import WiredServer, talk

from rillet.commands.runtime.state import State

WRONGPASS = b"-WRONGPASS invalid username-password pair or user is disabled.\r\n"


@pytest.fixture
def client():
    return WiredServer().connect()


def test_a_failed_login_in_hello_leaves_name_and_protocol(client):
    assert talk(client, "HELLO", 3, "AUTH", "stranger", "x", "SETNAME", "n") == WRONGPASS
    assert (client.resp, client.name) == (2, b"")
    assert client.server.stats.denied[b"auth"] == 1


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
