"""XINFO: STREAM, STREAM FULL, GROUPS, CONSUMERS; the lag vectors that lag.script does not have."""

import pytest
from support.fake_server import make_client, reply, run
from support.groups import group_client

from rillet.commands.spec.versions import compat_with


def pairs(flat: list) -> dict:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def lag(client, group: bytes = b"g"):
    """(entries-read, lag) of a group."""
    for flat in reply(client, "XINFO", "GROUPS", "s"):
        info = pairs(flat)
        if info[b"name"] == group:
            return info[b"entries-read"], info[b"lag"]
    raise AssertionError(group)


@pytest.mark.parametrize(("entries", "nodes"), [(2, 2), (4, 6), (6, 8), (600, 605)])
def test_radix_tree_nodes_are_those_of_redis(entries, nodes):
    # As redis-server 7.0.15 and Valkey 9.1.2 answer with stream-node-max-entries 2; 8.10 counts no leaves.
    client = make_client()
    client.server.config.stream_node_max_entries = 2
    for ms in range(1, entries + 1):
        run(client, "XADD", "s", f"{ms}-0", "a", "b")
    for version, expected in (("8.8", nodes), ("8.10", nodes - entries // 2)):
        client.server.compat = compat_with(version)
        info = pairs(reply(client, "XINFO", "STREAM", "s"))
        assert (info[b"radix-tree-keys"], info[b"radix-tree-nodes"]) == (entries // 2, expected)


def test_consumers_are_listed_by_name_with_their_ages():
    client = group_client(2)
    run(client, "XREADGROUP", "GROUP", "g", "z", "STREAMS", "s", ">")
    client.server.advance(30)
    run(client, "XGROUP", "CREATECONSUMER", "s", "g", "a")
    run(client, "XREADGROUP", "GROUP", "g", "z", "STREAMS", "s", "0")
    client.server.advance(20)
    assert reply(client, "XINFO", "CONSUMERS", "s", "g") == [
        [b"name", b"a", b"pending", 0, b"idle", 20, b"inactive", -1],
        [b"name", b"z", b"pending", 2, b"idle", 20, b"inactive", 50],
    ]
    client.server.advance(-5000)
    assert [info[5::2] for info in reply(client, "XINFO", "CONSUMERS", "s", "g")] == [[0, -1], [0, 0]]
