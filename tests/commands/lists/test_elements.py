"""Lists through their commands: effects, limits of versions, and rewritten files. Replies: differential/scripts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fake_server import FakeServer, effects, make_client, run

from rillet.commands.keys import sort as sorting  # noqa: F401 - they declare commands
from rillet.commands.lists import blocking as list_blocking  # noqa: F401 - they declare commands
from rillet.commands.runtime.timeouts import parse_seconds
from rillet.protocol.errors import ReplyError
from rillet.protocol.requests import RequestParser
from rillet.server.debugging.digest import keyspace_digest
from rillet.storage.aof.rewrite import rewrite_commands

NOW = 1_700_000_000_000
NULL_ARRAY = b"*-1\r\n"


@pytest.fixture
def client():
    return make_client(server=FakeServer(now=NOW))


def test_nothing_waits_in_a_transaction(client):
    client.in_exec = True
    assert run(client, "BLPOP", "l", "0") == NULL_ARRAY
    assert run(client, "BLMPOP", "0", "1", "l", "LEFT") == NULL_ARRAY
    assert run(client, "BLMOVE", "l", "m", "LEFT", "LEFT", "0") == b"$-1\r\n"
    assert effects(client)[1] == []


@pytest.mark.parametrize(
    ("word", "milliseconds"),
    [
        (b"0", 0),
        (b"1", 1000),
        (b"0.0001", 1),
        (b"1.0005", 1001),
        (b"0x10", 16000),
        (b"-0", 0),
        (b"1e2", 100_000),
    ],
)
def test_timeouts_are_seconds_with_a_fraction(client, word, milliseconds):
    assert parse_seconds(client, word) == milliseconds


@pytest.mark.parametrize(
    ("word", "text"),
    [
        (b"x", b"ERR timeout is not a float or out of range"),
        (b"nan", b"ERR timeout is not a float or out of range"),
        (b"-1", b"ERR timeout is negative"),
        (b"-inf", b"ERR timeout is negative"),
        (b"inf", b"ERR timeout is out of range"),
        (b"1e300", b"ERR timeout is out of range"),
    ],
)
def test_timeouts_that_are_none_are_refused(client, word, text):
    with pytest.raises(ReplyError) as caught:
        parse_seconds(client, word)
    assert caught.value.text == text


@given(st.lists(st.lists(st.binary(max_size=20), min_size=1, max_size=150), max_size=4))
def test_a_rewritten_file_makes_the_same_lists(contents):
    first, second = (make_client(server=FakeServer(now=NOW)) for _ in range(2))
    for number, words in enumerate(contents):
        run(first, "RPUSH", f"list {number}", *words)
        run(first, "LPUSH", f"list {number}", *words)
    parser = RequestParser()
    for argv in parser.feed(b"".join(rewrite_commands(first.server.keyspace))):
        if argv[0] != b"SELECT":
            run(second, *argv)
    assert keyspace_digest(first.server.keyspace) == keyspace_digest(second.server.keyspace)


def test_a_digest_minds_the_order(client):
    run(client, "RPUSH", "l", "a", "b")
    before = keyspace_digest(client.server.keyspace)
    run(client, "LMOVE", "l", "l", "LEFT", "RIGHT")
    assert keyspace_digest(client.server.keyspace) != before


def test_a_copy_does_not_change_with_its_original(client):
    run(client, "RPUSH", "l", "a", "b")
    twin = client.db.entries[b"l"].copy()
    run(client, "LSET", "l", "0", "x")
    assert list(twin.digest_parts()) == [b"a", b"b"]
