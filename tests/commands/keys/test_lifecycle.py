import pytest
from support.fake_server import FakeServer, make_client, run

from rillet.commands.keys import lifecycle as keys  # noqa: F401 - it declares commands
from rillet.storage.streams.stream import Stream

NOW = 1_700_000_000_000


@pytest.fixture
def client():
    client = make_client(server=FakeServer(now=NOW))
    client.db.add(b"a", b"1")
    client.db.add(b"s", Stream())
    client.server.events.clear()
    return client


def test_touch_is_an_access_and_exists_is_none(client):
    later = client.server.advance(1000)
    run(client, "EXISTS", "a")
    assert client.db.accessed[b"a"] == NOW
    client.server.keyspace.touching = False
    assert run(client, "TOUCH", "a", "none") == b":1\r\n"
    assert client.db.accessed[b"a"] == later
