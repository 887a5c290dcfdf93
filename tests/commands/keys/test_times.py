"""Times of keys where no script can look: rounded, set back, asked for without being an access."""

import pytest
from support.fake_server import FakeServer, make_client, reply, run

NOW = 1_700_000_000_000


@pytest.fixture
def client():
    client = make_client(server=FakeServer(now=NOW))
    client.db.add(b"k", b"v")
    return client


def test_while_a_file_is_loaded_a_past_time_is_only_noted(client):
    client.server.keyspace.expiring = False
    assert run(client, "PEXPIREAT", "k", 1) == b":1\r\n"
    assert client.db.expires == {b"k": 1}


def test_times_are_rounded_to_the_nearest_second(client):
    client.db.set_expiry(b"k", NOW + 1499)
    assert [reply(client, name, "k") for name in ("TTL", "PTTL")] == [1, 1499]
    client.db.set_expiry(b"k", NOW + 1500)
    names = ("TTL", "EXPIRETIME", "PEXPIRETIME")
    assert [reply(client, name, "k") for name in names] == [2, NOW // 1000 + 2, NOW + 1500]


def test_touch_is_an_access_and_asking_for_the_time_or_the_key_is_none(client):
    later = client.server.advance(1000)
    run(client, "TTL", "k")
    run(client, "EXISTS", "k")
    assert client.db.accessed == {b"k": NOW}
    client.server.keyspace.touching = False
    assert run(client, "TOUCH", "k", "none") == b":1\r\n"
    assert client.db.accessed == {b"k": later}


def test_the_idle_time_is_in_whole_seconds_and_asking_does_not_end_it(client):
    client.server.advance(2999)
    assert [reply(client, "OBJECT", "IDLETIME", "k") for _ in range(2)] == [2, 2]
    client.db.read(b"k")
    assert reply(client, "OBJECT", "IDLETIME", "k") == 0
    client.server.advance(-5000)
    assert reply(client, "OBJECT", "IDLETIME", "k") == 0
