"""Faults as a Python test asks for them; what they do is in tests/server/debugging."""

from datetime import timedelta

import pytest
import redis

import rillet.testing


def test_the_case_that_at_least_once_delivery_gets_wrong(server):
    with server.client(client_name="Bob", retry=None) as bob, server.client() as alice:
        bob.xgroup_create("orders", "billing", mkstream=True)
        order = bob.xadd("orders", {"item": "7"})
        bob.xreadgroup("billing", "Bob", {"orders": ">"})
        with server.fault(command="XACK", close="after") as fault:
            with pytest.raises(redis.ConnectionError):
                bob.xack("orders", "billing", order)
            [hit] = fault.hits
        assert (hit.client, hit.command, hit.key) == ("Bob", "XACK", "orders")
        server.clock.advance(hours=1)
        assert alice.xautoclaim("orders", "billing", "Alice", 3_600_000)[1] == []


def test_times_are_seconds_or_timedeltas(server):
    fault = server.fault(command="GET", delay=timedelta(milliseconds=300))
    assert fault.options == "COMMAND GET DELAY 300"
    assert server.fault(clock_delay=0.25).options == "CLOCK-DELAY 250"
    assert server.fault(slow=(10, timedelta(seconds=1))).options == "SLOW 10 1000"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "A fault needs ERROR"),
        ({"close": "later"}, "CLOSE needs before or after or midway"),
        ({"error": "OOM", "nth": 1, "first": 2}, "A fault cannot have FIRST and NTH"),
        ({"delay": -1}, "not negative"),
        ({"delay": float("nan")}, "must be a number of seconds"),
        ({"clock_delay": float("inf")}, "must be a number of seconds"),
        ({"command": "", "error": "OOM"}, "COMMAND needs the name"),
    ],
)
def test_bad_options_are_refused_before_the_block(server, options, text):
    with pytest.raises(ValueError, match=text):
        server.fault(**options)
    assert server.faults == []


def test_a_command_that_does_not_exist_is_refused_at_the_beginning_of_the_block(server):
    with (
        pytest.raises(ValueError, match="There is no command 'xakc'"),
        server.fault(command="XAKC", close="after"),
    ):
        pass


def test_expected_hits_that_do_not_come_fail_the_block(server):
    nothing = r"the fault hit nothing: COMMAND SET KEY usr:\* ERROR OOM \(0 commands"
    fault = server.fault(command="SET", key="usr:*", error="OOM", expect_hits=True)
    with pytest.raises(AssertionError, match=nothing), fault, server.client() as client:
        client.set("user:1", 1)
    with pytest.raises(KeyError), server.fault(error="OOM", expect_hits=True):
        raise KeyError  # the error of the block itself is more important


def test_faults_nest_and_are_listed_with_those_of_other_clients(server):
    with server.client() as client, server.fault(command="GET", error="OOPS a"):
        number = client.execute_command("DEBUG", "FAULT", "ADD", "COMMAND", "SET", "ERROR", "OOM")
        with server.fault(command="DEL", error="OOPS a") as inner:
            assert [fault.options for fault in server.faults] == [
                "COMMAND GET ERROR OOPS a",
                "COMMAND SET ERROR OOM",
                "COMMAND DEL ERROR OOPS a",
            ]
            assert server.faults[2].id == inner.id
        assert [fault.id for fault in server.faults][1] == number
        server.faults[1].stop()
        assert client.set("a", 1)
        assert len(server.faults) == 1
    assert server.faults == []


def test_a_fault_may_be_used_again_and_counts_from_zero_again(server):
    fault = server.fault(command="GET", nth=1, error="OOPS a")
    with server.client() as client:
        for _ in range(2):
            with fault:
                with pytest.raises(redis.ResponseError):
                    client.get("a")
                client.get("a")
                assert (fault.count, fault.fitted) == (1, 2)
            assert (fault.count, len(fault.hits)) == (1, 1)


def test_a_fault_that_somebody_else_has_cleared_is_an_error_of_the_block(server):
    with pytest.raises(RuntimeError, match="no longer there"), server.fault(command="GET", error="OOM"):
        server.client().execute_command("DEBUG", "FAULT", "CLEAR")


def test_only_the_last_thousand_hits_are_kept_but_all_are_counted(server):
    with server.client() as client, server.fault(command="GET", error="OOPS a") as fault:
        pipe = client.pipeline(transaction=False)
        for number in range(1100):
            pipe.get(str(number))
        pipe.execute(raise_on_error=False)
        assert fault.count == 1100
        assert [hit.key for hit in fault.hits] == [str(number) for number in range(100, 1100)]


def test_the_error_of_a_block_is_not_hidden_by_a_reset_within_it(server):
    def fail() -> None:
        server.client().execute_command("DEBUG", "FAULT", "CLEAR")
        server.restart()
        raise KeyError

    with pytest.raises(KeyError), server.fault(command="GET", error="OOM"), server.recording():
        fail()


def test_the_error_of_a_block_is_not_hidden_by_the_end_of_the_server_within_it(server):
    def fail() -> None:
        server.stop()
        raise KeyError

    with pytest.raises(KeyError), server.fault(command="GET", close="after"):
        fail()
    server.start()
    with pytest.raises(KeyError), server.recording():
        fail()


def test_what_began_before_a_restart_is_not_taken_for_what_began_after_it(server):
    old, seen = server.fault(command="GET", error="BUSY").start(), server.recording().start()
    server.restart()
    with server.fault(command="GET", error="BUSY") as new, server.recording() as later:
        with server.client(retry=None) as client, pytest.raises(redis.ResponseError, match="BUSY"):
            client.get("k")
        with pytest.raises(RuntimeError, match="no longer there"):
            old.stop()
        with pytest.raises(rillet.testing.RecordingError, match="restarted or reset"):
            seen.count("GET")
        assert new.count == later.count("GET") == 1
