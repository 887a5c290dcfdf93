import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fake_server import FakeServer, make_client, run

from rillet.commands.strings import get_set as strings
from rillet.storage.streams.stream import Stream

SYNTAX = b"-ERR syntax error\r\n"


NOW = 1_700_000_000_000
MAX = (1 << 63) - 1
WRONG_TYPE = b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
NULL = b"$-1\r\n"


@pytest.fixture
def client():
    return make_client(server=FakeServer(now=NOW))


@pytest.fixture
def with_stream(client):
    client.db.add(b"s", Stream())
    forget(client)
    return client


def forget(client):
    client.server.events.clear()
    client.server.propagation.take()
    client.server.keyspace.dirty = 0


def set_quietly(client, *words):
    run(client, "SET", *words)
    forget(client)


def effects(client):
    """Events, propagated commands and changes since the last time."""
    server = client.server
    events = [b"%b %b" % event for event in server.events]
    spread = [b" ".join(argv) for argv in server.propagation.take()]
    dirty = server.keyspace.dirty
    forget(client)
    return events, spread, dirty


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["SET", "set", "sEt"]),
            st.sampled_from(["a", "b", "s"]),
            st.binary(max_size=6),
            st.booleans(),
        ),
        max_size=8,
    ),
    st.booleans(),
)
def test_a_set_of_three_words_is_one_with_options(steps, notified):
    """One without any: what its shortcut gives, the general way gives."""
    twins = []
    for general in (False, True):
        client = make_client(server=FakeServer(now=NOW))
        client.db.add(b"s", Stream())
        forget(client)
        if not notified:
            client.server.keyspace.notify_mask = 0
        seen = []
        for verb, key, value, is_old in steps:
            if is_old and key.encode() in client.db.entries:
                client.db.set_expiry(key.encode(), NOW - 1)
            words = [verb.encode(), key.encode(), value]
            answer = strings._set_with_options(client, words) if general else run(client, *words)
            seen.append((answer, effects(client)))
        entries = {key: value if type(value) is bytes else None for key, value in client.db.entries.items()}
        twins.append((seen, entries, client.db.expires, client.db.accessed, client.server.keyspace.hits))
    assert twins[0] == twins[1]


@pytest.mark.parametrize("options", [(), ("EX", 9), ("KEEPTTL",), ("XX", "GET")])
def test_every_set_is_a_modification(client, options):
    set_quietly(client, "k", "v")
    client.db.watched[b"k"] = [1, 0]
    run(client, "SET", "k", "w", *options)
    assert client.db.watched[b"k"][1] == 1


def test_get_refuses_another_type_before_any_condition(with_stream):
    assert run(with_stream, "SET", "s", "v", "NX", "GET") == WRONG_TYPE
    assert run(with_stream, "SET", "s", "v", "EX", 0, "GET") == (
        b"-ERR invalid expire time in 'set' command\r\n"
    )


@pytest.mark.parametrize(
    "options",
    [
        ("XX", "NX"),
        ("KEEPTTL", "EX", 1),
        ("PERSIST",),
        ("IFEQ", "v", "NX"),
    ],
)
def test_options_of_set_that_do_not_go_together(client, options):
    assert run(client, "SET", "k", "v", *options) == SYNTAX


def test_a_set_over_a_key_past_its_time_expires_it_first(client):
    client.server.keyspace.on_expired = lambda db, key: client.server.propagation.add(db.index, [b"DEL", key])
    set_quietly(client, "k", "v", "PX", 1)
    client.server.advance(10)
    assert run(client, "SET", "k", "w", "XX") == NULL
    assert effects(client) == ([b"expired k"], [b"DEL k"], 0)
    set_quietly(client, "k", "v", "PX", 1)
    client.server.advance(10)
    run(client, "SET", "k", "w", "KEEPTTL")
    assert effects(client) == ([b"expired k", b"new k", b"set k"], [b"DEL k", b"SET k w KEEPTTL"], 1)
    assert client.db.expires == {}


@pytest.mark.parametrize("name", ["MSET", "MSETNX"])
def test_a_key_without_a_value_is_an_arity_error(client, name):
    assert run(client, name, "a", 1, "b") == (
        b"-ERR wrong number of arguments for '%b' command\r\n" % name.lower().encode()
    )


@pytest.mark.parametrize(
    "words", [("GET", "s"), ("GETDEL", "s"), ("GETSET", "s", "v"), ("APPEND", "s", "v"), ("STRLEN", "s"),
              ("GETRANGE", "s", 0, 1), ("SETRANGE", "s", 0, "")],
)  # fmt: skip
def test_a_stream_is_the_wrong_type(with_stream, words):
    assert run(with_stream, *words) == WRONG_TYPE
    assert effects(with_stream) == ([], [], 0)


def test_setrange_overwrites_and_fills_gaps(client):
    set_quietly(client, "k", "hello", "PX", 9)
    assert run(client, "SETRANGE", "k", 1, "XY") == b":5\r\n"
    assert run(client, "SETRANGE", "k", 7, "z") == b":8\r\n"
    assert (client.db.entries, client.db.expires) == ({b"k": b"hXYlo\0\0z"}, {b"k": NOW + 9})
    assert effects(client) == ([b"setrange k"] * 2, [b"SETRANGE k 1 XY", b"SETRANGE k 7 z"], 2)


def test_no_string_grows_beyond_the_limit(client):
    client.server.config.proto_max_bulk_len = 8
    too_long = b"-ERR string exceeds maximum allowed size (proto-max-bulk-len)\r\n"
    assert run(client, "SETRANGE", "k", 8, "x") == too_long
    assert run(client, "SETRANGE", "k", 7, "x") == b":8\r\n"
    assert run(client, "APPEND", "k", "x") == too_long
    assert run(client, "SETRANGE", "k", MAX, "x") == too_long
    assert len(client.db.entries[b"k"]) == 8
