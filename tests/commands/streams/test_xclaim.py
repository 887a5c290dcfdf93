"""XCLAIM and XAUTOCLAIM: what xclaim.script and xautoclaim.script do not show: effects, exact times, no change on error."""

import pytest
from support.fake_server import reply, run
from support.groups import effects, forget, group_client, stated

from rillet.commands.spec.versions import compat_with

NOW = 1_700_000_000_000


@pytest.fixture
def client():
    """Stream 1-0 2-0 3-0, group g, all three delivered to consumer c a second ago."""
    client = group_client()
    run(client, "XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
    client.server.advance(1000)
    forget(client)
    return client


def later(ms: int = 1000) -> int:
    return NOW + ms


def pending(client, *options: str):
    """(id, consumer, idle, count) of every pending entry, as text and numbers."""
    found = reply(client, "XPENDING", "s", "g", *options, "-", "+", "100")
    return [(i.decode(), c.decode(), idle, count) for i, c, idle, count in found]


# What is refused; the texts are in xclaim.script and xautoclaim.script


def test_a_negative_min_idle_counts_as_zero(client):
    client.server.advance(-5000)
    assert reply(client, "XCLAIM", "s", "g", "d", "-5", "1-0", "JUSTID") == [b"1-0"]


# Options


def test_of_idle_and_time_the_last_one_counts(client):
    run(client, "XCLAIM", "s", "g", "d", "0", "1-0", "TIME", "5", "IDLE", "70")
    run(client, "XCLAIM", "s", "g", "d", "0", "2-0", "IDLE", "70", "TIME", str(later() - 30))
    assert [idle for _, _, idle, _ in pending(client)] == [70, 30, 1000]


# Min-idle


def test_a_clock_set_back_makes_nothing_idle(client):
    client.server.advance(-5000)
    assert reply(client, "XCLAIM", "s", "g", "d", "1", "1-0") == []
    assert len(reply(client, "XCLAIM", "s", "g", "d", "0", "1-0")) == 1


# Consumers


def test_a_claim_marks_the_consumer_seen_and_active(client):
    run(client, "XCLAIM", "s", "g", "d", "0", "1-0")
    client.server.advance(50)
    run(client, "XCLAIM", "s", "g", "d", "99999", "1-0")
    client.server.advance(5)
    [_, d] = reply(client, "XINFO", "CONSUMERS", "s", "g")
    assert d == [b"name", b"d", b"pending", 1, b"idle", 5, b"inactive", 55]


def test_up_to_7_0_a_claim_marks_the_consumer_seen_where_it_finds_something(client):
    client.server.compat = compat_with("7.0")
    run(client, "XCLAIM", "s", "g", "d", "0", "1-0")
    client.server.advance(50)
    run(client, "XCLAIM", "s", "g", "d", "0", "1-0")
    client.server.advance(5)
    run(client, "XCLAIM", "s", "g", "d", "99999", "1-0")
    assert client.server.keyspace.now - client.db.entries[b"s"].groups[b"g"].consumers[b"d"].seen_ms == 5


# What is propagated


def test_neighbours_claimed_together_are_stated_one_by_one(client):
    run(client, "XCLAIM", "s", "g", "d", "0", "1-0", "2-0", "3-0")
    assert effects(client) == [stated("d", f"{n}-0", count=2, last="3-0", ms=later()) for n in (1, 2, 3)]
    assert client.server.keyspace.dirty == 4


def test_what_is_stated_leads_another_server_to_the_same_state(client):
    run(client, "XDEL", "s", "2-0")
    other = group_client()
    run(other, "XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
    run(other, "XDEL", "s", "2-0")
    other.server.advance(1000)
    forget(client)
    run(client, "XCLAIM", "s", "g", "d", "0", "1-0", "2-0", "LASTID", "8-0", "RETRYCOUNT", "4")
    for argv in client.server.propagation.take():
        run(other, *argv)
    assert pending(other) == pending(client) == [("1-0", "d", 0, 4), ("3-0", "c", 1000, 1)]
    assert other.db.entries[b"s"].groups[b"g"].last_id == client.db.entries[b"s"].groups[b"g"].last_id


def test_a_claim_is_no_event_and_wakes_and_invalidates_no_client(client):
    client.db.awaited[b"s"] = 1
    client.db.watched[b"s"] = [1, 0]
    run(client, "XCLAIM", "s", "g", "c", "0", "1-0")
    assert client.server.events == []
    assert not client.server.keyspace.ready
    assert client.db.watched[b"s"] == [1, 0]


def test_without_a_listener_nothing_is_built(client):
    client.server.propagation.active = False
    run(client, "XCLAIM", "s", "g", "d", "0", "1-0", "LASTID", "9-0")
    run(client, "XCLAIM", "s", "g", "d", "0", "77-0", "LASTID", "10-0")
    run(client, "XAUTOCLAIM", "s", "g", "e", "0", "0")
    assert effects(client) == []


# XAUTOCLAIM


def test_a_negative_min_idle_of_xautoclaim_counts_as_zero(client):
    client.server.advance(-9000)
    assert len(reply(client, "XAUTOCLAIM", "s", "g", "d", "-1", "0")[1]) == 3


def test_a_walk_to_the_cursor_ends_at_zero_and_repeats_nothing():
    client = group_client(60)
    run(client, "XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
    for ms in range(1, 61, 3):
        run(client, "XACK", "s", "g", f"{ms}-0")
    expected = [i.encode() for i, *_ in pending(client)]
    cursor, seen = b"0", []
    while cursor != b"0-0":
        cursor, ids, _ = reply(client, "XAUTOCLAIM", "s", "g", "d", "0", cursor, "COUNT", "7", "JUSTID")
        seen += ids
    assert seen == expected


def test_a_huge_count_is_only_a_limit(client):
    assert (
        len(reply(client, "XAUTOCLAIM", "s", "g", "d", "0", "0", "COUNT", str((1 << 63) // 16 - 1))[1]) == 3
    )
