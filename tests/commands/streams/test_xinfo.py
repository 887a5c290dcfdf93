"""XINFO: STREAM, STREAM FULL, GROUPS, CONSUMERS; the lag vectors that lag.script does not have."""

from __future__ import annotations

import pytest
from support.fake_server import make_client, reply, run
from support.groups import group_client

from rillet.commands.spec.versions import compat_with

NOW = 1_700_000_000_000


def pairs(flat: list) -> dict:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def lag(client, group: bytes = b"g"):
    """(entries-read, lag) of a group."""
    for flat in reply(client, "XINFO", "GROUPS", "s"):
        info = pairs(flat)
        if info[b"name"] == group:
            return info[b"entries-read"], info[b"lag"]
    raise AssertionError(group)


def test_stream_returns_its_counters_in_this_order():
    client = group_client(3)
    run(client, "XDEL", "s", "1-0")
    assert reply(client, "XINFO", "STREAM", "s") == [
        b"length", 2, b"radix-tree-keys", 1, b"radix-tree-nodes", 1, b"last-generated-id", b"3-0",
        b"max-deleted-entry-id", b"1-0", b"entries-added", 3, b"recorded-first-entry-id", b"2-0",
        b"idmp-duration", 100, b"idmp-maxsize", 100, b"pids-tracked", 0, b"iids-tracked", 0, b"iids-added", 0,
        b"iids-duplicates", 0, b"groups", 1,
        b"first-entry", [b"2-0", [b"a", b"b"]], b"last-entry", [b"3-0", [b"a", b"b"]],
    ]  # fmt: skip


@pytest.mark.parametrize(("resp", "head", "null"), [(2, b"*32\r\n", b"$-1\r\n"), (3, b"%16\r\n", b"_\r\n")])
def test_an_empty_stream_has_no_entries_to_show(resp, head, null):
    client = group_client(0, resp=resp)
    answer = run(client, "XINFO", "STREAM", "s")
    assert answer.startswith(head)
    assert b"radix-tree-keys\r\n:0\r\n$16\r\nradix-tree-nodes\r\n:1\r\n" in answer
    assert b"recorded-first-entry-id\r\n$3\r\n0-0\r\n" in answer
    assert answer.endswith(b"$11\r\nfirst-entry\r\n%b$10\r\nlast-entry\r\n%b" % (null, null))


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


def test_full_returns_groups_consumers_and_what_is_pending():
    client = group_client(2)
    run(client, "XGROUP", "CREATE", "s", "a", "$")
    run(client, "XREADGROUP", "GROUP", "g", "c", "COUNT", "1", "STREAMS", "s", ">")
    run(client, "XGROUP", "CREATECONSUMER", "s", "g", "b")
    found = pairs(reply(client, "XINFO", "STREAM", "s", "full"))
    assert list(found)[-2:] == [b"entries", b"groups"]
    assert found[b"entries"] == [[b"1-0", [b"a", b"b"]], [b"2-0", [b"a", b"b"]]]
    a, g = found[b"groups"]
    assert a == [
        b"name", b"a", b"last-delivered-id", b"2-0", b"entries-read", None, b"lag", 0, b"pel-count", 0,
        b"nacked-count", 0, b"pending", [], b"consumers", [],
    ]  # fmt: skip
    assert g == [
        b"name", b"g", b"last-delivered-id", b"1-0", b"entries-read", 1, b"lag", 1, b"pel-count", 1,
        b"nacked-count", 0, b"pending", [[b"1-0", b"c", NOW, 1]],
        b"consumers", [
            [b"name", b"b", b"seen-time", NOW, b"active-time", -1, b"pel-count", 0, b"pending", []],
            [b"name", b"c", b"seen-time", NOW, b"active-time", NOW, b"pel-count", 1, b"pending", [[b"1-0", NOW, 1]]],
        ],
    ]  # fmt: skip


def test_full_is_maps_within_maps_in_resp3():
    client = group_client(1, resp=3)
    run(client, "XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
    answer = run(client, "XINFO", "STREAM", "s", "FULL")
    assert answer.startswith(b"%15\r\n$6\r\nlength\r\n")
    assert b"$6\r\ngroups\r\n*1\r\n%8\r\n$4\r\nname\r\n" in answer
    assert b"$9\r\nconsumers\r\n*1\r\n%5\r\n$4\r\nname\r\n" in answer


@pytest.mark.parametrize(("resp", "head", "null"), [(2, b"*12\r\n", b"$-1\r\n"), (3, b"%6\r\n", b"_\r\n")])
def test_groups_are_listed_by_name(resp, head, null):
    client = group_client(2, resp=resp)
    run(client, "XGROUP", "CREATE", "s", "B", "1")
    answer = run(client, "XINFO", "GROUPS", "s")
    first = head + (
        b"$4\r\nname\r\n$1\r\nB\r\n$9\r\nconsumers\r\n:0\r\n$7\r\npending\r\n:0\r\n$17\r\nlast-delivered-id\r\n$3\r\n1-0\r\n"
        b"$12\r\nentries-read\r\n%b$3\r\nlag\r\n:1\r\n" % null
    )
    assert answer.startswith(b"*2\r\n" + first + head + b"$4\r\nname\r\n$1\r\ng\r\n")


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


def test_consumers_are_maps_in_resp3():
    client = group_client(resp=3)
    run(client, "XGROUP", "CREATECONSUMER", "s", "g", "c")
    assert run(client, "XINFO", "CONSUMERS", "s", "g").startswith(b"*1\r\n%4\r\n$4\r\nname\r\n$1\r\nc\r\n")


# Lag


def test_the_lag_after_a_claim_moved_the_group_into_the_middle():
    client = group_client(5)
    run(client, "XCLAIM", "s", "g", "c", "0", "9-0", "LASTID", "3-0")
    assert lag(client) == (None, None)


def test_the_lag_of_a_group_that_was_overtaken_by_trimming():
    client = group_client(5)
    run(client, "XREADGROUP", "GROUP", "g", "c", "COUNT", "1", "STREAMS", "s", ">")
    run(client, "XTRIM", "s", "MAXLEN", "2")
    assert lag(client) == (1, 2)
    run(client, "XREADGROUP", "GROUP", "g", "c", "COUNT", "1", "STREAMS", "s", ">")
    assert lag(client) == (4, 1)


def test_a_counter_beyond_the_entries_is_lowered_to_them():
    client = group_client(4)
    run(client, "XGROUP", "SETID", "s", "g", "1-0", "ENTRIESREAD", "500")
    assert lag(client) == (4, 0)
