"""Lists through their commands: effects, limits of versions, and rewritten files. Replies: differential/scripts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fake_server import FakeServer, make_client, run

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


def effects(client):
    """Events, propagated commands and changes since the last time."""
    server = client.server
    events = [b"%b %b" % event for event in server.events]
    spread = [b" ".join(argv) for argv in server.propagation.take()]
    dirty = server.keyspace.dirty
    server.events.clear()
    server.keyspace.dirty = 0
    return events, spread, dirty


def test_a_push_is_signalled_and_propagated_once_and_counts_each_element(client):
    assert run(client, "rpush", "l", "a", "b", "c") == b":3\r\n"
    assert effects(client) == ([b"new l", b"rpush l"], [b"rpush l a b c"], 3)


def test_the_key_goes_with_the_last_element(client):
    run(client, "RPUSH", "l", "a", "b")
    effects(client)
    assert run(client, "LPOP", "l", "5") == b"*2\r\n$1\r\na\r\n$1\r\nb\r\n"
    assert effects(client) == ([b"lpop l", b"del l"], [b"LPOP l 5"], 2)
    assert b"l" not in client.db.entries


def test_a_trim_of_nothing_sends_an_event_but_is_not_propagated(client):
    run(client, "RPUSH", "l", "a")
    effects(client)
    assert run(client, "LTRIM", "l", "0", "-1") == b"+OK\r\n"
    assert effects(client) == ([b"ltrim l"], [], 0)


def test_what_changes_nothing_leaves_no_trace(client):
    run(client, "RPUSH", "l", "a")
    effects(client)
    run(client, "LPUSHX", "missing", "a")
    run(client, "LPOP", "l", "0")
    run(client, "LREM", "l", "0", "x")
    run(client, "LINSERT", "l", "BEFORE", "x", "y")
    assert effects(client) == ([], [], 0)


@pytest.mark.parametrize(
    ("command", "propagated"),
    [
        (("BLPOP", "x", "l", "0"), [b"LPOP l"]),
        (("BRPOP", "l", "0"), [b"RPOP l"]),
        (("BLMOVE", "l", "m", "LEFT", "right", "1.5"), [b"LMOVE l m LEFT right"]),
        (("BRPOPLPUSH", "l", "m", "0"), [b"RPOPLPUSH l m"]),
        (("LMPOP", "2", "x", "l", "LEFT", "COUNT", "9"), [b"LPOP l 2"]),
        (("BLMPOP", "0", "1", "l", "RIGHT"), [b"RPOP l 1"]),
    ],
)
def test_what_may_wait_is_propagated_as_what_never_waits(client, command, propagated):
    run(client, "RPUSH", "l", "a", "b")
    effects(client)
    run(client, *command)
    assert effects(client)[1] == propagated


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
