"""XREADGROUP CLAIM: what is idle first, then what is new."""

from __future__ import annotations

import pytest
from support.fake_server import reply, run
from support.groups import effects, forget, group_client, stated

from rillet.commands.runtime.deferral import Deferred
from rillet.commands.spec.versions import compat_with
from rillet.commands.streams import xack  # noqa: F401 - it declares a command
from rillet.storage.streams.ids import MAX_COUNT

NOW = 1_700_000_000_000


@pytest.fixture
def client():
    """Stream 1-0 to 5-0; a has 1-0 for 300 ms, b 2-0 for 200 and a 3-0 for 100; 4-0 and 5-0 are new."""
    client = group_client(5)
    for consumer in ("a", "b", "a"):
        run(client, "XREADGROUP", "GROUP", "g", consumer, "COUNT", "1", "STREAMS", "s", ">")
        client.server.advance(100)
    forget(client)
    return client


def read(client, *words: str, consumer: str = "c"):
    """The items of the one stream, the fields left out; None for a null array."""
    found = reply(client, "XREADGROUP", "GROUP", "g", consumer, *words, "STREAMS", "s", ">")
    if found is None or isinstance(found, Exception):
        return found
    [[_, items]] = found
    assert all(item[1] == [b"a", b"b"] for item in items)
    return [(item[0].decode(), *item[2:]) for item in items]


def pending(client):
    found = reply(client, "XPENDING", "s", "g", "-", "+", "100")
    return [(i.decode(), c.decode(), idle, count) for i, c, idle, count in found]


def test_before_8_4_claim_is_unknown(client):
    client.server.compat = compat_with("8.2")
    assert (
        run(client, "XREADGROUP", "GROUP", "g", "c", "CLAIM", "0", "STREAMS", "s", ">")
        == b"-ERR syntax error\r\n"
    )


def test_the_longest_idle_comes_first_and_the_new_ones_last(client):
    assert read(client, "CLAIM", "200") == [("1-0", 300, 1), ("2-0", 200, 1), ("4-0", 0, 0), ("5-0", 0, 0)]
    assert pending(client) == [
        ("1-0", "c", 0, 2), ("2-0", "c", 0, 2), ("3-0", "a", 100, 1), ("4-0", "c", 0, 1), ("5-0", "c", 0, 1),
    ]  # fmt: skip


@pytest.mark.parametrize(("claim", "number"), [("301", 2), ("300", 3), ("101", 4), ("100", 5), ("0", 5)])
def test_an_entry_is_idle_enough_from_min_idle_time_on(client, claim, number):
    assert len(read(client, "CLAIM", claim)) == number


def test_the_same_consumer_may_claim_its_own(client):
    assert read(client, "CLAIM", "300", "COUNT", "1", consumer="a") == [("1-0", 300, 1)]


def test_what_has_no_owner_comes_before_all_and_whatever_min_idle_time_says(client):
    run(client, "XNACK", "s", "g", "FATAL", "IDS", "2", "3-0", "2-0")
    now = NOW + 300
    assert read(client, "CLAIM", "300", "COUNT", "3") == [
        ("3-0", now, MAX_COUNT),
        ("2-0", now, MAX_COUNT),
        ("1-0", 300, 1),
    ]
    assert pending(client)[2] == ("3-0", "c", 0, MAX_COUNT)  # the counter stops there


def test_a_claimed_entry_goes_to_the_end(client):
    read(client, "CLAIM", "300", "COUNT", "1")
    client.server.advance(1000)
    assert [item[0] for item in read(client, "CLAIM", "0", "COUNT", "3")] == ["2-0", "3-0", "1-0"]


def test_count_is_for_both_together(client):
    assert read(client, "CLAIM", "0", "COUNT", "4") == [
        ("1-0", 300, 1), ("2-0", 200, 1), ("3-0", 100, 1), ("4-0", 0, 0),
    ]  # fmt: skip
    assert read(client, "CLAIM", "1", "COUNT", "4") == [("5-0", 0, 0)]


def test_noack_is_for_the_new_ones_only(client):
    assert len(read(client, "CLAIM", "300", "NOACK")) == 3
    assert pending(client) == [("1-0", "c", 0, 2), ("2-0", "b", 200, 1), ("3-0", "a", 100, 1)]


def test_history_ignores_it(client):
    words = ("XREADGROUP", "GROUP", "g", "b", "CLAIM", "0", "STREAMS", "s", "0")
    assert reply(client, *words) == [[b"s", [[b"2-0", [b"a", b"b"]]]]]


# What is propagated


def test_without_new_ones_the_groups_place_is_not_stated(client):
    read(client, "CLAIM", "200", "COUNT", "1")
    assert effects(client) == [stated("c", "1-0", count=2, last="3-0", ms=NOW + 300)]


def test_a_claim_behind_many_lost_entries_is_done_in_steps(client):
    for number in range(6, 20_000):
        run(client, "XADD", "s", f"{number}-0", "a", "b")
    read(client, "COUNT", "19980")
    steps(client, "XTRIM", "s", "MINID", "19980-0")
    steps(client, "XPENDING", "s", "g", "IDLE", "1000000", "-", "+", "1")  # lists them by time
    assert (
        steps(client, "XREADGROUP", "GROUP", "g", "c", "CLAIM", "0", "STREAMS", "s", ">") == 155
    )  # of 512 entries
    assert reply(client, "XPENDING", "s", "g")[3] == [[b"a", b"2"], [b"b", b"1"], [b"c", b"19996"]]


def steps(client, *words: str) -> int:
    """Run a command; return how many steps of other work it asked for before, but for the last of each kind."""
    done = 0
    while True:
        try:
            run(client, *words)
        except Deferred as deferred:
            while deferred.step():
                done += 1
        else:
            return done


# Waiting


@pytest.fixture
def blocks(client):
    """Nothing new: a read waits. `blocks(words...)` returns when it is to look again."""
    run(client, "XGROUP", "SETID", "s", "g", "$")

    def start(*words: str):
        assert run(client, "XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", *words, "STREAMS", "s", ">") is None
        return client.server.blocking.recheck_at

    return start


def test_a_reader_that_waits_looks_again_when_the_oldest_entry_is_due(blocks):
    assert blocks("CLAIM", "1000") == {b"s": NOW + 1000}


def test_a_reader_without_claim_waits_for_no_time(blocks):
    assert blocks() is None


def test_with_nothing_pending_it_looks_again_after_min_idle_time(client, blocks):
    run(client, "XACK", "s", "g", "1-0", "2-0", "3-0")
    assert blocks("CLAIM", "1000") == {b"s": NOW + 300 + 1000}
    assert blocks("CLAIM", "0") == {b"s": NOW + 300 + 100}  # and not a thousand times a second


def test_what_is_due_and_gone_is_looked_for_ten_times_a_second(client, blocks):
    run(client, "XDEL", "s", "1-0", "2-0", "3-0")
    assert blocks("CLAIM", "50") == {b"s": NOW + 300 + 100}
    run(client, "XNACK", "s", "g", "FAIL", "IDS", "1", "1-0")
    assert blocks("CLAIM", "50000") == {b"s": NOW + 300 + 100}
