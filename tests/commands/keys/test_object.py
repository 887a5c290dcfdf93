import pytest
from support.fake_server import FakeServer, make_client, reply

from rillet.commands.keys import object as object_commands  # noqa: F401 - it declares commands

NOW = 1_700_000_000_000


@pytest.fixture
def client():
    return make_client(server=FakeServer(now=NOW))


def test_the_idle_time_is_in_whole_seconds_and_asking_does_not_end_it(client):
    client.db.add(b"k", b"v")
    client.server.advance(2999)
    assert reply(client, "OBJECT", "IDLETIME", "k") == 2
    assert reply(client, "OBJECT", "IDLETIME", "k") == 2
    client.db.read(b"k")
    assert reply(client, "OBJECT", "IDLETIME", "k") == 0


def test_a_clock_that_was_set_back_gives_no_negative_idle_time(client):
    client.db.add(b"k", b"v")
    client.server.advance(-5000)
    assert reply(client, "OBJECT", "IDLETIME", "k") == 0
