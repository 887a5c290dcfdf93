"""Values and files go to real servers and come from them, and say the same there as here.

RILLET_EXCHANGE=250 tries 250 times as many streams: 10,000 in all.
"""

import os
import random
import shutil

import pytest
from support.aof import rewrite
from support.servers import start_server, start_servers
from support.streams.random_streams import make_stream, state_of

from rillet.storage.rdb import dump_value, restore_value

TIMES = int(os.environ.get("RILLET_EXCHANGE", "1"))
PEERS = ("redis7", "valkey")
VERSIONS = {"redis7": 10, "valkey": 11}  # of RDB: what they read


@pytest.fixture(scope="module")
def servers():
    with start_servers("rillet", *PEERS) as started:
        yield started


def seeds(count):
    return range(count * TIMES)


@pytest.mark.parametrize("peer", PEERS)
def test_payloads_go_both_ways(servers, peer):
    """Made there, restored here, dumped here, restored there; and the other way round."""
    active = peer == "valkey"
    with servers["rillet"].wire() as mine, servers[peer].wire() as theirs:
        mine.call("CONFIG", "SET", "rdb-version", VERSIONS[peer])
        for seed in seeds(5):
            here, there = (mine, theirs) if seed % 2 else (theirs, mine)
            make_stream(here, random.Random(seed), "s")
            expected = state_of(here, "s", active_times=active)
            for source, target in ((here, there), (there, here)):
                payload = source.call("DUMP", "s").plain()
                assert target.call("RESTORE", "s", 0, payload, "REPLACE").plain() == b"OK", seed
                assert state_of(target, "s", active_times=active) == expected, seed


@pytest.mark.parametrize("peer", PEERS)
def test_what_we_write_is_what_they_write_but_for_deleted_entries(servers, peer):
    """Without deletions, packing or integers in strings the bytes are the same."""
    with servers[peer].wire() as wire:
        wire.call("CONFIG", "SET", "rdbcompression", "no")
        for seed in seeds(5):
            chance = random.Random(seed)
            wire.call("DEL", "s")
            wire.call("CONFIG", "SET", "stream-node-max-entries", 7)
            for number in range(1, 30):
                wire.call(
                    "XADD", "s", f"{number}-{seed}", "f", chance.choice(["v", "77", "x" * 70]), "g", number
                )
            wire.call("XGROUP", "CREATE", "s", "g", "0")
            wire.call("XREADGROUP", "GROUP", "g", "c", "COUNT", 9, "STREAMS", "s", ">")
            payload = wire.call("DUMP", "s").plain()
            assert dump_value(restore_value(payload), version=VERSIONS[peer])[:-10] == payload[:-10]


def fill(wire, seed, keys):
    chance = random.Random(seed)
    for number in range(keys):
        make_stream(wire, chance, f"s{number}")
    wire.call("SET", "number", "-32769")
    wire.call("SET", "text", b"\xff\x00" * 40, "PX", 10_000_000)
    wire.call("SELECT", 3)
    wire.call("XADD", "other", "1-1", "f", "v" * 1000)
    wire.call("SELECT", 0)


def contents(wire, keys, *, active):
    found = [state_of(wire, f"s{number}", active_times=active) for number in range(keys)]
    found += [wire.call("GET", "number").plain(), wire.call("GET", "text").plain()]
    found += [wire.call("PEXPIRETIME", "text").plain(), wire.call("DBSIZE").plain()]
    wire.call("SELECT", 3)
    found.append(state_of(wire, "other"))
    wire.call("SELECT", 0)
    return found


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("writer", ["rillet", "peer"])
def test_files_go_both_ways(servers, peer, writer, tmp_path):
    source, target = ("rillet", peer) if writer == "rillet" else (peer, "rillet")
    active = peer == "valkey"
    keys = 5
    for seed in seeds(1):
        with servers[source].wire() as wire:
            if source == "rillet":
                wire.call("CONFIG", "SET", "rdb-version", VERSIONS[peer])
            wire.call("FLUSHALL")
            fill(wire, seed, keys)
            assert wire.call("SAVE").plain() == b"OK"
            expected = contents(wire, keys, active=active)
        folder = tmp_path / str(seed)
        folder.mkdir()
        shutil.copy(servers[source].dir / "dump.rdb", folder)
        with start_server(target, folder=folder) as server, server.wire() as wire:
            assert contents(wire, keys, active=active) == expected, seed


@pytest.mark.parametrize("peer", PEERS)
def test_the_rdb_base_of_their_append_only_file_is_loaded(peer, tmp_path):
    flags = ("--appendonly", "yes", "--enable-debug-command", "yes")
    keys, active = 3, peer == "valkey"
    with start_server(peer, *flags, folder=tmp_path) as server, server.wire() as wire:
        fill(wire, 1, keys)
        rewrite(wire)
        wire.call("SET", "after", "1")
        expected = contents(wire, keys, active=active)
    with start_server("rillet", *flags, folder=tmp_path) as server, server.wire() as wire:
        assert contents(wire, keys, active=active) == expected
        assert wire.call("GET", "after").plain() == b"1"


@pytest.mark.parametrize("peer", PEERS)
def test_what_only_rillet_can_say_does_not_keep_others_from_loading(servers, peer, tmp_path):
    with servers["rillet"].wire() as wire:
        wire.call("FLUSHALL")
        wire.call("CONFIG", "SET", "rdb-version", VERSIONS[peer])
        wire.call("XADD", "s", "IDMP", "producer", "message", "*", "f", "v")
        for _ in range(2):
            wire.call("XADD", "s", "*", "f", "v")
        wire.call("XGROUP", "CREATE", "s", "g", "0")
        wire.call("XREADGROUP", "GROUP", "g", "c", "STREAMS", "s", ">")
        ids = [entry[0] for entry in wire.call("XRANGE", "s", "-", "+").plain()]
        assert wire.call("XNACK", "s", "g", "FAIL", "IDS", 2, ids[0], ids[2]).plain() == 2
        wire.call("SET", "behind", "v")
        assert wire.call("SAVE").plain() == b"OK"
    shutil.copy(servers["rillet"].dir / "dump.rdb", tmp_path)
    with start_server(peer, folder=tmp_path) as server, server.wire() as wire:
        assert wire.call("GET", "behind").plain() == b"v"
        owners = [entry[1] for entry in wire.call("XPENDING", "s", "g", "-", "+", 10).plain()]
        assert owners == [b"", b"c", b""]
        claimed = wire.call("XAUTOCLAIM", "s", "g", "other", 3_600_000, "-", "JUSTID").plain()[1]
        assert claimed == [ids[0], ids[2]]
