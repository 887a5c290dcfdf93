"""XNACK, rule by rule, and how entries without owner look from everywhere."""

from __future__ import annotations

import pytest
from support.fake_server import ready_keys, reply, run, wait_for
from support.groups import effects, forget, group_client
from support.streams.pending import acknowledge, given_back

from rillet.commands.streams import xack  # noqa: F401 - it declares the command
from rillet.storage.streams.ids import MAX_COUNT


@pytest.fixture
def client():
    """Stream 1-0 to 4-0; c has had 1-0 to 3-0 a second ago, and 1-0 for the fifth time."""
    client = group_client(4)
    run(client, "XREADGROUP", "GROUP", "g", "c", "COUNT", "3", "STREAMS", "s", ">")
    run(client, "XCLAIM", "s", "g", "c", "0", "1-0", "RETRYCOUNT", "5")
    client.server.advance(1000)
    forget(client)
    return client


def pending(client, *consumer: str):
    found = reply(client, "XPENDING", "s", "g", "-", "+", "100", *consumer)
    return [(i.decode(), c.decode(), idle, count) for i, c, idle, count in found]


def group_of(client):
    return client.db.entries[b"s"].groups[b"g"]


def waiting(client) -> list[bytes]:
    return given_back(group_of(client))


def nack(client, *words: str):
    return reply(client, "XNACK", "s", "g", *words)


# What becomes of an entry


@pytest.mark.parametrize(
    ("words", "counts"),
    [
        ("SILENT IDS 2 1-0 2-0", [4, 0]),
        ("FAIL IDS 2 1-0 2-0", [5, 1]),
        ("fatal ids 2 1-0 2-0", [MAX_COUNT, MAX_COUNT]),
        ("FATAL IDS 2 1-0 2-0 RETRYCOUNT 7", [7, 7]),
        ("SILENT RETRYCOUNT 0 FORCE IDS 2 1-0 2-0", [0, 0]),
    ],
)
def test_the_mode_says_what_becomes_of_the_counter(client, words, counts):
    assert nack(client, *words.split()) == 2
    assert pending(client) == [
        ("1-0", "", -1, counts[0]),
        ("2-0", "", -1, counts[1]),
        ("3-0", "c", 1000, 1),
    ]


def test_silent_does_not_go_below_zero(client):
    for _ in range(3):
        assert nack(client, "SILENT", "IDS", "1", "2-0") == 1
    assert pending(client)[1] == ("2-0", "", -1, 0)


def test_an_id_named_twice_is_given_back_twice(client):
    assert nack(client, "SILENT", "IDS", "3", "1-0", "1", "1-0") == 3
    assert pending(client)[0] == ("1-0", "", -1, 2)


def test_what_is_not_pending_is_ignored_without_force(client):
    assert nack(client, "FAIL", "IDS", "2", "4-0", "9-0") == 0
    assert not effects(client)
    assert client.server.keyspace.dirty == 0


@pytest.mark.parametrize(
    ("mode", "count"),
    [(("SILENT",), 0), (("FAIL",), 0), (("FATAL",), MAX_COUNT), (("FAIL", "RETRYCOUNT", "3"), 3)],
)
def test_force_makes_an_entry_if_there_is_such_a_message(client, mode, count):
    assert nack(client, *mode, "IDS", "2", "4-0", "9-0", "FORCE") == 1
    assert pending(client)[3] == ("4-0", "", -1, count)
    assert group_of(client).last_id == 3 << 64


def test_the_order_is_that_of_giving_back(client):
    nack(client, "FAIL", "IDS", "2", "3-0", "1-0")
    assert waiting(client) == [b"3-0", b"1-0"]
    nack(client, "FAIL", "IDS", "1", "2-0")
    nack(client, "FAIL", "IDS", "1", "3-0")  # once more: to the end
    assert waiting(client) == [b"1-0", b"2-0", b"3-0"]


# What is propagated


def test_it_wakes_who_waits_for_the_key_if_something_was_given_back(client):
    wait_for(client, b"s")
    nack(client, "FAIL", "IDS", "1", "9-0")
    assert ready_keys(client) == []
    nack(client, "FAIL", "IDS", "1", "1-0")
    assert ready_keys(client) == [b"s"]


# From everywhere


def test_copy_keeps_it_and_its_turn(client):
    nack(client, "FAIL", "IDS", "2", "3-0", "1-0")
    twin = group_of(client).copy()
    counts = [(each.text, each.count) for each in twin.pel.given_back(twin.unowned)]
    assert counts == [(b"3-0", 1), (b"1-0", 5)]
    assert twin.unowned.pending == 2
    assert acknowledge(group_of(client), [3 << 64]) == 1
    assert twin.unowned.pending == 2
