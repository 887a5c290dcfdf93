"""XDELEX and XACKDEL, rule by rule."""

from __future__ import annotations

import pytest
from support.fake_server import make_client, reply, run
from support.groups import effects, forget, group_client

from rillet.commands.streams import xdel as stream_deletion  # noqa: F401 - it declares the commands

WRONG_TYPE = b"-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
BAD_NUMBER = b"-ERR Number of IDs must be a positive integer\r\n"
COMMANDS = [("XDELEX", "s"), ("XACKDEL", "s", "g")]


@pytest.fixture
def client():
    """Stream 1-0 to 4-0; group g has 1-0 to 3-0 pending with c."""
    client = group_client(4)
    run(client, "XREADGROUP", "GROUP", "g", "c", "COUNT", "3", "STREAMS", "s", ">")
    forget(client)
    return client


def ids_left(client) -> list[bytes]:
    return [entry[0] for entry in reply(client, "XRANGE", "s", "-", "+")]


def pending(client, group="g") -> list[bytes]:
    return [entry[0] for entry in reply(client, "XPENDING", "s", group, "-", "+", "100")]


# Arguments


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
@pytest.mark.parametrize("words", ["IDS 1 1-0 DELREF", "DELREF IDS 1 1-0", "delref ids 1 1"])
def test_options_come_in_any_order_and_case(client, command, words):
    assert reply(client, *command, *words.split()) == [1]
    assert pending(client) == [b"2-0", b"3-0"]


@pytest.mark.parametrize("command", [("XDELEX", "str"), ("XACKDEL", "str", "g")])
def test_the_type_is_judged_before_the_options(client, command):
    client.db.entries[b"str"] = b"x"
    assert run(client, *command, "NOPE", "IDS", "x") == WRONG_TYPE


@pytest.mark.parametrize(
    "command",
    [("XDELEX", "no"), ("XACKDEL", "no", "g"), ("XACKDEL", "s", "no")],
    ids="-".join,
)
def test_without_key_or_group_nothing_is_found_and_no_id_judged(client, command):
    assert reply(client, *command, "IDS", "3", "1-0", "x", "1-0") == [-1, -1, -1]
    assert run(client, *command, "IDS", "0", "1-0") == BAD_NUMBER
    assert not effects(client)


# XDELEX


@pytest.mark.parametrize("policy", [(), ("KEEPREF",)])
def test_xdelex_keeps_references_by_default(client, policy):
    assert reply(client, "XDELEX", "s", *policy, "IDS", "3", "1-0", "9-0", "4") == [1, -1, 1]
    assert ids_left(client) == [b"2-0", b"3-0"]
    assert pending(client) == [b"1-0", b"2-0", b"3-0"]
    assert client.server.events == [(b"xdel", b"s")]
    assert effects(client) == [" ".join(["XDELEX s", *policy, "IDS 3 1-0 9-0 4"])]
    assert client.server.keyspace.dirty == 2


def test_xdelex_remembers_the_greatest_id_it_deleted(client):
    run(client, "XDELEX", "s", "IDS", "2", "3-0", "2-0")
    assert client.db.entries[b"s"].max_deleted_id == 3 << 64


def test_an_id_named_twice_is_deleted_once(client):
    assert reply(client, "XDELEX", "s", "IDS", "2", "1-0", "1-0") == [1, -1]


def test_xdelex_delref_takes_the_id_from_the_pending_entries_of_every_group(client):
    run(client, "XGROUP", "CREATE", "s", "h", "0")
    run(client, "XREADGROUP", "GROUP", "h", "d", "STREAMS", "s", ">")
    assert reply(client, "XDELEX", "s", "DELREF", "IDS", "2", "1-0", "2-0") == [1, 1]
    assert pending(client) == [b"3-0"]
    assert pending(client, "h") == [b"3-0", b"4-0"]


def test_xdelex_delref_takes_dangling_references_along_and_finds_nothing(client):
    run(client, "XDEL", "s", "1-0")
    forget(client)
    assert reply(client, "XDELEX", "s", "DELREF", "IDS", "1", "1-0") == [-1]
    assert pending(client) == [b"2-0", b"3-0"]
    assert client.server.events == []
    assert effects(client) == ["XDELEX s DELREF IDS 1 1-0"]


def test_xdelex_acked_leaves_what_is_pending_or_not_yet_delivered(client):
    run(client, "XACK", "s", "g", "1-0")
    forget(client)
    assert reply(client, "XDELEX", "s", "ACKED", "IDS", "3", "1-0", "2-0", "4-0") == [1, 2, 2]
    assert ids_left(client) == [b"2-0", b"3-0", b"4-0"]


def test_xdelex_acked_judges_an_id_that_never_was_by_the_groups_alone(client):
    assert reply(client, "XDELEX", "s", "ACKED", "IDS", "2", "99-0", "0-5") == [2, -1]
    assert not effects(client)


def test_xdelex_acked_still_needs_what_has_no_owner(client):
    run(client, "XNACK", "s", "g", "FAIL", "IDS", "1", "1-0")
    assert reply(client, "XDELEX", "s", "ACKED", "IDS", "1", "1-0") == [2]


def test_without_groups_nothing_is_referenced():
    client = make_client()
    run(client, "XADD", "s", "1-0", "a", "b")
    assert reply(client, "XDELEX", "s", "ACKED", "IDS", "2", "1-0", "2-0") == [1, -1]


# XACKDEL


def test_xackdel_acknowledges_and_deletes(client):
    assert reply(client, "XACKDEL", "s", "g", "IDS", "3", "1-0", "4-0", "9-0") == [1, -1, -1]
    assert ids_left(client) == [b"2-0", b"3-0", b"4-0"]
    assert pending(client) == [b"2-0", b"3-0"]
    assert client.server.events == [(b"xdel", b"s")]
    assert effects(client) == ["XACKDEL s g IDS 3 1-0 4-0 9-0"]


def test_xackdel_of_a_message_that_is_gone_acknowledges_without_an_event(client):
    run(client, "XDEL", "s", "1-0")
    forget(client)
    assert reply(client, "XACKDEL", "s", "g", "IDS", "1", "1-0") == [1]
    assert pending(client) == [b"2-0", b"3-0"]
    assert client.server.events == []
    assert effects(client) == ["XACKDEL s g IDS 1 1-0"]


def test_xackdel_keepref_leaves_other_groups_pending_entries(client):
    run(client, "XGROUP", "CREATE", "s", "h", "0")
    run(client, "XREADGROUP", "GROUP", "h", "d", "STREAMS", "s", ">")
    assert reply(client, "XACKDEL", "s", "g", "KEEPREF", "IDS", "1", "1-0") == [1]
    assert pending(client, "h") == [b"1-0", b"2-0", b"3-0", b"4-0"]
    assert reply(client, "XACKDEL", "s", "g", "DELREF", "IDS", "1", "2-0") == [1]
    assert pending(client, "h") == [b"1-0", b"3-0", b"4-0"]


def test_xackdel_acked_deletes_with_the_last_group(client):
    run(client, "XGROUP", "CREATE", "s", "h", "0")
    assert reply(client, "XACKDEL", "s", "g", "ACKED", "IDS", "1", "1-0") == [2]  # h has not had it yet
    run(client, "XREADGROUP", "GROUP", "h", "d", "STREAMS", "s", ">")
    assert reply(client, "XACKDEL", "s", "g", "ACKED", "IDS", "2", "1-0", "2-0") == [-1, 2]
    assert ids_left(client) == [b"1-0", b"2-0", b"3-0", b"4-0"]
    assert reply(client, "XACKDEL", "s", "h", "ACKED", "IDS", "2", "1-0", "2-0") == [1, 1]
    assert ids_left(client) == [b"3-0", b"4-0"]


def test_nothing_acknowledged_is_nothing_propagated(client):
    assert reply(client, "XACKDEL", "s", "g", "IDS", "1", "4-0") == [-1]
    assert not effects(client)
    assert client.server.keyspace.dirty == 0
