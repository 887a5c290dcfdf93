"""Faults of commands whose replies come late: they block, they are delayed, their bytes are slow."""

from datetime import timedelta

import pytest
from support.live import eventually
from support.wire import encode_command

# Blocked commands


def test_a_blocked_command_becomes_silent(server, wire, other):
    with server.fault(command="BLPOP", silence=True):
        server.block(wire, "BLPOP", "list", 0)
        other.call("LPUSH", "list", "x")
        wire.send("SET", "later", 1)
        eventually(lambda: other.call("EXISTS", "later").plain() == 1)
        assert wire.pending() == b""


def test_the_end_of_a_fault_spares_a_command_that_is_still_blocked(server, wire, other):
    with server.fault(command="BLPOP", close="after"):
        server.block(wire, "BLPOP", "list", 0)
    other.call("LPUSH", "list", "x")
    assert wire.read().plain() == [b"list", b"x"]


# Delays


def test_a_delayed_command_waits_and_others_do_not(server, wire, other):
    with server.fault(command="SET", client="slow", clock_delay=10) as fault:
        server.clock.freeze()
        wire.call("CLIENT", "SETNAME", "slow")
        wire.send_raw(encode_command("SET", "a", 1) + encode_command("INCR", "a"))
        eventually(lambda: fault.count == 1)
        assert other.call("SET", "b", 1).plain() == b"OK"
        assert other.call("GET", "a").is_null
        server.clock.advance(seconds=9)
        assert other.call("GET", "a").is_null
        server.clock.advance(seconds=1)
        assert wire.read().plain() == b"OK"
        assert wire.read().plain() == 2
        assert fault.count == 1


def test_a_delay_in_real_time_ends_by_itself(server, wire):
    server.clock.freeze()
    with server.fault(command="SET", delay=0.01) as fault:
        assert wire.call("SET", "a", 1).plain() == b"OK"
        assert fault.count == 1


def test_a_clock_that_runs_ends_a_delay_by_itself(server, wire):
    with server.fault(command="SET", clock_delay=0.01):
        assert wire.call("SET", "a", 1).plain() == b"OK"


@pytest.mark.parametrize("close", ["before", "after"])
def test_a_delay_comes_before_the_rest(server, wire, other, close):
    server.clock.freeze()
    with server.fault(command="SET", clock_delay=1, close=close) as fault:
        wire.send("SET", "a", 1)
        eventually(lambda: fault.count == 1)
        assert wire.pending(0.02) == b""
        server.clock.advance(seconds=1)
        assert wire.rest() == b""
    assert other.call("EXISTS", "a").plain() == (close == "after")


def test_the_end_of_a_fault_ends_its_delays_and_the_command_runs_as_usual(server, wire):
    server.clock.freeze()
    with server.fault(command="SET", clock_delay=1000, error="HIT it") as fault:
        wire.send("SET", "a", 1)
        eventually(lambda: fault.count == 1)
    assert wire.read().plain() == b"OK"


def test_a_client_that_leaves_while_it_is_delayed_runs_nothing(server, wire, other):
    server.clock.freeze()
    with server.fault(command="SET", clock_delay=5) as fault:
        wire.send("SET", "a", 1)
        eventually(lambda: fault.count == 1)
        wire.close()
        eventually(lambda: not server.inside.debugging.faults._delays._waits)
        server.clock.advance(seconds=6)
    assert other.call("EXISTS", "a").plain() == 0


def test_a_command_that_a_pause_postpones_is_counted_once(server, wire, other):
    with server.fault(command="SET", every=2, error="HIT it") as fault, server.recording() as seen:
        other.call("CLIENT", "PAUSE", 100_000, "WRITE")
        wire.send("SET", "a", 1)
        eventually(lambda: fault.fitted == 1)
        other.call("CLIENT", "UNPAUSE")
        assert wire.read().plain() == b"OK"
        assert wire.call("SET", "a", 1).value == b"HIT it"
        assert (fault.count, fault.fitted) == (1, 2)
        assert seen.count("SET") == 2


def test_what_was_decided_before_a_fault_says_nothing_about_it(server, wire, other):
    with server.recording():
        other.call("CLIENT", "PAUSE", 100_000, "WRITE")
        wire.send("SET", "a", 1)
        eventually(lambda: server.inside.pause.postponed)
    other.call("CLIENT", "UNPAUSE")
    assert wire.read().plain() == b"OK"
    with server.fault(command="SET", error="HIT it"):
        assert wire.call("SET", "a", 1).value == b"HIT it"


# Slow bytes


def test_slow_bytes_arrive_in_order_and_nothing_comes_between_them(server):
    with server.wire(3) as wire, server.wire() as other:
        wire.call("SUBSCRIBE", "news")
        with server.fault(command="ECHO", slow=(3, 0.001)) as fault:
            wire.send_raw(
                encode_command("PING") + encode_command("ECHO", "x" * 30) + encode_command("PING", "last")
            )
            eventually(lambda: fault.count == 1)
            other.call("PUBLISH", "news", "hello")
            replies = [wire.read().plain() for _ in range(4)]
    assert replies[:2] == [b"PONG", b"x" * 30]
    assert sorted(map(str, replies[2:])) == sorted(map(str, [b"last", [b"message", b"news", b"hello"]]))


def test_an_error_arrives_slowly_and_its_command_does_not_run(server, wire):
    with server.fault(command="SET", error="HIT it", slow=(1, 1000)) as fault:
        wire.send_raw(encode_command("SET", "k", "v") + encode_command("GET", "k"))
        eventually(lambda: fault.count == 1)
        assert wire.pending(0.02) == b""
    assert [wire.read().value, wire.read().plain()] == [b"HIT it", None]


def test_the_end_of_a_fault_sends_the_rest_at_once(server, wire):
    with server.fault(command="ECHO", slow=(1, 1000)) as fault:
        wire.send("ECHO", "hello")
        eventually(lambda: fault.count == 1)
        assert wire.pending(0.02) == b""
    assert wire.read().plain() == b"hello"
    assert wire.call("PING").plain() == b"PONG"


def test_the_end_of_a_fault_sends_the_rest_of_several_replies_at_once(server, wire):
    with server.fault(command="GET", slow=(1, 3600)):
        wire.send_raw(encode_command("GET", "k") * 3)
        eventually(lambda: len(slowed_by_faults(server)) == 3)
    assert [wire.read().plain() for _ in range(3)] == [None] * 3


def test_a_fault_forgets_replies_that_it_has_slowed(server, wire):
    with server.fault(command="GET", slow=(1000, timedelta(milliseconds=1))):
        for _ in range(5):
            wire.call("GET", "k")
        eventually(lambda: not slowed_by_faults(server))


def slowed_by_faults(server) -> list[object]:
    return [slow for fault in server.inside.debugging.faults.active.values() for slow in fault.slowed]


def test_a_connection_is_as_quick_as_before_after_a_slow_reply(server, wire):
    with server.fault(command="ECHO", slow=(100, 0.001)):
        assert wire.call("ECHO", "hello").plain() == b"hello"
        [client] = [each for each in server.inside.clients.values() if each.last_command == "echo"]
        eventually(lambda: "Slow" not in type(client.transport).__name__)


def test_a_client_that_quits_gets_its_slow_replies_first(server, wire):
    with server.fault(command="ECHO", slow=(3, 0.001)):
        wire.send_raw(encode_command("ECHO", "hello") + encode_command("QUIT"))
        assert wire.rest() == b"$5\r\nhello\r\n+OK\r\n"
