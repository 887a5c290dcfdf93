"""XDELEX and XACKDEL, rule by rule."""

from __future__ import annotations

import pytest
from support.fake_server import make_client, reply, run
from support.groups import effects, forget, group_client

from rillet.commands.streams import xdel as stream_deletion  # noqa: F401 - it declares the commands


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


# XDELEX


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


def test_xackdel_acked_deletes_with_the_last_group(client):
    run(client, "XGROUP", "CREATE", "s", "h", "0")
    assert reply(client, "XACKDEL", "s", "g", "ACKED", "IDS", "1", "1-0") == [2]  # h has not had it yet
    run(client, "XREADGROUP", "GROUP", "h", "d", "STREAMS", "s", ">")
    assert reply(client, "XACKDEL", "s", "g", "ACKED", "IDS", "2", "1-0", "2-0") == [-1, 2]
    assert ids_left(client) == [b"1-0", b"2-0", b"3-0", b"4-0"]
    assert reply(client, "XACKDEL", "s", "h", "ACKED", "IDS", "2", "1-0", "2-0") == [1, 1]
    assert ids_left(client) == [b"3-0", b"4-0"]
