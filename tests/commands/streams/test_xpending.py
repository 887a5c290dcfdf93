"""XPENDING: summary and range."""

from __future__ import annotations

import pytest
from support.fake_server import reply, run
from support.groups import group_client

SYNTAX = b"-ERR syntax error\r\n"
NOT_INTEGER = b"-ERR value is not an integer or out of range\r\n"
BAD_ID = b"-ERR Invalid stream ID specified as stream command argument\r\n"


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


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("IDLE", "x", "-", "+"), NOT_INTEGER),
        (("IDLE", "x", "y", "z", "w"), NOT_INTEGER),
        (("x", "y", "z"), NOT_INTEGER),
        (("x", "y", "1"), BAD_ID),
        (("-", "y", "1"), BAD_ID),
        (
            ("(18446744073709551615-18446744073709551615", "x", "1"),
            b"-ERR invalid start ID for the interval\r\n",
        ),
        (("-", "(0-0", "1"), b"-ERR invalid end ID for the interval\r\n"),
    ],
)
def test_words_are_judged_before_the_key(client, words, error):
    client.db.entries[b"str"] = b"x"
    for key in ("s", "nokey", "str"):
        assert run(client, "XPENDING", key, "nog", *words) == error


def test_then_the_type_and_then_key_and_group(client):
    client.db.entries[b"str"] = b"x"
    assert run(client, "XPENDING", "str", "g").startswith(b"-WRONGTYPE ")
    for words in ((), ("-", "+", "1")):
        assert (
            run(client, "XPENDING", "t", "g", *words) == b"-NOGROUP No such key 't' or consumer group 'g'\r\n"
        )
        assert (
            run(client, "XPENDING", "s", "h", *words) == b"-NOGROUP No such key 's' or consumer group 'h'\r\n"
        )


@pytest.mark.parametrize(
    ("resp", "expected"), [(2, b"*4\r\n:0\r\n$-1\r\n$-1\r\n*-1\r\n"), (3, b"*4\r\n:0\r\n_\r\n_\r\n_\r\n")]
)
def test_the_summary_of_nothing_is_nulls(resp, expected):
    client = group_client(1, resp=resp)
    run(client, "XGROUP", "CREATECONSUMER", "s", "g", "c")
    assert run(client, "XPENDING", "s", "g") == expected


def test_a_range_tells_owner_idle_time_and_counter(client):
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
