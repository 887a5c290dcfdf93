import pytest
from support.fake_server import FakeServer, make_client, ready_keys, reply, run, wait_for

from rillet.commands.keys import databases  # noqa: F401 - it declares commands
from rillet.storage.streams.stream import Stream

NOW = 1_700_000_000_000
SYNTAX = b"-ERR syntax error\r\n"
SAME = b"-ERR source and destination objects are the same\r\n"
INDEX = b"-ERR DB index is out of range\r\n"
NOT_AN_INTEGER = b"-ERR value is not an integer or out of range\r\n"
NOT_AN_INT = b"-ERR value is out of range, value must between -2147483648 and 2147483647\r\n"


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


def effects(client):
    server = client.server
    events = [b"%b %b" % event for event in server.events]
    server.events.clear()
    dirty, server.keyspace.dirty = server.keyspace.dirty, 0
    return events, [b" ".join(argv) for argv in server.propagation.take()], dirty


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


def test_flushall_takes_all_and_is_propagated_even_without_any_key(client, other):
    put(client.db, b"a", b"b")
    put(other, b"a")
    client.server.events.clear()
    assert run(client, "FLUSHALL") == b"+OK\r\n"
    assert (len(client.db), len(other)) == (0, 0)
    assert effects(client) == ([], [b"FLUSHALL"], 3)
    run(client, "FLUSHALL", "SYNC")
    assert effects(client) == ([], [b"FLUSHALL SYNC"], 0)


@pytest.mark.parametrize("name", ["FLUSHDB", "FLUSHALL"])
def test_other_words_behind_a_flush(client, name):
    put(client.db, b"a")
    assert run(client, name, "FOO") == SYNTAX
    assert run(client, name, "SYNC", "ASYNC") == SYNTAX
    assert len(client.db) == 1


def test_swapdb(client, other):
    put(client.db, b"a")
    wait_for(client, b"a")
    client.server.events.clear()
    assert run(client, "SWAPDB", 0, 1) == b"+OK\r\n"
    assert (list(client.db.entries), list(other.entries)) == ([], [b"a"])
    assert effects(client) == ([], [b"SWAPDB 0 1"], 1)
    assert ready_keys(client) == [b"a"]


def test_swapping_a_database_with_itself_counts_as_a_change(client):
    assert run(client, "SWAPDB", 3, 3) == b"+OK\r\n"
    assert effects(client) == ([], [b"SWAPDB 3 3"], 1)


@pytest.mark.parametrize(
    ("first", "second", "error"),
    [
        ("a", "b", b"-ERR invalid first DB index\r\n"),
        (1 << 32, 0, b"-ERR invalid first DB index\r\n"),
        (99, "b", b"-ERR invalid second DB index\r\n"),
        (99, 0, INDEX),
        (0, 16, INDEX),
        (0, -1, INDEX),
    ],
)
def test_swapdb_refuses_wrong_indexes(client, first, second, error):
    assert run(client, "SWAPDB", first, second) == error


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


def test_move_leaves_a_key_that_is_there_already(client, other):
    put(client.db, b"k")
    put(other, b"k", value=b"w")
    client.server.events.clear()
    assert run(client, "MOVE", "k", 1) == b":0\r\n"
    assert run(client, "MOVE", "none", 1) == b":0\r\n"
    assert other.entries == {b"k": b"w"}
    assert effects(client) == ([], [], 0)


@pytest.mark.parametrize(
    ("index", "error"),
    [
        (0, SAME),
        (16, INDEX),
        (-1, INDEX),
        ("x", NOT_AN_INTEGER),
        (1 << 31, NOT_AN_INT),
        (1 << 64, NOT_AN_INTEGER),
    ],
)
def test_move_checks_the_index_before_the_key(client, index, error):
    assert run(client, "MOVE", "none", index) == error


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


def test_copy_overwrites_only_with_replace(client):
    put(client.db, b"a", value=b"1")
    put(client.db, b"b", value=b"2")
    client.db.set_expiry(b"b", NOW + 5)
    client.server.events.clear()
    assert run(client, "COPY", "a", "b") == b":0\r\n"
    assert effects(client) == ([], [], 0)
    assert run(client, "COPY", "a", "b", "replace") == b":1\r\n"
    assert (client.db.entries[b"b"], client.db.expires) == (b"1", {})
    assert effects(client) == ([b"0:new b", b"0:copy_to b"], [b"COPY a b replace"], 1)


def test_copying_a_missing_key(client):
    assert run(client, "COPY", "none", "k", "REPLACE") == b":0\r\n"
    assert effects(client) == ([b"0:keymiss none"], [], 0)


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("k", "k"), SAME),
        (("k", "k", "DB", 0, "REPLACE"), SAME),
        (("k", "t", "DB", 16), INDEX),
        (("k", "t", "DB", "x"), NOT_AN_INTEGER),
        (("k", "t", "DB", 1 << 32), NOT_AN_INT),
        (("k", "t", "DB"), SYNTAX),
        (("k", "t", "FOO"), SYNTAX),
        (("k", "t", "DB", "x", "FOO"), NOT_AN_INTEGER),
    ],
)
def test_copy_checks_its_options_before_the_key(client, words, error):
    assert run(client, "COPY", *words) == error


def test_a_key_can_be_copied_to_its_own_name_in_another_database(client, other):
    put(client.db, b"k")
    assert reply(client, "COPY", "k", "k", "DB", 1) == 1
    assert other.entries == {b"k": b"v"}
