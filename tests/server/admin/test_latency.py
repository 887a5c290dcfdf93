import pytest
from support.fake_server import FakeServer
from support.servers import start_server

from rillet.server.admin.latency import Latency


@pytest.fixture(scope="module")
def server():
    with start_server("rillet", "--enable-debug-command", "yes") as process:
        yield process


@pytest.fixture
def wire(server):
    with server.wire() as connection:
        connection.call("LATENCY", "RESET")
        yield connection


def make_spike(wire, seconds):
    """Have one slow command watched, and no other: on a busy machine any may take a millisecond."""
    wire.call("CONFIG", "SET", "latency-monitor-threshold", 1)
    wire.call("DEBUG", "SLEEP", seconds)
    wire.call("CONFIG", "SET", "latency-monitor-threshold", 1_000_000)


def test_a_slow_command_is_a_spike(wire):
    make_spike(wire, 0.01)
    [(event, second, last, worst)] = wire.call("LATENCY", "LATEST").plain()
    assert event == b"command"
    assert last == worst >= 10
    assert wire.call("LATENCY", "HISTORY", "command").plain() == [[second, last]]
    assert wire.call("LATENCY", "GRAPH", "command").value.startswith(b"command - high ")
    assert b"command: 1 spikes, worst " in wire.call("LATENCY", "DOCTOR").value
    assert str(wire.call("LATENCY", "RESET", "nothing")) == ":0"
    assert str(wire.call("LATENCY", "RESET", "command", "nothing")) == ":1"
    assert str(wire.call("LATENCY", "LATEST")) == "*[]"


def test_within_a_second_only_the_worst_counts():
    server = FakeServer(now=1_700_000_000_000)
    latency = Latency(server)
    for milliseconds in (5, 9, 7):
        latency.add("command", milliseconds)
    server.advance(1000)
    latency.add("command", 3)
    assert list(latency.events["command"]) == [(1_700_000_000, 9), (1_700_000_001, 3)]
    assert latency.worst == {"command": 9}


def test_at_most_160_samples_are_kept():
    server = FakeServer()
    latency = Latency(server)
    for number in range(200):
        latency.add("fork", number)
        server.advance(1000)
    assert len(latency.events["fork"]) == 160
    assert latency.events["fork"][0][1] == 40
    assert latency.reset([]) == 1
    assert not latency.events


def test_a_histogram_counts_up_to_all_calls(wire):
    wire.call("CONFIG", "RESETSTAT")
    for _ in range(5):
        wire.call("XADD", "s", "*", "a", "b")
    wire.call("XGROUP", "CREATE", "s", "g", "0")
    facts = wire.call("LATENCY", "HISTOGRAM", "XADD", "xgroup", "nothing", "xlen").plain()
    assert facts[::2] == [b"xadd", b"xgroup|create"]
    _, calls, _, buckets = facts[1]
    assert calls == 5
    assert buckets[-1] == 5
    assert buckets[::2] == sorted(buckets[::2])
    assert buckets[1::2] == sorted(buckets[1::2])


@pytest.mark.parametrize("kind", ["rillet", "redis810", "redis7"])
def test_the_bounds_of_a_histogram_are_powers_of_two_and_two_digits_more(kind):
    with start_server(kind, "--enable-debug-command", "yes") as process, process.wire() as wire:
        for seconds in ("0", "0.0001", "0.001", "0.04", "0.2"):
            wire.call("DEBUG", "SLEEP", seconds)
        [_, [_, calls, _, buckets]] = wire.call("LATENCY", "HISTOGRAM", "debug").plain()
    assert buckets[-1] == calls
    assert {*buckets[::2]} <= {1, 2, 4, 8, 16, 33, 66, 132, 264, 528, 1056, 2113, 4227, 8454, 16908, 33816, 67633, 135266, 270532,
                               541065, 1082130, 2164260, 4328521}  # fmt: skip


def test_a_histogram_is_made_of_maps_in_resp3(server):
    with server.wire(3) as three:
        three.call("PING")
        reply = three.call("LATENCY", "HISTOGRAM", "ping")
    assert reply.kind == "%"
    assert reply.children[1].kind == "%"
    assert reply.children[1].children[3].kind == "%"


def test_reports_are_text_in_resp3(server):
    with server.wire(3) as three:
        make_spike(three, 0.005)
        assert three.call("LATENCY", "DOCTOR").kind == "="
        assert three.call("LATENCY", "GRAPH", "command").kind == "="


def test_doctor_says_when_nothing_is_watched(rillet_process):
    with rillet_process.wire() as wire:
        assert wire.call("LATENCY", "DOCTOR").value.startswith(b"Latency monitoring is off")
