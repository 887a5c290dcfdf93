"""KEEPREF, DELREF and ACKED on XADD and XTRIM."""

import pytest
from support.fake_server import FakeServer, make_client, reply, run
from support.groups import effects, forget

from rillet.commands.spec.versions import compat_with


@pytest.fixture
def client():
    """Stream 1-0 to 9-0 in nodes of three; group g has had all but 9-0 and acknowledged the even ones."""
    client = make_client(server=FakeServer(stream_node_max_entries=3, stream_node_max_bytes=0))
    for ms in range(1, 10):
        run(client, "XADD", "s", f"{ms}-0", "a", "b")
    run(client, "XGROUP", "CREATE", "s", "g", "0")
    run(client, "XREADGROUP", "GROUP", "g", "c", "COUNT", "8", "STREAMS", "s", ">")
    run(client, "XACK", "s", "g", "2-0", "4-0", "6-0", "8-0")
    forget(client)
    return client


def left(client) -> list[int]:
    return [int(entry[0].split(b"-")[0]) for entry in reply(client, "XRANGE", "s", "-", "+")]


def pending(client) -> list[int]:
    return [int(entry[0].split(b"-")[0]) for entry in reply(client, "XPENDING", "s", "g", "-", "+", "100")]


def test_approximate_trimming_by_a_policy_removes_nothing_before_8_6(client):
    client.server.compat = compat_with("8.4")
    for trim in ("MAXLEN ~ 0 ACKED", "MINID ~ 99-0 DELREF"):
        assert reply(client, "XTRIM", "s", *trim.split()) == 0
    assert reply(client, "XADD", "s", "DELREF", "MAXLEN", "~", "1", "10-0", "a", "b") == b"10-0"
    assert left(client) == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]


@pytest.mark.parametrize(
    ("trim", "propagated"),
    [
        ("MAXLEN 5 DELREF", "MAXLEN 5 DELREF"),
        ("MAXLEN ~ 5 DELREF", "MAXLEN = 5 DELREF"),
        ("MINID ~ 6-0 DELREF", "MINID = 6-0 DELREF"),
        ("MINID ~ 99-0 DELREF", "MINID = 18446744073709551615-18446744073709551615 DELREF"),
        ("MINID ~ 7-0 DELREF", "MINID = 7-0 DELREF"),
        ("MAXLEN ~ 6 ACKED", "MAXLEN = 6 ACKED"),
        # The first entry that is left is 1-0, and would not say to trim behind it.
        ("MINID ~ 7-0 LIMIT 9 ACKED", "MINID = 6-1 LIMIT 9 ACKED"),
    ],
)
def test_it_is_propagated_so_that_a_replay_trims_the_same(client, trim, propagated):
    twin = make_client(server=FakeServer(stream_node_max_entries=3, stream_node_max_bytes=0))
    twin.trusted = twin.replays = True
    twin.db.entries[b"s"] = client.db.entries[b"s"].copy()
    run(client, "XTRIM", "s", *trim.split())
    [stated] = effects(client)
    assert stated == "XTRIM s " + propagated
    run(twin, *stated.split())
    assert (left(twin), pending(twin)) == (left(client), pending(client))
