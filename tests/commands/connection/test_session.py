import pytest
from support.wired_server import WiredServer, talk

from rillet.commands.runtime.state import State


@pytest.fixture
def client():
    return WiredServer().connect()


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
