"""The keyspace events of Redis 8.2: overwritten and type_changed."""

import pytest
from support.fake_server import make_client, run

from rillet.commands.keys import databases
from rillet.commands.keys import lifecycle as keys
from rillet.commands.streams import xadd as streams
from rillet.commands.strings import counters
from rillet.commands.strings import get_set as strings
from rillet.commands.strings import ranges as substrings
from rillet.storage.keyspace import notifications as events

FAMILIES = (counters, databases, keys, streams, strings, substrings)


@pytest.fixture
def client():
    """A string k, a string l and a stream s; only the two new classes and the commands' own are heard."""
    client = make_client()
    for words in ("SET k 1", "SET l 2", "XADD s 1-0 a b"):
        run(client, *words.split())
    client.server.events.clear()
    client.server.keyspace.notify_mask = (
        events.OVERWRITTEN | events.TYPE_CHANGED | events.STRING | events.GENERIC
    )
    return client


@pytest.mark.parametrize(
    ("words", "stated"),
    [
        ("SET k 2", "overwritten k, set k"),
        ("SET s 2", "overwritten s, type_changed s, set s"),
        ("SET s 2 EX 10", "overwritten s, type_changed s, set s, expire s"),
        ("SET k 2 KEEPTTL", "overwritten k, set k"),
        ("SET new 2", "set new"),
        ("GETSET k 2", "overwritten k, set k"),
        ("SETEX s 10 2", "overwritten s, type_changed s, set s, expire s"),
        ("SETNX new 2", "set new"),
        ("MSET k 1 new 1 s 1", "overwritten k, set k, set new, overwritten s, type_changed s, set s"),
        # These change a value.
        ("APPEND k 2", "append k"),
        ("SETRANGE k 0 2", "setrange k"),
        ("INCR k", "incrby k"),
        # These take a key away and put another one in its place.
        ("RENAME k l", "rename_from k, rename_to l, overwritten l"),
        ("RENAME s l", "rename_from s, rename_to l, overwritten l, type_changed l"),
        ("RENAME k new", "rename_from k, rename_to new"),
        ("COPY k l REPLACE", "copy_to l, overwritten l"),
        ("COPY s l REPLACE", "copy_to l, overwritten l, type_changed l"),
        ("COPY s new", "copy_to new"),
    ],
)
def test_what_takes_the_place_of_a_value_says_so(client, words, stated):
    run(client, *words.split())
    assert ", ".join(f"{event.decode()} {key.decode()}" for event, key in client.server.events) == stated


@pytest.mark.parametrize("expired", ["SET k 2", "RENAME l k"])
def test_a_value_past_its_time_is_not_overwritten(client, expired):
    client.db.set_expiry(b"k", client.server.keyspace.now + 10)
    client.server.advance(11)
    run(client, *expired.split())
    assert b"overwritten" not in [event for event, _ in client.server.events]


def test_each_class_is_switched_on_by_itself(client):
    client.server.keyspace.notify_mask = events.TYPE_CHANGED
    run(client, "SET", "s", "2")
    assert client.server.events == [(b"type_changed", b"s")]
