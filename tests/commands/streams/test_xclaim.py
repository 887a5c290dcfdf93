"""XCLAIM and XAUTOCLAIM: what xclaim.script and xautoclaim.script do not show: effects, exact times, no change on error."""

from __future__ import annotations

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


def untouched(client) -> bool:
    """Whether nothing has happened since the fixture."""
    return (
        not client.server.propagation.effects
        and not client.server.events
        and client.server.keyspace.dirty == 0
        and set(client.db.entries[b"s"].groups[b"g"].consumers) <= {b"c"}
    )


# What is refused; the texts are in xclaim.script and xautoclaim.script


@pytest.mark.parametrize("words", ["x 0", "0 x", "0 0 COUNT 0", "0 0 COUNT", "0 0 FORCE"])
def test_a_refused_xautoclaim_looks_at_the_key_and_changes_nothing(client, words):
    client.db.entries[b"str"] = b"x"
    keyspace = client.server.keyspace
    hits, misses = keyspace.hits, keyspace.misses
    for key in ("str", "nokey"):
        assert run(client, "XAUTOCLAIM", key, "g", "d", *words.split()).startswith(b"-ERR ")
    assert (keyspace.hits - hits, keyspace.misses - misses) == (1, 1)
    assert client.server.events.pop() == (b"keymiss", b"nokey")
    assert run(client, "XAUTOCLAIM", "s", "g", "d", *words.split()).startswith(b"-ERR ")
    assert untouched(client)


def test_a_negative_min_idle_counts_as_zero(client):
    client.server.advance(-5000)
    assert reply(client, "XCLAIM", "s", "g", "d", "-5", "1-0", "JUSTID") == [b"1-0"]


# Options


def test_without_options_the_counter_grows_and_the_entry_is_fresh(client):
    assert reply(client, "XCLAIM", "s", "g", "d", "0", "1-0") == [[b"1-0", [b"a", b"b"]]]
    assert pending(client)[0] == ("1-0", "d", 0, 2)


def test_idle_sets_how_long_ago_it_was_delivered(client):
    run(client, "XCLAIM", "s", "g", "d", "0", "1-0", "IDLE", "5000")
    assert pending(client)[0] == ("1-0", "d", 5000, 2)


def test_time_sets_when_it_was_delivered(client):
    run(client, "XCLAIM", "s", "g", "d", "0", "1-0", "TIME", "5")
    assert pending(client)[0] == ("1-0", "d", later() - 5, 2)


def test_of_idle_and_time_the_last_one_counts(client):
    run(client, "XCLAIM", "s", "g", "d", "0", "1-0", "TIME", "5", "IDLE", "70")
    run(client, "XCLAIM", "s", "g", "d", "0", "2-0", "IDLE", "70", "TIME", str(later() - 30))
    assert [idle for _, _, idle, _ in pending(client)] == [70, 30, 1000]


@pytest.mark.parametrize(
    "option",
    [
        ("IDLE", "-1"),
        ("IDLE", str(NOW + 5000)),
        ("IDLE", "-9223372036854775808"),
        ("TIME", str(NOW + 5000)),
        ("TIME", "-1"),
        ("TIME", "-9223372036854775808"),
        ("TIME", "9223372036854775807"),
    ],
)
def test_a_delivery_time_out_of_bounds_becomes_now(client, option):
    run(client, "XCLAIM", "s", "g", "d", "0", "1-0", *option)
    assert pending(client)[0][2] == 0


def test_time_zero_and_idle_now_are_within_bounds(client):
    run(client, "XCLAIM", "s", "g", "d", "0", "1-0", "TIME", "0")
    run(client, "XCLAIM", "s", "g", "d", "0", "2-0", "IDLE", str(later()))
    assert [idle for _, _, idle, _ in pending(client)] == [later(), later(), 1000]


def test_the_counter_stops_at_the_greatest_integer(client):
    run(client, "XCLAIM", "s", "g", "d", "0", "1-0", "RETRYCOUNT", "9223372036854775807")
    run(client, "XCLAIM", "s", "g", "d", "0", "1-0")
    assert pending(client)[0][3] == 9223372036854775807


def test_justid_answers_ids_and_leaves_the_counter(client):
    assert (
        run(client, "XCLAIM", "s", "g", "d", "0", "1-0", "3-0", "JUSTID")
        == b"*2\r\n$3\r\n1-0\r\n$3\r\n3-0\r\n"
    )
    assert pending(client) == [("1-0", "d", 0, 1), ("2-0", "c", 1000, 1), ("3-0", "d", 0, 1)]


def test_force_on_a_missing_message_claims_nothing():
    client = group_client()
    assert reply(client, "XCLAIM", "s", "g", "c", "0", "77-0", "FORCE") == []
    assert pending(client) == []
    assert effects(client) == []


# Min-idle


def test_an_entry_that_is_not_idle_for_long_enough_is_left_out(client):
    assert reply(client, "XCLAIM", "s", "g", "d", "1001", "1-0", "2-0") == []
    assert pending(client)[0] == ("1-0", "c", 1000, 1)


def test_an_entry_that_is_idle_for_exactly_as_long_is_claimed(client):
    assert len(reply(client, "XCLAIM", "s", "g", "d", "1000", "1-0", "2-0")) == 2


def test_a_clock_set_back_makes_nothing_idle(client):
    client.server.advance(-5000)
    assert reply(client, "XCLAIM", "s", "g", "d", "1", "1-0") == []
    assert len(reply(client, "XCLAIM", "s", "g", "d", "0", "1-0")) == 1


# Ids


def test_no_ids_at_all_claims_nothing_and_still_creates_the_consumer(client):
    assert run(client, "XCLAIM", "s", "g", "newc", "0", "JUSTID") == b"*0\r\n"
    [_, newc] = reply(client, "XINFO", "CONSUMERS", "s", "g")
    assert newc == [b"name", b"newc", b"pending", 0, b"idle", 0, b"inactive", -1]
    assert client.server.events == [(b"xgroup-createconsumer", b"s")]
    assert client.server.keyspace.dirty == 1
    assert effects(client) == []


def test_an_id_named_twice_is_claimed_twice(client):
    assert reply(client, "XCLAIM", "s", "g", "d", "0", "1-0", "1") == [[b"1-0", [b"a", b"b"]]] * 2
    assert pending(client)[0] == ("1-0", "d", 0, 3)
    assert effects(client) == [
        stated("d", "1-0", count=2, last="3-0", ms=later()),
        stated("d", "1", count=3, last="3-0", ms=later()),
    ]


def test_an_id_named_twice_is_no_longer_idle_the_second_time(client):
    assert reply(client, "XCLAIM", "s", "g", "d", "500", "1-0", "1-0", "JUSTID") == [b"1-0"]


def test_an_id_forced_twice_goes_from_two_to_three():
    client = group_client()
    run(client, "XCLAIM", "s", "g", "c", "0", "1-0", "1-0", "FORCE")
    assert pending(client) == [("1-0", "c", 0, 3)]


def test_ids_with_different_counters_keep_their_own(client):
    run(client, "XCLAIM", "s", "g", "d", "0", "2-0", "RETRYCOUNT", "5")
    run(client, "XCLAIM", "s", "g", "e", "0", "1-0", "2-0", "3-0")
    assert [count for *_, count in pending(client)] == [2, 6, 2]


# Entries whose message is gone


def test_a_dropped_entry_is_stated_with_its_old_owner_time_and_counter(client):
    run(client, "XDEL", "s", "2-0")
    forget(client)
    run(client, "XCLAIM", "s", "g", "d", "0", "1-0", "2", "LASTID", "5-0")
    assert effects(client) == [
        stated("d", "1-0", count=2, last="5-0", ms=later()),
        stated("c", "2", count=1, last="5-0", ms=NOW),
    ]
    assert client.server.keyspace.dirty == 3  # two entries and the consumer


def test_a_gone_message_that_is_not_pending_is_skipped(client):
    run(client, "XACK", "s", "g", "2-0")
    run(client, "XDEL", "s", "2-0")
    forget(client)
    assert reply(client, "XCLAIM", "s", "g", "d", "0", "2-0", "FORCE") == []
    assert effects(client) == []


def test_a_dropped_entry_named_twice_is_stated_once(client):
    run(client, "XDEL", "s", "2-0")
    forget(client)
    run(client, "XCLAIM", "s", "g", "d", "0", "2-0", "2-0")
    assert effects(client) == [stated("c", "2-0", count=1, last="3-0", ms=NOW)]


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


def test_the_old_owner_keeps_nothing(client):
    run(client, "XCLAIM", "s", "g", "d", "0", "1-0", "2-0", "3-0")
    assert reply(client, "XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", "0") == [[b"s", []]]
    assert [i for i, _ in reply(client, "XREADGROUP", "GROUP", "g", "d", "STREAMS", "s", "0")[0][1]] == [
        b"1-0",
        b"2-0",
        b"3-0",
    ]


# What is propagated


def test_each_claimed_entry_is_stated_absolutely(client):
    run(client, "XCLAIM", "s", "g", "d", "500", "1-0", "3-0", "IDLE", "10")
    assert effects(client) == [
        stated("d", "1-0", count=2, last="3-0", ms=later() - 10),
        stated("d", "3-0", count=2, last="3-0", ms=later() - 10),
    ]


def test_of_neighbours_only_those_are_claimed_that_are_pending(client):
    run(client, "XACK", "s", "g", "2-0")
    assert reply(client, "XCLAIM", "s", "g", "d", "0", "1-0", "2-0", "3-0", "JUSTID") == [b"1-0", b"3-0"]
    assert [facts[:2] for facts in pending(client)] == [("1-0", "d"), ("3-0", "d")]


def test_neighbours_claimed_together_are_stated_one_by_one(client):
    run(client, "XCLAIM", "s", "g", "d", "0", "1-0", "2-0", "3-0")
    assert effects(client) == [stated("d", f"{n}-0", count=2, last="3-0", ms=later()) for n in (1, 2, 3)]
    assert client.server.keyspace.dirty == 4


@pytest.mark.parametrize("word", ["1", "+1-0", "001-0", " 1-00"])
def test_the_clients_spelling_of_an_id_survives(client, word):
    assert reply(client, "XCLAIM", "s", "g", "d", "0", word, "JUSTID") == [b"1-0"]
    assert effects(client) == [stated("d", word, count=1, last="3-0", ms=later())]


def test_a_lastid_without_claims_is_a_group_position():
    client = group_client()
    run(client, "XCLAIM", "s", "g", "c", "0", "99-0", "LASTID", "2-0", "JUSTID")
    assert effects(client) == ["XGROUP SETID s g 2-0 ENTRIESREAD -1"]
    assert client.server.keyspace.dirty == 2
    group = client.db.entries[b"s"].groups[b"g"]
    group.entries_read = 2
    run(client, "XCLAIM", "s", "g", "c", "0", "99-0", "LASTID", "2-1")
    assert effects(client) == ["XGROUP SETID s g 2-1 ENTRIESREAD 2"]


def test_a_lastid_with_claims_rides_in_them(client):
    run(client, "XCLAIM", "s", "g", "d", "0", "1-0", "LASTID", "7-0")
    assert effects(client) == [stated("d", "1-0", count=2, last="7-0", ms=later())]


def test_a_lastid_that_does_not_move_the_group_says_nothing(client):
    run(client, "XCLAIM", "s", "g", "c", "0", "99-0", "LASTID", "3-0")
    assert effects(client) == []
    assert client.server.keyspace.dirty == 0


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


def test_xautoclaim_skips_what_is_not_idle(client):
    run(client, "XCLAIM", "s", "g", "c", "0", "2-0")
    assert reply(client, "XAUTOCLAIM", "s", "g", "d", "1000", "0", "JUSTID") == [b"0-0", [b"1-0", b"3-0"], []]
    assert reply(client, "XAUTOCLAIM", "s", "g", "d", "1001", "0") == [b"0-0", [], []]


def test_a_negative_min_idle_of_xautoclaim_counts_as_zero(client):
    client.server.advance(-9000)
    assert len(reply(client, "XAUTOCLAIM", "s", "g", "d", "-1", "0")[1]) == 3


def test_xautoclaim_drops_and_lists_what_is_gone(client):
    run(client, "XDEL", "s", "2-0")
    forget(client)
    assert reply(client, "XAUTOCLAIM", "s", "g", "d", "0", "0", "JUSTID") == [
        b"0-0",
        [b"1-0", b"3-0"],
        [b"2-0"],
    ]
    assert effects(client) == [
        stated("d", "1-0", count=1, last="3-0", ms=later()),
        stated("c", "2-0", count=1, last="3-0", ms=NOW),
        stated("d", "3-0", count=1, last="3-0", ms=later()),
    ]
    assert client.server.keyspace.dirty == 4
    assert [i for i, *_ in pending(client)] == ["1-0", "3-0"]


@pytest.mark.parametrize("just_id", [False, True])
def test_what_is_claimed_is_answered_though_what_is_gone_makes_the_pel_smaller(just_id):
    client = group_client(200)
    run(client, "XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
    run(client, "XACK", "s", "g", "2-0", *[f"{ms}-0" for ms in range(34, 130)])
    run(client, "XDEL", "s", "1-0")
    words = ["JUSTID"] if just_id else []
    cursor, found, gone = reply(client, "XAUTOCLAIM", "s", "g", "d", "0", "0", "COUNT", "4", *words)
    assert [item if just_id else item[0] for item in found] == [b"3-0", b"4-0", b"5-0"]
    assert (cursor, gone) == (b"6-0", [b"1-0"])
    assert [facts[0] for facts in pending(client)[:4] if facts[1] == "d"] == ["3-0", "4-0", "5-0"]


def test_the_cursor_is_the_very_next_pending_id():
    client = group_client(0)
    for seq in range(4):
        run(client, "XADD", "s", f"5-{seq}", "f", "v")
    run(client, "XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
    assert reply(client, "XAUTOCLAIM", "s", "g", "d", "0", "0", "COUNT", "2", "JUSTID")[0] == b"5-2"
    run(client, "XACK", "s", "g", "5-2")
    assert reply(client, "XAUTOCLAIM", "s", "g", "d", "0", "0", "COUNT", "2", "JUSTID")[0] == b"5-3"


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


def test_the_default_count_is_a_hundred():
    client = group_client(150)
    run(client, "XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
    cursor, ids, _ = reply(client, "XAUTOCLAIM", "s", "g", "d", "0", "0", "JUSTID")
    assert (cursor, len(ids)) == (b"101-0", 100)


def test_xautoclaim_that_claims_nothing_creates_the_consumer_silently(client):
    assert reply(client, "XAUTOCLAIM", "s", "g", "newc", "99999", "0") == [b"0-0", [], []]
    assert client.server.events == [(b"xgroup-createconsumer", b"s")]
    assert effects(client) == []
    assert client.server.keyspace.dirty == 1
    assert reply(client, "XINFO", "CONSUMERS", "s", "g")[1][-1] == -1


def test_a_huge_count_is_only_a_limit(client):
    assert (
        len(reply(client, "XAUTOCLAIM", "s", "g", "d", "0", "0", "COUNT", str((1 << 63) // 16 - 1))[1]) == 3
    )
