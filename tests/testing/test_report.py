"""What pytest shows of a server when a test has failed."""

import pytest
import redis
from support.programs.pytest_run import run_tests
from support.until import until

import rillet.testing
from rillet.testing.report import describe


@pytest.fixture(params=[False, True], ids=["thread", "process"])
def server(request):
    with rillet.testing.Server(process=request.param) as server:
        server.watch()
        yield server


def test_faults_commands_streams_and_log_are_described(server):
    with server.client(client_name="bob") as bob, server.client(client_name="alice") as alice:
        bob.xadd("orders", {"n": "1"}, id="1-0")
        bob.xgroup_create("orders", "billing", "0")
        alice.ping()
        bob.xreadgroup("billing", "Bob", {"orders": ">"})
        with server.fault(command="XACK", error="LOADING"), pytest.raises(redis.BusyLoadingError):
            bob.xack("orders", "billing", "1-0")
        with server.fault(command="XDEL", error="LOADING"):
            pass
        bob.execute_command("DEBUG", "LOG", "hello")
        until(lambda: "hello" in server.log.text())
        logged = server.log.count
        bob.execute_command("DEBUG", "LOG", "again")
        until(lambda: "again" in server.log.text())
        text = describe(server, logged)
    lines = text.splitlines()
    assert lines[0] == f"server {server.url}"
    assert lines[1] == "faults that hit:"
    assert lines[2].startswith("  COMMAND XACK ERROR")
    assert lines[2].endswith("1 times, bob")
    assert "XDEL" not in text
    assert "  bob (id=" in text
    assert "] PING -> 'PONG'" in text.partition("  alice (id=")[2]
    assert "XACK orders billing 1-0 -> (error) LOADING" in text
    assert "SETINFO" not in text
    assert (
        "stream orders: 1 entries\n  group billing: 1 pending, lag 0\n    1-0 pending with Bob for " in text
    )
    assert "DEBUG LOG: again" in text.partition("\nlog:\n")[2]
    assert "hello" not in text


def test_only_the_last_commands_the_first_streams_and_pending_entries_are_shown(server):
    with server.client() as client:
        for number in range(40):
            client.xadd("orders", {"n": "x" * 1000}, id=f"{number + 1}-0")
        client.xgroup_create("orders", "billing", "0")
        client.xreadgroup("billing", "Bob", {"orders": ">"})
        for number in range(12):
            client.xadd(f"orders:{number}", {"n": 1})
        client.xadd(b"\xff", {"n": 1})
        text = describe(server, 0)
    assert "the last 30 commands by client:" in text
    assert "    … and 35 more\n" in text
    assert "… and 4 more streams" in text
    assert max(map(len, text.splitlines())) == 200
    text.encode()


def test_a_reset_and_a_restart_do_not_end_the_watch(server):
    with server.client() as client:
        client.get("before")
    server.reset()
    with server.client() as client:
        client.get("between")
    assert "between" in describe(server, 0)
    assert "GET before" not in describe(server, 0)
    server.restart()
    with server.client() as client:
        client.get("after")
    assert "GET after" in describe(server, 0)


def test_the_history_of_an_entry_comes_from_the_watch(server):
    with server.client() as client:
        client.xadd("orders", {"n": 1}, id="1-0")
        assert [each.what for each in server.history("orders", "1-0")] == ["added"]
        with server.recording():
            for _ in range(1000):  # the watch drops what is older
                client.ping()
            client.xadd("orders", {"n": 1}, id="2-0")
            client.xgroup_create("orders", "billing", "0")
            client.xreadgroup("billing", "Bob", {"orders": ">"})
            server.assert_delivered_once("orders", "billing")


def test_a_server_that_is_gone_does_not_hide_the_failure(server):
    with server.client() as client:
        client.shutdown(nosave=True)
    until(lambda: not server.running)
    text = describe(server, 0)
    assert "the server does not say more" in text or "broke" in text
    assert "Ready to accept connections" in text


def test_a_failed_test_has_a_section_and_a_passed_one_has_none(tmp_path):
    code = """
    def test_that_fails(rillet, rillet_factory):
        other = rillet_factory()
        other.client(client_name="another").ping()
        rillet.set("k", "v")
        assert rillet.get("k") == b"w"

    def test_that_passes(rillet):
        rillet.set("passed", "v")

    @pytest.mark.xfail(strict=True)
    def test_that_is_expected_to_fail(rillet):
        rillet.set("expected", "v")
        assert False

    @pytest.fixture
    def broken(rillet):
        rillet.set("setup", "v")
        raise ValueError

    def test_with_a_broken_set_up(broken): pass

    def test_without_a_server():
        assert False

    def test_with_a_server_that_it_stops(rillet, rillet_server):
        rillet_server.stop()
        assert "this failure" == "is seen"
    """
    run = run_tests(tmp_path, code, "-n", "1")
    assert "3 failed, 1 passed, 1 xfailed, 1 error" in run.output
    assert run.output.count("- Rillet -") == 4
    assert "GET k -> 'v'" in run.output
    assert "another (id=" in run.output
    assert "SET setup v" in run.output
    assert "SET passed" not in run.output
    assert "SET expected" not in run.output
    assert "AssertionError: assert 'this failure' == 'is seen'" in run.output
    off = run_tests(tmp_path, code, ini="rillet_report = no\n")
    assert "- Rillet -" not in off.output
    assert "AssertionError: assert 'this failure' == 'is seen'" in off.output


def test_a_fault_that_a_reset_has_ended_does_not_hide_the_others(server):
    server.fault(command="GET", error="OOM").start()
    server.reset()
    with server.fault(command="SET", error="OOM"), server.client() as client:
        with pytest.raises(redis.ResponseError):
            client.set("k", "v")
        shown = describe(server, 0)
    assert "no longer there, cleared by a reset or a restart: COMMAND GET ERROR OOM" in shown
    assert "COMMAND SET ERROR OOM: 1 times" in shown
