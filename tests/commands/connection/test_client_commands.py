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


def test_a_pause_beyond_64_bits_is_refused(client):
    assert talk(client, "CLIENT", "PAUSE", "9223372036854775807") == b"-ERR timeout is out of range\r\n"
    assert client.server.pauses == []
