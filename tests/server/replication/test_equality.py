"""Random commands on a master: its replicas must see the same, whatever they are and when they came."""

import random
from contextlib import ExitStack

import pytest
from differential.anything import BEGINNING, Maker, Words
from support.deployments.replication import Proxy, call, follow, in_step, info, picture, play, start
from support.thorough import examples

# The keys that a picture shows.
NAMES = {"s2": "t", "k": "string", "k2": "string", "n": "number"}
DATABASES = [["SELECT", "0"], ["SELECT", "1"], ["SWAPDB", "0", "1"], ["FLUSHDB"]]
SIZE = 60
CUTS = [0, 0, 0, 1, 7, 100, 1000]


def replicated(words: Words) -> list[Words]:
    """A command as all that it does is propagated.

    Reading the history again changes times and counts of pending entries without an effect. Consumers are made before they
    read or claim: before 8.4 one that got nothing is not propagated.
    """
    name, consumed = words[0].upper(), []
    at = next((at for at, word in enumerate(words) if word.upper() == "STREAMS"), len(words)) + 1
    if name == "XREADGROUP":
        keys = words[at : at + len(words[at:]) // 2]
        words = [*words[: at + len(keys)], *[">"] * len(keys)]
        consumed = [[key, *words[2:4]] for key in keys]
    elif name in {"XCLAIM", "XAUTOCLAIM"}:
        consumed = [words[1:4]]
    return [*(["XGROUP", "CREATECONSUMER", *each] for each in consumed), words]


def mixed_run(seed: int) -> list[Words]:
    """Commands on streams with others in between."""
    chance = random.Random(seed)
    families = ("stream", "stream", "string", "generic")
    makers = [Maker(seed, "7.0", family, newer_options=False) for family in families]
    run = [each for words in BEGINNING for each in replicated(words)]
    while len(run) < SIZE:
        words = chance.choice(makers).command() if chance.random() < 0.95 else chance.choice(DATABASES)
        if "BLOCK" not in map(str.upper, words):
            run += replicated(words)
    return [[NAMES.get(word, word) for word in words] for words in (*run, ["EXEC"])]


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


@pytest.mark.parametrize("seed", range(examples(80)))
def test_real_servers_that_follow_rillet_see_the_same(trio, seed):
    master, replicas, proxies = trio
    chance = random.Random(seed)
    for proxy in proxies:
        proxy.cut_in = chance.choice(CUTS) or None
    with master.wire() as wire:
        wire.do("CONFIG SET stream-node-max-entries 3; FLUSHALL")
        play(wire, mixed_run(seed))
        wire.call("SELECT", "0")
        for proxy in proxies:
            proxy.cut_in = None
        assert wire.call("WAIT", 2, 60_000).plain() == 2
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


@pytest.mark.parametrize("seed", range(examples(40)))
def test_rillet_that_follows_sees_the_same(follower, seed):
    master, replica, proxy = follower
    proxy.cut_in = random.Random(seed).choice(CUTS) or None
    with master.wire() as wire:
        wire.do("CONFIG SET stream-node-max-entries 3; FLUSHALL")
        play(wire, mixed_run(seed))
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
                wire.do("INCR number; EXEC")
            in_step(master, replica)
            assert proxy.cut_in is None
    assert int(info(master, "sync_partial_ok")) >= before + 5
    assert info(master, "sync_full") == full
    assert picture(replica) == picture(master)
