"""DEBUG CONTROL: what a control connection may do, and for how long."""

import contextlib
import threading

import pytest
from support.wire import Wire

import rillet.testing
from rillet.testing.control import Control


@pytest.fixture(scope="module")
def running():
    with rillet.testing.Server() as server:
        yield server


@pytest.fixture
def control(running):
    running.reset()
    with Wire(running.port) as wire:
        assert wire.call("DEBUG", "CONTROL").plain() == b"OK"
        yield wire


def test_an_entry_with_a_new_idempotent_id_is_added_by_a_control_connection(control):
    for iid in ("one", "two"):
        assert control.call("XADD", "s", "IDMP", "p", iid, "*", "f", "v").plain() is not None
    assert control.call("XLEN", "s").plain() == 2


def test_options_of_a_control_connection_mean_what_they_mean_to_others(control):
    assert "LIMIT" in str(control.call("XTRIM", "s", "MAXLEN", 1, "LIMIT", 5))
    script = "return redis.pcall('XADD', 's', 'IDMP', 'p', 'i', '1-1', 'f', 'v')"
    assert control.call("EVAL", script, 0).kind == "-"


def test_seeds_hold_every_idempotent_entry(tmp_path):
    path = tmp_path / "seed.txt"
    path.write_text("XADD s IDMP p one * f v\nXADD s IDMP p two * f v\n")
    with rillet.testing.Server(seed=path) as server, server.client() as client:
        assert client.xlen("s") == 2


def test_reset_makes_a_plain_connection_of_a_control_connection(running, control):
    running._command(b"ACL", b"SETUSER", b"bob", b"on", b"nopass", b"+client|list", b"+reset")
    assert control.call("RESET").plain() == b"RESET"
    control.call("CLIENT", "SETNAME", "mine")
    control.call("AUTH", "bob", "any")
    assert control.call("GET", "k").header.startswith(b"NOPERM")
    assert "name=mine" in str(control.call("CLIENT", "LIST"))


def test_a_control_connection_that_is_killed_before_it_is_exempt_is_made_again(running, monkeypatch):
    run, killed = Control.run, []

    def kill_first(self, *words):
        if words == (b"DEBUG", b"CONTROL") and not killed:
            with Wire(running.port) as sentinel:
                killed.append(sentinel.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").plain())
        return run(self, *words)

    monkeypatch.setattr(Control, "run", kill_first)
    with contextlib.closing(running._connect()) as control, Wire(running.port) as sentinel:
        assert killed == [1]
        assert sentinel.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").plain() == 0
        assert control.run(b"PING") == b"PONG"


def test_threads_that_control_a_server_share_one_connection(running, monkeypatch):
    connect, made = running._connect, []

    def slowly():
        made.append(threading.Thread(target=running.reset))
        if len(made) == 1:
            made[0].start()
            made[0].join(0.2)  # it waits for the connection that is being made here
        return connect()

    running._release_control()
    monkeypatch.setattr(running, "_connect", slowly)
    running.reset()
    made[0].join()
    assert len(made) == 1
