"""The order of checks before a command runs, and what a bug in a handler does to the server: nothing."""

import pytest
from support.live import eventually
from support.servers import start_server

from rillet.commands.runtime import client as runtime_client

ABORTED = b"EXECABORT Transaction discarded because of previous errors."


def error(wire, *words) -> bytes:
    node = wire.call(*words)
    assert node.kind == "-", str(node)
    return node.value


# Lookup and arity


def test_debug_is_refused_before_authentication_is_asked_for():
    flags = ("--requirepass", "x", "--enable-debug-command", "no")
    with start_server("rillet", *flags) as server, server.wire() as wire:
        assert error(wire, "DEBUG", "JMAP").startswith(b"ERR DEBUG command not allowed.")
        assert wire.call("AUTH", "x").value == b"OK"
        assert error(wire, "DEBUG", "JMAP").startswith(b"ERR DEBUG command not allowed.")


# Transactions


def test_a_command_is_queued_without_a_look_at_the_watched_keys(wire, monkeypatch):
    looked_at = []
    was_modified = runtime_client.was_modified
    monkeypatch.setattr(
        runtime_client, "was_modified", lambda watched: looked_at.append(watched.key) or was_modified(watched)
    )
    wire.call("WATCH", *map(str, range(100)))
    wire.call("MULTI")
    for _ in range(3):
        assert wire.call("SET", "k", "v").value == b"QUEUED"
    wire.send_raw(3 * b"*1\r\n$4\r\nPING\r\n")
    assert [wire.read().value for _ in range(3)] == [b"QUEUED"] * 3
    assert looked_at == []
    assert len(wire.call("EXEC").plain()) == 6


# CLIENT PAUSE


def test_a_pause_postpones_everything_and_keeps_the_order(server, wire):
    with server.wire() as pauser:
        pauser.call("CLIENT", "PAUSE", "100000", "ALL")
        wire.send_raw(b"SET k 1\r\nINCR k\r\nGET k\r\n")
        eventually(lambda: len(server.inside.pause.postponed) == 1)
        pauser.send("CLIENT", "UNPAUSE")  # as in Redis it has to wait, too
        eventually(lambda: len(server.inside.pause.postponed) == 2)
        assert wire.pending() == b""
        server.run_inside(server.inside.pause.end)
        assert pauser.read().value == b"OK"
        assert [wire.read().value for _ in range(3)] == [b"OK", b"2", b"2"]


def test_a_pause_ends_by_itself(server, wire):
    wire.call("CLIENT", "PAUSE", "20")
    assert wire.call("PING").value == b"PONG"
    assert server.inside.pause.until == 0


def test_a_postponed_client_that_disconnects_runs_nothing_later(server, wire):
    writer = server.wire()
    wire.call("CLIENT", "PAUSE", "100000", "WRITE")
    writer.send("SET", "k", "v")
    eventually(lambda: len(server.inside.pause.postponed) == 1)
    writer.close()
    eventually(lambda: not server.inside.pause.postponed)
    wire.call("CLIENT", "UNPAUSE")
    assert wire.call("EXISTS", "k").plain() == 0


# A bug of ours


@pytest.fixture
def buggy_xlen(server):
    entry = server.inside.dispatcher.find([b"XLEN"])
    handler = entry.handler

    def bug(client, args):
        raise ZeroDivisionError("the bug")

    entry.handler = bug
    yield
    entry.handler = handler


def test_a_bug_returns_an_internal_error_and_every_connection_survives(server, buggy_xlen):
    lines = []
    server.inside.log.listener = lines.append
    with server.wire() as wire, server.wire() as other:
        other.call("PING")
        wire.send_raw(b"SET k v\r\nXLEN s\r\nGET k\r\n")
        assert wire.read().value == b"OK"
        assert wire.read().encode() == b"-ERR internal error\r\n"
        assert wire.read().value == b"v"
        assert other.call("PING").value == b"PONG"
    text = "".join(lines)
    assert "Internal error in 'xlen'" in text
    assert "ZeroDivisionError: the bug" in text
    assert "test_dispatcher.py" in text
    assert server.info("unexpected_error_replies") == "1"


def test_a_bug_inside_exec_is_one_element(server, buggy_xlen, wire):
    wire.do("MULTI; XLEN s; SET k v")
    assert wire.call("EXEC").encode() == b"*2\r\n-ERR internal error\r\n+OK\r\n"
    assert wire.call("PING").value == b"PONG"


def test_a_bug_in_a_callback_is_logged_and_the_loop_continues(server, wire):
    lines = []
    server.inside.log.listener = lines.append

    def bug():
        raise ZeroDivisionError("in a callback")

    server.inside.loop.call_soon_threadsafe(bug)
    eventually(lambda: "ZeroDivisionError: in a callback" in "".join(lines))
    assert wire.call("PING").value == b"PONG"


def test_a_bug_in_the_cron_is_logged_and_the_cron_continues(server, wire, monkeypatch):
    lines = []
    server.inside.log.listener = lines.append
    seen = []

    def bug():
        seen.append(True)
        raise ZeroDivisionError("in the cron")

    monkeypatch.setattr(server.inside.active_expiry, "step", bug)
    eventually(lambda: len(seen) > 1)
    assert "ZeroDivisionError: in the cron" in "".join(lines)
    assert wire.call("PING").value == b"PONG"
