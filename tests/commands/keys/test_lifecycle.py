import pytest
from support.fake_server import FakeServer, effects, make_client, ready_keys, run, wait_for

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


def watch(client, *names):
    for name in names:
        client.db.watched[name] = [1, 0]


def versions(client):
    return {name: version for name, (_, version) in client.db.watched.items()}


@pytest.mark.parametrize("name", ["DEL", "UNLINK", "del"])
def test_deleting_counts_and_propagates_the_command_as_it_came(client, name):
    watch(client, b"a", b"none")
    wait_for(client, b"s")
    assert run(client, name, "a", "none", "s", "a") == b":2\r\n"
    assert effects(client) == ([b"del a", b"del s"], [b"%b a none s a" % name.encode()], 2)
    assert versions(client) == {b"a": 1, b"none": 0}
    assert ready_keys(client) == [b"s"]


def test_a_key_past_its_time_expires_but_is_not_counted_as_deleted(client):
    client.db.set_expiry(b"a", NOW - 1)
    assert run(client, "DEL", "a") == b":0\r\n"
    assert effects(client) == ([b"expired a"], [], 0)


def test_touch_is_an_access_and_exists_is_none(client):
    later = client.server.advance(1000)
    run(client, "EXISTS", "a")
    assert client.db.accessed[b"a"] == NOW
    client.server.keyspace.touching = False
    assert run(client, "TOUCH", "a", "none") == b":1\r\n"
    assert client.db.accessed[b"a"] == later


def test_renaming_takes_the_expiry_along_and_wakes_the_new_name(client):
    stream = client.db.entries[b"s"]
    client.db.set_expiry(b"s", NOW + 5)
    client.db.set_expiry(b"a", NOW + 9)
    watch(client, b"a", b"s")
    wait_for(client, b"a")
    wait_for(client, b"s")
    assert run(client, "RENAME", "s", "a") == b"+OK\r\n"
    assert client.db.entries == {b"a": stream}
    assert client.db.expires == {b"a": NOW + 5}
    assert effects(client) == ([b"new a", b"rename_from s", b"rename_to a"], [b"RENAME s a"], 1)
    assert versions(client) == {b"a": 1, b"s": 1}
    assert ready_keys(client) == [b"a", b"s"]
