"""XREADGROUP BLOCK CLAIM on a running server: who wakes when time passes or entries are given back."""

import pytest
from support.live import eventually

ENTRY = [b"a", b"b"]


@pytest.fixture
def server(shared):
    shared.reset()
    shared.clock.freeze(1_700_000_000_000)
    yield shared
    shared.clock.resume()


@pytest.fixture
def wire(server):
    """Streams s and t with group g; a has 1-0 of s."""
    with server.wire() as wire:
        for key in ("s", "t"):
            wire.call("XADD", key, "1-0", "a", "b")
            wire.call("XGROUP", "CREATE", key, "g", "0" if key == "s" else "$")
        wire.call("XREADGROUP", "GROUP", "g", "a", "STREAMS", "s", ">")
        yield wire


def waits(server, consumer, *words, keys=("s",)):
    """A new connection that waits with CLAIM."""
    wire = server.wire()
    before = len(server.inside.blocking.waiters)
    ids = [">"] * len(keys)
    wire.send("XREADGROUP", "GROUP", "g", consumer, *words, "STREAMS", *keys, *ids)
    server.wait_for_blocked(before + 1)
    return wire


def item(idle, count=1):
    return [[b"s", [[b"1-0", ENTRY, idle, count]]]]


@pytest.mark.usefixtures("wire")
def test_it_wakes_once_the_oldest_entry_is_past_its_time(server):
    with waits(server, "b", "BLOCK", "0", "CLAIM", "500", keys=("t", "s")) as waiting:
        server.clock.advance(milliseconds=500)
        assert len(server.inside.blocking.waiters) == 1  # strictly past
        server.clock.advance(milliseconds=1)
        assert waiting.read().plain() == item(501)


@pytest.mark.usefixtures("wire")
def test_the_first_waiter_claims_and_the_others_keep_waiting(server):
    with (
        waits(server, "b", "BLOCK", "0", "CLAIM", "500") as first,
        waits(server, "d", "BLOCK", "0", "CLAIM", "500") as second,
    ):
        server.clock.advance(milliseconds=1000)
        assert first.read().plain() == item(1000)
        assert len(server.inside.blocking.waiters) == 1
        server.clock.advance(milliseconds=1000)
        assert second.read().plain() == item(1000, 2)


def test_a_reader_that_times_out_earlier_gets_nothing(server, wire):
    with waits(server, "b", "BLOCK", "300", "CLAIM", "500") as waiting:
        server.clock.advance(milliseconds=1000)
        assert waiting.read().plain() is None
    assert server.call(wire, "XPENDING", "s", "g", "-", "+", "9")[0][1] == b"a"


@pytest.mark.usefixtures("wire")
def test_a_reader_that_has_both_times_behind_it_is_served_if_that_came_first(server):
    with waits(server, "b", "BLOCK", "800", "CLAIM", "500") as waiting:
        server.clock.advance(milliseconds=1000)
        assert waiting.read().plain() == item(1000)


def test_a_reader_does_not_wait_for_an_acknowledged_entry(server, wire):
    with waits(server, "b", "BLOCK", "5000", "CLAIM", "500") as waiting:
        wire.call("XACK", "s", "g", "1-0")
        server.clock.advance(milliseconds=2000)
        assert len(server.inside.blocking.waiters) == 1
        server.clock.advance(milliseconds=3000)
        assert waiting.read().plain() is None


def test_no_reminder_outlives_its_waiter(server, wire):
    for _ in range(120):
        with server.wire() as reader:
            server.block(
                reader, "XREADGROUP", "GROUP", "g", "b", "BLOCK", "0", "CLAIM", "500", "STREAMS", "s", ">"
            )
            wire.call("XADD", "s", "*", "a", "b")
            assert reader.read().plain()
        wire.call("XACKDEL", "s", "g", "IDS", "1", server.call(wire, "XPENDING", "s", "g")[2])
    assert len(server.inside.blocking._deadlines) < 100


def test_with_a_real_clock_it_wakes_by_itself(server, wire):
    server.clock.resume()
    claim = ("XCLAIM", "s", "g", "a", "0", "1-0", "JUSTID")
    read = ("XREADGROUP", "GROUP", "g", "b", "BLOCK", "0", "CLAIM", "30", "STREAMS", "s", ">")
    [_, reply] = wire.calls([claim, read])  # at once: it is to wait, even on a busy machine
    [[_, [[found, _, idle, _]]]] = reply.plain()
    assert found == b"1-0"
    assert idle >= 30


def test_unowned_entries_and_their_order_survive_a_restart(server, wire):
    for ms in range(2, 6):
        wire.call("XADD", "s", f"{ms}-0", "a", "b")
    wire.do(
        "XREADGROUP GROUP g a STREAMS s >; XNACK s g FAIL IDS 2 4-0 1-0; XNACK s g FATAL IDS 1 2-0"
        "; XACKDEL s g DELREF IDS 1 5-0; XREADGROUP GROUP g new STREAMS s >"
    )
    before = server.call(wire, "XPENDING", "s", "g", "-", "+", "9")
    wire.close()
    eventually(lambda: server.aof()[-1][:2] == [b"XGROUP", b"CREATECONSUMER"])
    server.restart()
    server.clock.freeze(1_700_000_000_000)
    with server.wire() as again:
        assert server.call(again, "XPENDING", "s", "g", "-", "+", "9") == before
        assert [pairs[1] for pairs in server.call(again, "XINFO", "CONSUMERS", "s", "g")] == [b"a", b"new"]
        [[_, found]] = server.call(
            again, "XREADGROUP", "GROUP", "g", "b", "CLAIM", "1000000", "STREAMS", "s", ">"
        )
        assert [entry[0] for entry in found] == [b"4-0", b"1-0", b"2-0"]
