import pytest
from support.fake_server import FakeServer, effects, make_client, ready_keys, run, wait_for

from rillet.commands.keys import databases  # noqa: F401 - it declares commands
from rillet.storage.streams.stream import Stream

NOW = 1_700_000_000_000


@pytest.fixture
def client():
    client = make_client(server=FakeServer(now=NOW))
    client.server.keyspace.on_event = lambda index, event, key, _fields: client.server.events.append(
        (b"%d:%b" % (index, event), key)
    )
    return client


@pytest.fixture
def other(client):
    return client.server.keyspace.databases[1]


def put(db, *names, value=b"v"):
    for name in names:
        db.put(name, value)
    db.keyspace.ready.clear()


def test_dbsize_counts_keys_past_their_time_too(client, other):
    put(client.db, b"a", b"b")
    put(other, b"c")
    client.db.set_expiry(b"a", NOW - 1)
    assert run(client, "DBSIZE") == b":2\r\n"


def test_flushdb_takes_one_database(client, other):
    flushed = []
    client.server.keyspace.on_flushed = lambda: flushed.append(True)
    put(client.db, b"a", b"b")
    put(other, b"a")
    client.db.watched[b"a"] = [1, 0]
    wait_for(client, b"a")
    client.server.events.clear()
    assert run(client, "FLUSHDB", "async") == b"+OK\r\n"
    assert (len(client.db), len(other)) == (0, 1)
    assert effects(client) == ([], [b"FLUSHDB async"], 2)
    assert client.db.watched[b"a"][1] == 1
    assert ready_keys(client) == [b"a"]
    assert flushed == [True]


def test_swapdb(client, other):
    put(client.db, b"a")
    wait_for(client, b"a")
    client.server.events.clear()
    assert run(client, "SWAPDB", 0, 1) == b"+OK\r\n"
    assert (list(client.db.entries), list(other.entries)) == ([], [b"a"])
    assert effects(client) == ([], [b"SWAPDB 0 1"], 1)
    assert ready_keys(client) == [b"a"]


def test_move_takes_the_expiry_along(client, other):
    put(client.db, b"k")
    client.db.set_expiry(b"k", NOW + 5)
    for db in (client.db, other):
        db.watched[b"k"] = [1, 0]
    other.awaited[b"k"] = 1
    client.server.events.clear()
    assert run(client, "MOVE", "k", 1) == b":1\r\n"
    assert (client.db.entries, other.entries, other.expires) == ({}, {b"k": b"v"}, {b"k": NOW + 5})
    assert effects(client) == ([b"1:new k", b"0:move_from k", b"1:move_to k"], [b"MOVE k 1"], 1)
    assert client.db.watched[b"k"][1] == other.watched[b"k"][1] == 1
    assert list(client.server.keyspace.ready) == [(other, b"k")]


def test_copying_a_stream_makes_an_independent_one(client, other):
    stream = Stream()
    client.db.put(b"s", stream)
    client.db.set_expiry(b"s", NOW + 5)
    other.watched[b"t"] = [1, 0]
    other.awaited[b"t"] = 1
    client.server.events.clear()
    assert run(client, "COPY", "s", "t", "DB", 1) == b":1\r\n"
    assert type(other.entries[b"t"]) is Stream
    assert other.entries[b"t"] is not stream
    assert (other.expires, client.db.expires) == ({b"t": NOW + 5}, {b"s": NOW + 5})
    assert effects(client) == ([b"1:new t", b"1:copy_to t"], [b"COPY s t DB 1"], 1)
    assert other.watched[b"t"][1] == 1
    assert list(client.server.keyspace.ready) == [(other, b"t")]
