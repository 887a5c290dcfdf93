"""How far commands travel: files entered, and changes from one file to another, bytes in to bytes out.

Someone who follows a command through the code opens these files, and turns as often. The bounds may be lowered.
"""

import pytest
from support.hops import travel
from support.live import LiveServer


@pytest.fixture
def server():
    with LiveServer() as server:
        server.inside.slow_nanoseconds = 1 << 62  # tracing makes every command slow
        for name in (b"PING", b"XCLAIM", b"XAUTOCLAIM"):
            server.inside.dispatcher.find([name])  # the first one of a server is looked up, and imported
        yield server


@pytest.fixture
def wire(server):
    """A client; group g of stream s has delivered 1-0 to 6-0 to a, has the consumers b and c, and was claimed from."""
    with server.wire() as wire:
        wire.call("XGROUP", "CREATE", "s", "g", 0, "MKSTREAM")
        for ms in range(1, 9):
            wire.call("XADD", "s", f"{ms}-0", "field", "value")
        wire.call("XREADGROUP", "GROUP", "g", "a", "COUNT", 6, "STREAMS", "s", ">")
        for name in ("b", "c"):
            wire.call("XGROUP", "CREATECONSUMER", "s", "g", name)
        for ms in (5, 6):
            wire.call("XCLAIM", "s", "g", "a", 0, f"{ms}-0")
        yield wire


def test_the_way_of_a_ping_is_straight(server, wire):
    journey = travel(server, wire, "PING")
    assert wire.read().plain() == b"PONG"
    assert journey.hops == len(journey.modules) - 1, journey


def test_xclaim_of_one_enters_11_files_and_hops_14_times(server, wire):
    journey = travel(server, wire, "XCLAIM", "s", "g", "b", 0, "1-0")
    assert wire.read().plain() == [[b"1-0", [b"field", b"value"]]]
    assert len(journey.modules) <= 11, journey
    assert journey.hops <= 14, journey


def test_xautoclaim_of_two_enters_13_files_and_hops_21_times(server, wire):
    """One file and four hops of them ask whether the walk passes over so many outdated entries that it must wait."""
    journey = travel(server, wire, "XAUTOCLAIM", "s", "g", "c", 0, "2-0", "COUNT", 2)
    assert [text for text, _ in wire.read().plain()[1]] == [b"2-0", b"3-0"]
    assert len(journey.modules) <= 13, journey
    assert journey.hops <= 21, journey


def test_a_wake_up_enters_18_files_and_hops_34_times(server, wire):
    """The options of the read are made by a constructor of our own, whose call counts; that of a dataclass did not."""
    wire.call("XREADGROUP", "GROUP", "g", "a", "STREAMS", "s", ">")
    with server.wire() as reader:
        reader.send("XREADGROUP", "GROUP", "g", "a", "BLOCK", 0, "STREAMS", "s", ">")
        server.wait_for_blocked(1)
        server.inside.clock.freeze()  # replies that are held for a millisecond leave by another way
        journey = travel(server, wire, "XADD", "s", "*", "field", "value")
        added = wire.read().plain()
        assert reader.read().plain() == [[b"s", [[added, [b"field", b"value"]]]]]
    assert len(journey.modules) <= 18, journey
    assert journey.hops <= 34, journey


def test_xadd_that_trims_makes_32_calls_and_hops_21_times(server, wire):
    """The sizes of nodes are computed when a trim first looks for the border of one, and entries go a node at a time."""
    server.inside.clock.freeze()  # how far apart the IDs are decides how their sizes are computed
    for number in range(400):
        journey = travel(server, wire, "XADD", "trimmed", "MAXLEN", "~", 100, "*", "field", "value")
        wire.read()
        if number > 100:
            assert len(journey.calls) <= 32, journey
            assert journey.hops <= 21, journey
    assert wire.call("XLEN", "trimmed").value == b"100"


def test_a_memory_limit_measures_300_keys_in_a_straight_line(server, wire):
    """It took 57 hops on 2026-11-28, and 953 when each key was weighed on its own."""
    for number in range(300):
        wire.call("SET", f"key{number}", "value" * 20)
    wire.call("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    journey = travel(server, wire, "CONFIG", "SET", "maxmemory", 1 << 40)
    assert wire.read().plain() == b"OK"
    assert journey.hops <= 250, journey


def test_a_set_that_evicts_32_keys_samples_weighs_and_evicts_in_one_loop(server, wire):
    """It took 225 hops on 2026-11-29, and 1,103 when each victim was sampled, weighed and propagated on its own."""
    wire.call("DEL", "s")  # as large as twelve of the keys below
    for number in range(400):
        wire.call("SET", f"key{number:03d}", "value" * 20)
    wire.call("CONFIG", "SET", "maxmemory-policy", "allkeys-lru", "maxmemory-eviction-tenacity", 100)
    wire.call("CONFIG", "SET", "maxmemory", 1 << 40)
    inside = server.inside

    def exceed() -> None:
        db = inside.keyspace.databases[0]
        inside.config.maxmemory = inside.eviction._used() - db.meter.memory_of(db) * 31 // len(db)

    journey = travel(server, wire, "SET", "new", "value", first=exceed)
    assert wire.read().plain() == b"OK"
    assert 30 <= inside.stats.evicted_keys <= 34
    assert journey.hops <= 250, journey
