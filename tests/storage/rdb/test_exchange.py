"""Streams as bytes: they are those of real servers, and what only Rillet knows of them does not keep others from loading.

RILLET_EXCHANGE=250 tries 250 times as many streams.
"""

import os
import random
import shutil

import pytest
from support.servers import start_server, start_servers

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
