import pytest
from support.fake_server import FakeServer, make_client, reply, run

from rillet.commands.keys import expiry  # noqa: F401 - it declares commands

NOW = 1_700_000_000_000


@pytest.fixture
def client():
    client = make_client(server=FakeServer(now=NOW))
    client.db.add(b"k", b"v")
    client.server.events.clear()
    return client


def test_while_a_file_is_loaded_a_past_time_is_only_noted(client):
    client.server.keyspace.expiring = False
    assert run(client, "PEXPIREAT", "k", 1) == b":1\r\n"
    assert client.db.expires == {b"k": 1}


def test_times_are_rounded_to_the_nearest_second(client):
    client.db.set_expiry(b"k", NOW + 1499)
    assert reply(client, "TTL", "k") == 1
    assert reply(client, "PTTL", "k") == 1499
    client.db.set_expiry(b"k", NOW + 1500)
    assert reply(client, "TTL", "k") == 2
    assert reply(client, "EXPIRETIME", "k") == NOW // 1000 + 2
    assert reply(client, "PEXPIRETIME", "k") == NOW + 1500


def test_asking_for_the_time_is_no_access(client):
    client.server.advance(5)
    run(client, "TTL", "k")
    assert client.db.accessed == {b"k": NOW}
