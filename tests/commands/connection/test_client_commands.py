import pytest
from support.wired_server import WiredServer, talk


@pytest.fixture
def client():
    return WiredServer().connect()


def test_pause_and_unpause(client):
    now = client.server.clock.now
    assert talk(client, "CLIENT", "PAUSE", 100) == b"+OK\r\n"
    assert talk(client, "CLIENT", "PAUSE", 200, "all") == b"+OK\r\n"
    assert talk(client, "CLIENT", "PAUSE", 0, "write") == b"+OK\r\n"
    assert talk(client, "CLIENT", "UNPAUSE") == b"+OK\r\n"
    assert client.server.pauses == [(now + 100, False), (now + 200, False), (now, True), None]
