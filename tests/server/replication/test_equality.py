"""Generated runs of commands on a master: its replicas must see the same, whatever they are and when they came."""

from contextlib import ExitStack

import pytest
from differential.strategies.commands import (
    NODE_ENTRIES,
    fuzz_settings,
    line,
    one_of,
    runs,
    with_explicit_consumers,
)
from hypothesis import given
from hypothesis import strategies as st
from support.deployments.replication import Proxy, call, follow, in_step, info, picture, play, start

LATER = "33177117420123"
MORE = st.one_of(
    line("SELECT", one_of("0", "0", "1")),
    line("SET", one_of("string", "number"), one_of("1", "2", "x")),
    line("SET", "string", "x", "PXAT", one_of(LATER, "5")),
    line("SET", "number", "3", "EX", "100000"),
    line("APPEND", "string", "y"),
    line("INCR", "number"),
    line("INCRBYFLOAT", "number", "1.5"),
    line("GETEX", "string", one_of("PERSIST", "EX"), "PERSIST").map(
        lambda words: words[:3] if words[2] == "PERSIST" else [*words[:3], "1000"]
    ),
    line("EXPIRE", one_of("string", "s", "t"), one_of("-1", "100000")),
    line("RENAME", "string", "number"),
    line("MOVE", one_of("s", "string"), one_of("0", "1")),
    line("SWAPDB", "0", "1"),
    line("FLUSHDB"),
    line("XADD", one_of("s", "t"), "*", "f", "v"),
    line("XADD", one_of("s", "t"), "NOMKSTREAM", "MAXLEN", "~", "3", "*", "f", "v"),
)


def is_replicated(command: list[str]) -> bool:
    """Reading the history again changes times and counts of pending entries without an effect."""
    return command[0] != "XREADGROUP" or command[-1] == ">"


@st.composite
def mixed_runs(draw) -> list[list[str]]:
    """A run on streams with other commands in between; transactions stay whole.

    Consumers are made before they read or claim: before 8.4 one that got nothing is not propagated.
    """
    out, inside = [], False
    for command in draw(runs(30)):
        if not is_replicated(command):
            continue
        out.append(command)
        inside = command[0] == "MULTI" or (inside and command[0] != "EXEC")
        if not inside and draw(st.integers(0, 3)) == 0:
            out.append(draw(MORE))
    return with_explicit_consumers(out)


@pytest.fixture(scope="module")
def trio():
    """A Rillet with a redis-server and a Valkey that follow it, over lines that can be cut."""
    with ExitStack() as stack:
        master = stack.enter_context(start("rillet"))
        replicas = [stack.enter_context(start(kind)) for kind in ("redis7", "valkey")]
        proxies = [stack.enter_context(Proxy(master.port)) for _ in replicas]
        for replica, proxy in zip(replicas, proxies, strict=True):
            follow(replica, proxy.port)
        yield master, replicas, proxies


@fuzz_settings(80)
@given(run=mixed_runs(), cuts=st.lists(st.sampled_from([0, 0, 0, 1, 7, 100, 1000]), min_size=2, max_size=2))
def test_real_servers_that_follow_rillet_see_the_same(trio, run, cuts):
    master, replicas, proxies = trio
    for proxy, cut in zip(proxies, cuts, strict=True):
        proxy.cut_in = cut or None
    with master.wire() as wire:
        wire.call("CONFIG", "SET", "stream-node-max-entries", NODE_ENTRIES)
        wire.call("FLUSHALL")
        play(wire, run)
        wire.call("SELECT", "0")
        for proxy in proxies:
            proxy.cut_in = None
        assert wire.call("WAIT", 2, 8000).plain() == 2
    in_step(master, *replicas)
    mine = picture(master)
    for replica in replicas:
        assert picture(replica) == mine, replica.kind


def test_cut_connections_were_continued_without_a_full_sync(trio):
    master, replicas, proxies = trio
    before = int(info(master, "sync_partial_ok"))
    full = info(master, "sync_full")
    for proxy in proxies:
        for _ in range(3):
            proxy.cut()
            call(master, "XADD", "s", "*", "f", "v")
            in_step(master, *replicas)
    assert int(info(master, "sync_partial_ok")) >= before + 6
    assert info(master, "sync_full") == full == "2"
    assert picture(replicas[0]) == picture(replicas[1]) == picture(master)


@pytest.fixture(scope="module", params=["redis7", "valkey", "rillet"])
def follower(request):
    """A Rillet that follows a server, over a line that can be cut."""
    with start(request.param) as master, start("rillet") as replica, Proxy(master.port) as proxy:
        follow(replica, proxy.port)
        yield master, replica, proxy


@fuzz_settings(40)
@given(run=mixed_runs(), cut=st.sampled_from([0, 0, 1, 7, 100, 1000]))
def test_rillet_that_follows_sees_the_same(follower, run, cut):
    master, replica, proxy = follower
    proxy.cut_in = cut or None
    with master.wire() as wire:
        wire.call("CONFIG", "SET", "stream-node-max-entries", NODE_ENTRIES)
        wire.call("FLUSHALL")
        play(wire, run)
        wire.call("SELECT", "0")
        proxy.cut_in = None
    in_step(master, replica)
    # 7.0 does not propagate how many entries a group has read.
    without = "entries-read" if master.kind == "redis7" else ""
    assert picture(replica, without=without) == picture(master, without=without)
    assert "CRITICAL" not in replica.log


def test_rillet_asks_to_continue_where_the_line_was_cut(follower):
    master, replica, proxy = follower
    before, full = int(info(master, "sync_partial_ok")), info(master, "sync_full")
    with master.wire() as wire:
        wire.call("FLUSHALL")
        for size in (1, 3, 50, 400, 5000):
            proxy.cut_in = size
            for number in range(60):
                wire.call("MULTI")
                wire.call("XADD", "s", "*", "f", "v" * number)
                wire.call("INCR", "number")
                wire.call("EXEC")
            in_step(master, replica)
            assert proxy.cut_in is None
    assert int(info(master, "sync_partial_ok")) >= before + 5
    assert info(master, "sync_full") == full
    assert picture(replica) == picture(master)
