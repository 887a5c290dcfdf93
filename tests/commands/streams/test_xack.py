"""XNACK, rule by rule, and how entries without owner look from everywhere."""

import pytest
from support.fake_server import ready_keys, reply, run, wait_for
from support.groups import forget, group_client
from support.streams.pending import acknowledge, given_back

from rillet.commands.streams import xack  # noqa: F401 - it declares the command


@pytest.fixture
def client():
    """Stream 1-0 to 4-0; c has had 1-0 to 3-0 a second ago, and 1-0 for the fifth time."""
    client = group_client(4)
    run(client, "XREADGROUP", "GROUP", "g", "c", "COUNT", "3", "STREAMS", "s", ">")
    run(client, "XCLAIM", "s", "g", "c", "0", "1-0", "RETRYCOUNT", "5")
    client.server.advance(1000)
    forget(client)
    return client


def group_of(client):
    return client.db.entries[b"s"].groups[b"g"]


def waiting(client) -> list[bytes]:
    return given_back(group_of(client))


def nack(client, *words: str):
    return reply(client, "XNACK", "s", "g", *words)


# What becomes of an entry


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
