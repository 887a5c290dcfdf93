"""XPENDING: summary and range."""

from __future__ import annotations

import pytest
from support.fake_server import reply, run
from support.groups import group_client

SYNTAX = b"-ERR syntax error\r\n"


@pytest.fixture
def client():
    """1-0 and 2-0 with c for 300 ms, 3-0 with d for 200 ms, 4-0 with c for 100 ms."""
    client = group_client(4)
    for consumer, count in (("c", "2"), ("d", "1"), ("c", "1")):
        run(client, "XREADGROUP", "GROUP", "g", consumer, "COUNT", count, "STREAMS", "s", ">")
        client.server.advance(100)
    return client


def ids(client, *words: str) -> list[int]:
    return [int(item[0].split(b"-")[0]) for item in reply(client, "XPENDING", "s", "g", *words)]


@pytest.mark.parametrize(
    "words", [("-",), ("-", "+"), ("IDLE", "1", "-", "+"), tuple("-+12345"), ("-", "+", "1", *"abcd")]
)
def test_the_number_of_words_is_judged_first(client, words):
    assert run(client, "XPENDING", "nokey", "g", *words) == SYNTAX


def test_a_range_returns_owner_idle_time_and_counter(client):
    run(client, "XREADGROUP", "GROUP", "g", "d", "STREAMS", "s", "0")
    assert run(client, "XPENDING", "s", "g", "2", "3", "10") == (
        b"*2\r\n*4\r\n$3\r\n2-0\r\n$1\r\nc\r\n:300\r\n:1\r\n*4\r\n$3\r\n3-0\r\n$1\r\nd\r\n:0\r\n:2\r\n"
    )


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("-", "(2", "10"), [1, 2]),  # a missing sequence is the greatest
        (("9", "+", "10"), []),
        (("2", "+", "1", "c"), [2]),
        (("-", "3", "10", "c"), [1, 2]),
        (("IDLE", "0", "-", "+", "10"), [1, 2, 3, 4]),
        (("IDLE", "200", "-", "+", "10"), [1, 2, 3]),
        (("idle", "201", "-", "+", "10"), [1, 2]),
        (("IDLE", "301", "-", "+", "10"), []),
        (("IDLE", "100", "-", "+", "2", "c"), [1, 2]),
        (("IDLE", "100", "2", "+", "9", "c"), [2, 4]),
        (("IDLE", "-7", "-", "+", "10", "d"), [3]),
    ],
)
def test_a_range_can_be_narrowed_by_ids_count_consumer_and_idle_time(client, words, expected):
    assert ids(client, *words) == expected


def test_a_clock_set_back_shows_no_negative_idle_time(client):
    client.server.advance(-10_000)
    assert [item[2] for item in reply(client, "XPENDING", "s", "g", "-", "+", "10")] == [0] * 4


def test_looking_does_not_count_as_seen(client):
    before = client.db.entries[b"s"].groups[b"g"].consumers[b"d"].seen_ms
    run(client, "XPENDING", "s", "g", "-", "+", "10", "d")
    assert client.db.entries[b"s"].groups[b"g"].consumers[b"d"].seen_ms == before
