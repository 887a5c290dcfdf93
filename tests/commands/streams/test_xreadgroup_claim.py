"""XREADGROUP CLAIM: what is idle first, then what is new."""

import pytest
from support.fake_server import reply, run
from support.groups import forget, group_client

from rillet.commands.runtime.deferral import Deferred

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
