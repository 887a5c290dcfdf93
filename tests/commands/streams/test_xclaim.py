"""XCLAIM and XAUTOCLAIM where no script can look: clocks set back, times of 7.0, huge counts."""

import pytest
from support.fake_server import reply, run
from support.groups import effects, forget, group_client

from rillet.commands.spec.versions import compat_with


@pytest.fixture
def client():
    """Stream 1-0 2-0 3-0, group g, all three delivered to consumer c a second ago."""
    client = group_client()
    run(client, "XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
    client.server.advance(1000)
    forget(client)
    return client


def test_a_negative_min_idle_counts_as_zero(client):
    client.server.advance(-5000)
    assert reply(client, "XCLAIM", "s", "g", "d", "-5", "1-0", "JUSTID") == [b"1-0"]


def test_a_clock_set_back_makes_nothing_idle(client):
    client.server.advance(-5000)
    assert reply(client, "XCLAIM", "s", "g", "d", "1", "1-0") == []
    assert len(reply(client, "XCLAIM", "s", "g", "d", "0", "1-0")) == 1


def test_up_to_7_0_a_claim_marks_the_consumer_seen_where_it_finds_something(client):
    client.server.compat = compat_with("7.0")
    run(client, "XCLAIM", "s", "g", "d", "0", "1-0")
    client.server.advance(50)
    run(client, "XCLAIM", "s", "g", "d", "0", "1-0")
    client.server.advance(5)
    run(client, "XCLAIM", "s", "g", "d", "99999", "1-0")
    assert client.server.keyspace.now - client.db.entries[b"s"].groups[b"g"].consumers[b"d"].seen_ms == 5


def test_without_a_listener_nothing_is_built(client):
    client.server.propagation.active = False
    run(client, "XCLAIM", "s", "g", "d", "0", "1-0", "LASTID", "9-0")
    run(client, "XCLAIM", "s", "g", "d", "0", "77-0", "LASTID", "10-0")
    run(client, "XAUTOCLAIM", "s", "g", "e", "0", "0")
    assert effects(client) == []


def test_a_negative_min_idle_of_xautoclaim_counts_as_zero(client):
    client.server.advance(-9000)
    assert len(reply(client, "XAUTOCLAIM", "s", "g", "d", "-1", "0")[1]) == 3


def test_a_huge_count_is_only_a_limit(client):
    assert (
        len(reply(client, "XAUTOCLAIM", "s", "g", "d", "0", "0", "COUNT", str((1 << 63) // 16 - 1))[1]) == 3
    )
