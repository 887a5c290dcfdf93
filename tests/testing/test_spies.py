"""Spies: streams as objects, the lives of entries, waiting and asserting."""

from collections import Counter

import pytest
import redis
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.background import aside
from support.servers import start_server
from support.thorough import examples

import rillet.testing
from rillet.console.entry_history import Lives
from rillet.testing.recording import RecordingError


@pytest.fixture
def server(server):
    server.clock.freeze(at=1_000_000)
    return server


@pytest.fixture
def bob(server):
    with server.client(client_name="bob", decode_responses=True) as client:
        yield client


@pytest.fixture
def alice(server):
    with server.client(client_name="alice", decode_responses=True) as client:
        yield client


def fill(client, count=3):
    for number in range(1, count + 1):
        client.xadd("orders", {"n": number}, id=f"{number}-0")
    client.xgroup_create("orders", "billing", "0")


def summary(history):
    return [(each.what, each.consumer, each.client, each.time) for each in history]


# Streams


def test_a_stream_is_plain_objects(server, bob, alice):
    fill(bob)
    bob.xreadgroup("billing", "Bob", {"orders": ">"}, count=2)
    server.clock.advance(seconds=2)
    alice.xclaim("orders", "billing", "Alice", 0, ["2-0"])
    stream = server.stream("orders")
    group = stream.group("billing")
    assert (stream.length, stream.last_id, stream.entries[0].fields) == (3, "3-0", {"n": "1"})
    assert (group.lag, group.last_delivered_id, group.entries_read) == (1, "2-0", 2)
    assert [(each.id, each.consumer, each.idle, each.deliveries) for each in group.pending] == [
        ("1-0", "Bob", 2000, 1),
        ("2-0", "Alice", 0, 2),
    ]
    assert [(each.name, each.idle, len(each.pending)) for each in group.consumers] == [
        ("Alice", 0, 1),
        ("Bob", 2000, 1),
    ]
    assert group.consumer("Alice").pending == group.pending[1:]


def test_what_is_not_there_is_named_with_what_is(server, bob):
    with pytest.raises(LookupError, match="'orders': ERR no such key"):
        server.stream("orders")
    fill(bob)
    with pytest.raises(LookupError, match="stream 'orders' has no group 'x'; there is: 'billing'"):
        server.stream("orders").group("x")
    with pytest.raises(LookupError, match="group 'billing' has no consumer 'x'; there is: none"):
        server.stream("orders").group("billing").consumer("x")
    bob.set("k", "v")
    with pytest.raises(LookupError, match="WRONGTYPE"):
        server.stream("k")


def test_bytes_of_any_kind_come_back(server):
    with server.client() as client:
        client.xadd("orders", {b"\xff": b"\x00\xfe"})
    [entry] = server.stream("orders").entries
    assert {name.encode(errors="surrogateescape") for name in entry.fields} == {b"\xff"}


@pytest.mark.parametrize("kind", ["redis7", "valkey"])
def test_streams_of_real_servers_are_the_same(kind):
    with start_server(kind) as real:
        remote = rillet.testing.Proxy(f"redis://127.0.0.1:{real.port}").start()
        with remote.client(decode_responses=True) as client:
            with pytest.raises(LookupError, match="no such key"):
                remote.stream("orders")
            fill(client)
            client.xreadgroup("billing", "Bob", {"orders": ">"}, count=2)
            group = remote.stream("orders").group("billing")
            assert (group.lag, [each.consumer for each in group.pending]) == (1, ["Bob", "Bob"])
            with pytest.raises(TimeoutError, match="3-0 was not delivered"):
                remote.wait_until_idle("orders", "billing", timeout=0)
            client.xreadgroup("billing", "Bob", {"orders": ">"}, noack=True)
            client.xack("orders", "billing", "1-0", "2-0")
            remote.wait_until_idle("orders", "billing")
            remote.assert_acked("orders", "billing")
        remote.stop()


# Lives of entries


def test_the_life_of_an_entry(server, bob, alice):
    with server.recording():
        fill(bob)
        bob.xreadgroup("billing", "Bob", {"orders": ">"}, count=2)
        server.clock.advance(hours=1)
        alice.xclaim("orders", "billing", "Alice", 3_600_000, ["1-0"])
        alice.execute_command("XNACK", "orders", "billing", "FAIL", "IDS", "1", "1-0")
        alice.xautoclaim("orders", "billing", "Alice", 0, count=1)
        alice.xreadgroup("billing", "Alice", {"orders": "0"})
        alice.xack("orders", "billing", "1", "9-0")
        bob.xdel("orders", "1-0")
        history = server.history("orders", "1")
    later = 1_000_000 + 3_600_000
    assert summary(history) == [
        ("added", "", "bob", 1_000_000),
        ("delivered", "Bob", "bob", 1_000_000),
        ("claimed", "Alice", "alice", later),
        ("given back", "Alice", "alice", later),
        ("claimed", "Alice", "alice", later),
        ("read again", "Alice", "alice", later),
        ("acknowledged", "Alice", "alice", later),
        ("deleted", "", "bob", later),
    ]
    assert not history.gaps
    assert str(history).splitlines()[:3] == [
        "orders 1-0",
        "  1970-01-01 00:16:40.000 added (client bob)",
        "  1970-01-01 00:16:40.000 delivered to Bob in group billing (client bob)",
    ]
    assert [each.time for each in history.of("claimed", group="billing")] == [later, later]
    assert len(history.of("claimed", group="other")) == 0


def test_the_text_of_a_history_names_what_is_unsure(server, bob):
    with server.recording():
        fill(bob, 9)
        bob.xreadgroup("billing", "Bob", {"orders": ">"})
        with (
            server.fault(command="XACK", close="after"), server.client(retry=None) as other,
            pytest.raises(redis.ConnectionError),
        ):  # fmt: skip
            other.xack("orders", "billing", "1-0")
        assert "(a fault hit the command: its reply may be lost)" in str(server.history("orders", "1-0"))
        for first in ("4-0", "5-0"):
            bob.xtrim("orders", minid=first, approximate=False)
        assert "(by this command or one of 1 before it)" in str(server.history("orders", "4-0"))
        assert server.history("orders", "9-0").events[-1].what == "delivered"
        bob.delete("orders")
        assert server.history("orders", "9-0").events[-1].what == "removed with its stream"


def test_a_script_with_more_than_a_recording_keeps_is_counted_as_dropped(server, bob):
    with server.recording(last=10) as recorded:
        bob.eval(
            "local big = string.rep('x', 1e6) for n = 1, 80 do redis.call('SET', KEYS[1], big) end", 1, "k"
        )
        bob.set("k", 1)
        assert "SET" in str(recorded[0])
        assert recorded.dropped > 0


def test_what_was_not_recorded_is_said(server, bob):
    with pytest.raises(RecordingError, match="nothing was recorded: run the code in a block"):
        rillet.testing.Server()._recording()
    fill(bob)
    with server.recording():
        bob.xreadgroup("billing", "Bob", {"orders": ">"}, count=1)
    assert "its XADD was not recorded" in str(server.history("orders", "1-0"))
    assert summary(server.history("orders", "1-0"))[0][0] == "delivered"


STEPS = st.one_of(
    st.tuples(st.just("add")),
    st.tuples(st.sampled_from(["new", "again"]), st.sampled_from("AB")),
    st.tuples(st.sampled_from(["claim", "just"]), st.sampled_from("AB"), st.integers(1, 4)),
    st.tuples(st.just("auto"), st.sampled_from("AB")),
    st.tuples(
        st.sampled_from(["ack", "nack", "del", "ackdel"]), st.lists(st.integers(1, 4), min_size=1, max_size=3)
    ),
    st.tuples(st.just("leave"), st.sampled_from("AB")),
)


def command_of(step):
    ids = [f"{number}-0" for number in step[1]] if isinstance(step[-1], list) else []
    match step:
        case ("add",):
            return ["XADD", "s", "*", "a", "b"]
        case ("new", who):
            return ["XREADGROUP", "GROUP", "g", who, "COUNT", "1", "STREAMS", "s", ">"]
        case ("again", who):
            return ["XREADGROUP", "GROUP", "g", who, "STREAMS", "s", "0"]
        case ("claim", who, number):
            return ["XCLAIM", "s", "g", who, "0", f"{number}-0"]
        case ("just", who, number):
            return ["XCLAIM", "s", "g", who, "0", f"{number}-0", "JUSTID"]
        case ("auto", who):
            return ["XAUTOCLAIM", "s", "g", who, "0", "0", "COUNT", "2"]
        case ("leave", who):
            return ["XGROUP", "DELCONSUMER", "s", "g", who]
        case ("ack", _):
            return ["XACK", "s", "g", *ids]
        case ("nack", _):
            return ["XNACK", "s", "g", "FAIL", "IDS", str(len(ids)), *ids]
        case ("del", _):
            return ["XDEL", "s", *ids]
        case ("ackdel", _):
            return ["XACKDEL", "s", "g", "IDS", str(len(ids)), *ids]


GONE = [(False, ("add",)), (False, ("new", "A")), (False, ("del", [1]))]


@settings(max_examples=examples(60))
@example([*GONE, (False, ("claim", "A", 1))], 2)
@example([*GONE, (True, ("auto", "B"))], 3)
@given(st.lists(st.tuples(st.booleans(), STEPS), max_size=25), st.sampled_from([2, 3]))
def test_the_recorded_lives_agree_with_the_pending_entries_of_the_server(running, steps, protocol):
    server = running
    server.reset()
    with server.client(protocol=protocol, decode_responses=True) as client, server.recording() as seen:
        client.execute_command("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
        added = 0
        for in_transaction, step in steps:
            words = command_of(step)
            if words[0] == "XADD":
                added += 1
                words[2] = f"{added}-0"
            if in_transaction:
                client.pipeline(transaction=True).execute_command(*words).execute(raise_on_error=False)
            else:
                client.execute_command(*words)
        stream = server.stream("s")
        lives = Lives(seen, "s")
        held = {entry: life.holders["g"] for entry, life in lives.by_id.items() if "g" in life.holders}
        pending = {each.id: each.consumer for each in stream.group("g").pending if each.consumer}
        assert held == pending
        alive = {entry for entry in lives.by_id if not lives.history(entry, exists=True).of("deleted")}
        assert alive == {each.id for each in stream.entries}


# Waiting and asserting


def test_waiting_until_a_group_is_idle(server, bob, alice):
    def work():
        for _ in range(3):
            [[_, [(entry, _)]]] = bob.xreadgroup("billing", "Bob", {"orders": ">"}, count=1, block=0)
            bob.xack("orders", "billing", entry)

    alice.xgroup_create("orders", "billing", "0", mkstream=True)
    for _ in range(3):
        alice.xadd("orders", {"a": "b"})
    working = aside(work)
    server.wait_until_idle("orders", "billing", timeout=60)
    working.result(60)
    server.assert_acked("orders", "billing")


def test_waiting_in_vain_says_what_is_left(server, bob):
    with pytest.raises(TimeoutError, match="no such key"):
        server.wait_until_idle("orders", "billing", timeout=0)
    fill(bob)
    with pytest.raises(TimeoutError, match="there is: 'billing'"):
        server.wait_until_idle("orders", "other", timeout=0)
    with server.recording():
        bob.xreadgroup("billing", "Bob", {"orders": ">"}, count=1)
        with pytest.raises(TimeoutError) as error:
            server.wait_until_idle("orders", "billing", timeout=0)
    assert "1-0 pending with Bob for 0 ms, delivery count 1\n" in str(error.value)
    assert "delivered to Bob in group billing (client bob)" in str(error.value)
    assert "2-0 was not delivered" in str(error.value)


def test_a_lag_that_the_server_does_not_know_is_found_out(server, bob):
    fill(bob)
    bob.xreadgroup("billing", "Bob", {"orders": ">"}, count=1, noack=True)
    bob.xdel("orders", "2-0")
    assert server.stream("orders").group("billing").lag is None
    with pytest.raises(TimeoutError):
        server.wait_until_idle("orders", "billing", timeout=0)
    bob.xdel("orders", "3-0")
    server.wait_until_idle("orders", "billing", timeout=0)


def test_an_assertion_on_acknowledgements_explains_itself(server, bob, alice):
    with server.recording():
        fill(bob)
        bob.xreadgroup("billing", "Bob", {"orders": ">"}, count=2)
        bob.xack("orders", "billing", "1-0")
        server.assert_acked("orders", "billing", "1-0")
        server.assert_acked("orders", "billing", b"1")
        server.clock.advance(hours=1)
        with pytest.raises(AssertionError) as error:
            server.assert_acked("orders", "billing", "1-0", "2-0", "3-0")
        assert str(error.value).splitlines() == [
            "not acknowledged in group 'billing' of 'orders':",
            "  2-0 pending with Bob for 3,600,000 ms, delivery count 1",
            "    1970-01-01 00:16:40.000 added (client bob)",
            "    1970-01-01 00:16:40.000 delivered to Bob in group billing (client bob)",
            "  3-0 was not delivered",
            "    1970-01-01 00:16:40.000 added (client bob)",
        ]
        alice.xgroup_delconsumer("orders", "billing", "Bob")
        with pytest.raises(AssertionError, match="2-0 is no longer pending, but it was not acknowledged"):
            server.assert_acked("orders", "billing", "2-0")
    with pytest.raises(LookupError):
        server.assert_acked("orders", "other")


def test_an_assertion_names_the_first_few(server, bob):
    fill(bob, 20)
    with pytest.raises(AssertionError, match="… and 15 more"):
        server.assert_acked("orders", "billing")


def test_delivered_once(server, bob, alice):
    with server.recording():
        fill(bob)
        with pytest.raises(AssertionError, match="1-0 was not delivered"):
            server.assert_delivered_once("orders", "billing")
        bob.xreadgroup("billing", "Bob", {"orders": ">"})
        server.assert_delivered_once("orders", "billing")
        alice.xclaim("orders", "billing", "Alice", 0, ["2-0"], justid=True)
        server.assert_delivered_once("orders", "billing")
        alice.xclaim("orders", "billing", "Alice", 0, ["2-0"])
        with pytest.raises(AssertionError) as error:
            server.assert_delivered_once("orders", "billing")
        assert "2-0 was delivered 2 times" in str(error.value)
        assert "claimed by Alice in group billing (client alice)" in str(error.value)
        assert " 1-0 " not in str(error.value)
        bob.xgroup_create("orders", "shipping", "0")
        bob.xreadgroup("shipping", "Bob", {"orders": ">"})
        server.assert_delivered_once("orders", "shipping")


def test_delivered_once_says_what_it_cannot_know(server, bob):
    fill(bob)
    with server.recording(last=2):
        for _ in range(5):
            bob.ping()
        with pytest.raises(RecordingError, match="commands were dropped"):
            server.assert_delivered_once("orders", "billing")


def test_only_the_last_of_the_recordings_that_have_ended_is_kept(server):
    for _ in range(10):
        with server.recording():
            pass
    assert Counter(each.is_on for each in server._recordings) == {False: 1}
