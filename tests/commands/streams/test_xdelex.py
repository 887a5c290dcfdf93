"""XDELEX and XACKDEL, rule by rule."""

import pytest
from support.fake_server import reply, run
from support.groups import effects, forget, group_client

from rillet.commands.streams import xdel as stream_deletion  # noqa: F401 - it declares the commands


@pytest.fixture
def client():
    """Stream 1-0 to 4-0; group g has 1-0 to 3-0 pending with c."""
    client = group_client(4)
    run(client, "XREADGROUP", "GROUP", "g", "c", "COUNT", "3", "STREAMS", "s", ">")
    forget(client)
    return client


def pending(client, group="g") -> list[bytes]:
    return [entry[0] for entry in reply(client, "XPENDING", "s", group, "-", "+", "100")]


# XDELEX


def test_xdelex_delref_takes_dangling_references_along_and_finds_nothing(client):
    run(client, "XDEL", "s", "1-0")
    forget(client)
    assert reply(client, "XDELEX", "s", "DELREF", "IDS", "1", "1-0") == [-1]
    assert pending(client) == [b"2-0", b"3-0"]
    assert client.server.events == []
    assert effects(client) == ["XDELEX s DELREF IDS 1 1-0"]
