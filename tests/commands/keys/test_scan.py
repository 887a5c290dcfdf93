import pytest
from support.fake_server import FakeServer, make_client, reply, run

from rillet.commands.keys import scan  # noqa: F401 - it declares commands
from rillet.storage.streams.stream import Stream

NOW = 1_700_000_000_000


@pytest.fixture
def client():
    return make_client(server=FakeServer(now=NOW))


def fill(client, *names, value=b"v"):
    for name in names:
        client.db.put(name, value)
    client.server.events.clear()


def walk(client, *options):
    """The sizes of the pages and all keys."""
    cursor, sizes, found = b"0", [], []
    while True:
        cursor, page = reply(client, "SCAN", cursor, *options)
        sizes.append(len(page))
        found += page
        if cursor == b"0":
            return sizes, sorted(found)


def test_ten_keys_are_looked_at_unless_count_says_otherwise(client):
    names = [b"%02d" % number for number in range(25)]
    fill(client, *names)
    assert walk(client) == ([10, 10, 5], names)
    assert walk(client, "COUNT", 100) == ([25], names)


def test_filters_choose_among_the_keys_looked_at(client):
    fill(client, *[b"a%d" % number for number in range(9)])
    client.db.put(b"b", Stream())
    assert walk(client, "COUNT", 5, "MATCH", "a[0-3]")[1] == [b"a0", b"a1", b"a2", b"a3"]
    sizes, found = walk(client, "COUNT", 5, "type", "Stream")
    assert (sum(sizes), len(sizes), found) == (1, 2, [b"b"])
    assert walk(client, "MATCH", "a*", "MATCH", "b")[1] == [b"b"]
    assert walk(client, "TYPE", "zset")[1] == []


def test_each_database_has_its_own_order(client):
    fill(client, b"a")
    assert walk(client)[1] == [b"a"]
    client.db = client.server.keyspace.databases[1]
    assert run(client, "SCAN", "0") == b"*2\r\n$1\r\n0\r\n*0\r\n"


def test_keys_past_their_time_are_dropped_if_the_pattern_lets_them_through(client):
    fill(client, b"a")
    client.db.set_expiry(b"a", NOW - 1)
    assert walk(client, "MATCH", "b")[1] == []
    assert len(client.db) == 1
    assert walk(client, "TYPE", "stream")[1] == []
    assert len(client.db) == 0
    assert client.server.events == [(b"expired", b"a")]
    assert (client.server.keyspace.hits, client.server.keyspace.misses) == (0, 0)


@pytest.mark.parametrize("cursor", ["", "a", "-1", "0 ", "0x0", "1.5", "18446744073709551616", "9" * 5000])
def test_cursors_that_are_not(client, cursor):
    assert run(client, "SCAN", cursor, "COUNT", 0) == b"-ERR invalid cursor\r\n"


def test_keys_hides_what_is_past_its_time_and_leaves_it(client):
    fill(client, b"one", b"two", b"old")
    client.db.set_expiry(b"old", NOW - 1)
    assert sorted(reply(client, "KEYS", "*o*")) == [b"one", b"two"]
    assert reply(client, "KEYS", "t?o") == [b"two"]
    assert len(client.db) == 3
    assert client.server.events == []


def test_randomkey_finds_every_key_and_never_one_past_its_time(client):
    assert run(client, "RANDOMKEY") == b"$-1\r\n"
    fill(client, b"a", b"b", b"old")
    client.db.set_expiry(b"old", NOW - 1)
    assert {reply(client, "RANDOMKEY") for _ in range(100)} == {b"a", b"b"}
    assert client.server.events == [(b"expired", b"old")]


def test_randomkey_of_keys_that_are_all_past_their_time(client):
    fill(client, b"a", b"b")
    for name in (b"a", b"b"):
        client.db.set_expiry(name, NOW - 1)
    client.resp = 3
    assert run(client, "RANDOMKEY") == b"_\r\n"
    assert len(client.db) == 0
