"""Random data of every type goes to real servers and comes from them in every way, and no key differs there.

RILLET_EXCHANGE=50 tries 50 times as many seeds.
"""

import os
import random
import shutil
from contextlib import ExitStack

import pytest
from support.aof import rewrite
from support.deployments.replication import follow, in_step, start
from support.servers import compared, start_server
from support.streams.random_data import DATABASES, everything, play, random_data

TIMES = int(os.environ.get("RILLET_EXCHANGE", "1"))
KEYS = 40
# Each peer, and Rillet as that version: what it writes is what the peer reads.
PEERS = {"redis810": "8.10", "redis86": "8.6", "redis82": "8.2", "valkey": "8.0", "redis7": "7.0"}
FILES_FOR_VALKEY = ("--rdb-version", 11)
AOF = ("--appendonly", "yes", "--enable-debug-command", "yes", "--aof-use-rdb-preamble")


def look(source, target, *, replayed):
    """What is the same on both servers if nothing got lost on the way."""
    kinds = {source.kind, target.kind}
    new = bool(kinds & {"redis810", "redis86", "redis82"}) or kinds == {"rillet"}
    # Valkey's files with times of fields have a version of its own, which Rillet reads and does not write.
    fields = new or (source.kind == "valkey" and target.kind == "rillet")
    with source.wire() as one, target.wire() as other:
        return [everything(wire, fields=fields, newest=new, replayed=replayed) for wire in (one, other)]


def assert_same(source, target, *, replayed=False):
    mine, theirs = look(source, target, replayed=replayed)
    assert len(mine) > 10
    assert {key for key in mine.keys() | theirs.keys() if mine.get(key) != theirs.get(key)} == set()
    assert mine == theirs


MINE = {peer: f"rillet-{PEERS[peer]}" for peer in compared(*PEERS)}


@pytest.fixture(
    params=[("rillet-8.10", "rillet-8.10"), *MINE.items(), *((mine, peer) for peer, mine in MINE.items())],
    ids=" to ".join,
)
def ends(request):
    """The kinds of source and target: Rillet to a real server, or from it, or to another Rillet."""
    return request.param


@pytest.fixture
def started():
    with ExitStack() as stack:
        yield lambda kind, *flags, **more: stack.enter_context(
            start_server(kind, *flags, *(FILES_FOR_VALKEY if kind == "rillet-8.0" else ()), **more)
        )


def fill(server, seed, keys=KEYS, *, times=True):
    with server.wire() as wire:
        play(wire, random_data(random.Random(seed), keys, times=times))


@pytest.mark.parametrize("seed", range(TIMES))
def test_a_dump_file_holds_everything(ends, started, tmp_path, seed):
    source = started(ends[0])
    fill(source, seed)
    with source.wire() as wire:
        assert wire.call("SAVE").plain() == b"OK"
    shutil.copy(source.dir / "dump.rdb", tmp_path)
    assert_same(source, started(ends[1], folder=tmp_path))


@pytest.mark.parametrize("seed", range(TIMES))
def test_payloads_hold_everything(ends, started, seed):
    source, target = started(ends[0]), started(ends[1])
    fill(source, seed, times=ends[1] != "valkey")  # it refuses payloads with Redis' form of them
    with source.wire() as one, target.wire() as other:
        other.call("FUNCTION", "RESTORE", one.call("FUNCTION", "DUMP").plain())
        for database in DATABASES:
            one.call("SELECT", database)
            other.call("SELECT", database)
            for key in one.call("KEYS", "*").plain():
                payload, due = one.call("DUMP", key).plain(), one.call("PEXPIRETIME", key).plain()
                assert other.call("RESTORE", key, max(due, 0), payload, "ABSTTL").plain() == b"OK", key
    assert_same(source, target)


@pytest.mark.parametrize("preamble", ["yes", "no"])
@pytest.mark.parametrize("rewritten", [False, True])
@pytest.mark.parametrize("seed", range(TIMES))
def test_an_append_only_file_holds_everything(ends, started, tmp_path, rewritten, preamble, seed):
    source = started(ends[0], *AOF, preamble)
    fill(source, seed)
    if rewritten:
        with source.wire() as wire:
            rewrite(wire)
        fill(source, seed + 1, 10)
    shutil.copytree(source.dir / "appendonlydir", tmp_path / "appendonlydir")
    assert_same(source, started(ends[1], *AOF, preamble, folder=tmp_path), replayed=True)


@pytest.mark.parametrize("seed", range(TIMES))
def test_a_replica_holds_everything_after_its_snapshot_and_after_later_changes(ends, seed):
    with start(ends[0]) as source, start(ends[1]) as target:
        fill(source, seed)
        follow(target, source.port)
        in_step(source, target)
        assert_same(source, target, replayed=True)
        fill(source, seed)  # what was there is changed
        fill(source, seed + 1)
        in_step(source, target)
        assert_same(source, target, replayed=True)
