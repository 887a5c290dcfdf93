"""stream-compress-depth on a running server: old entries take less memory, and that is all that shows."""

import pytest
from support.live import LiveServer, eventually
from support.wire import commands

from rillet.storage.streams.chunk import MAX_ENTRIES, Chunk

N = 20 * MAX_ENTRIES


def look_often(server):
    def look():
        cold = server.inside.keyspace.cold
        cold.round = cold._next_round = 0.05

    server.run_inside(look)


@pytest.fixture
def server():
    options = {"appendonly": True, "stream_compress_depth": 2, "enable_debug_command": "yes"}
    with LiveServer(**options, repl_diskless_sync_delay=0) as server:  # no replica waits for others
        look_often(server)
        yield server


def add(wire, key="s", number=N, first=1):
    script = "for at = ARGV[1], ARGV[2] do redis.call('XADD', KEYS[1], at .. '-0', 'f', 'v' .. at) end"
    wire.call("EVAL", script, 1, key, first, first + number - 1)


def stream_at(server, key=b"s"):
    return server.inside.keyspace.databases[0].entries[key]


def packed(server, key=b"s") -> int:
    return sum([type(chunk) is not Chunk for chunk in stream_at(server, key).chunks])


def wait_until_packed(server, key=b"s", depth=2):
    # A loaded file has packed chunks among the newest, too.
    eventually(lambda: packed(server, key) >= len(stream_at(server, key).chunks) - depth)
    eventually(lambda: server.inside.keyspace.cold.step not in server.inside.background_jobs._idle_jobs)


def usage(wire, key="s") -> int:
    return wire.call("MEMORY", "USAGE", key, "SAMPLES", 0).plain()


def ids(reply) -> list[bytes]:
    return [entry[0] for entry in reply]


def test_an_idle_server_packs_old_entries_and_then_rests(server):
    def look_never():
        server.inside.keyspace.cold._next_round = float("inf")

    with server.wire() as wire:
        server.run_inside(look_never)
        add(wire)
        before = usage(wire)
        look_often(server)
        wait_until_packed(server)
        assert usage(wire) < before / 3
        assert not server.run_inside(
            lambda: server.inside.keyspace.cold.begin_round(server.inside.loop.time() + 100)
        )


def test_packed_entries_are_read_changed_and_copied_as_others(server):
    with LiveServer(stream_compress_depth=0, enable_debug_command="yes") as plain:
        for each in (server, plain):
            each.clock.freeze(1_700_000_000_000)
            with each.wire() as wire:
                add(wire)
        wait_until_packed(server)
        with server.wire() as ours, plain.wire() as theirs:
            for words in commands(
                "XRANGE s - + COUNT 1000; XRANGE s 700 1900; XREVRANGE s + - COUNT 500; XGROUP CREATE s g 0"
                "; XREADGROUP GROUP g c COUNT 300 STREAMS s >; XDEL s 5-0 700-0 701-0; XTRIM s MAXLEN 1500"
                "; XTRIM s MINID ~ 1300; XRANGE s - +; XINFO STREAM s; DUMP s; COPY s t; XRANGE t - +; DEBUG DIGEST"
            ):
                assert ours.call(*words).encode() == theirs.call(*words).encode(), words
        assert packed(server)
        assert not packed(plain)


@pytest.mark.parametrize("preamble", ["no", "yes"])
def test_packed_entries_are_in_rewritten_files(server, preamble):
    with server.wire() as wire:
        wire.call("CONFIG", "SET", "aof-use-rdb-preamble", preamble)
        add(wire)
        wait_until_packed(server)
        wire.call("XDEL", "s", "300-0")
        digest = wire.call("DEBUG", "DIGEST").value
        number = packed(server)
        wire.call("BGREWRITEAOF")
        eventually(lambda: server.info("aof_rewrite_in_progress") == "0")
        assert server.info("aof_last_bgrewrite_status") == "ok"
        assert packed(server) == number
    server.restart()
    look_often(server)
    with server.wire() as wire:
        assert wire.call("DEBUG", "DIGEST").value == digest
        assert wire.call("XLEN", "s").plain() == N - 1
        wait_until_packed(server)
        assert wire.call("DEBUG", "DIGEST").value == digest


def test_reading_everything_leaves_most_of_it_packed(server):
    server.run_inside(lambda: setattr(server.inside.keyspace.cold, "limit", 30_000))
    with server.wire() as wire:
        add(wire)
        wait_until_packed(server)
        assert len(wire.call("XRANGE", "s", "-", "+").plain()) == N
        assert len(wire.call("XREAD", "STREAMS", "s", "0").plain()[0][1]) == N
        assert packed(server) >= 15


def test_a_group_reads_packed_entries_in_order(server):
    with server.wire() as wire:
        add(wire)
        wait_until_packed(server)
        wire.call("XGROUP", "CREATE", "s", "g", "0")
        seen = []
        while reply := wire.call("XREADGROUP", "GROUP", "g", "c", "COUNT", 37, "STREAMS", "s", ">").plain():
            seen += ids(reply[0][1])
        assert seen == [b"%d-0" % at for at in range(1, N + 1)]
        assert wire.call("XACK", "s", "g", *seen).plain() == N


def test_switched_off_nothing_is_packed_and_what_is_stays(server):
    with server.wire() as wire:
        add(wire)
        wait_until_packed(server)
        number = packed(server)
        wire.call("CONFIG", "SET", "stream-compress-depth", 0)
        add(wire, first=N + 1)
        assert not server.run_inside(
            lambda: server.inside.keyspace.cold.begin_round(server.inside.loop.time() + 100)
        )
        assert packed(server) == number
        wire.call("XRANGE", "s", "5-0", "5-0")
        assert packed(server) == number - 1


def test_a_server_packs_by_default_unless_configured_otherwise():
    with LiveServer() as server, server.wire() as wire:
        assert wire.call("CONFIG", "GET", "stream-compress-depth").plain() == [b"stream-compress-depth", b"8"]
        assert server.inside.keyspace.cold.depth == 8
    with LiveServer(stream_compress_depth=0) as server:
        assert server.inside.keyspace.cold.depth == 0


def test_a_replica_packs_what_it_was_sent(server):
    with server.wire() as wire:
        add(wire)
        wait_until_packed(server)
        with LiveServer(stream_compress_depth=2, replicaof=f"127.0.0.1 {server.port}") as replica:
            look_often(replica)
            eventually(lambda: replica.inside.keyspace.databases[0].entries)
            wait_until_packed(replica)
            with replica.wire() as other:
                assert (
                    other.call("XRANGE", "s", "-", "+").plain() == wire.call("XRANGE", "s", "-", "+").plain()
                )
