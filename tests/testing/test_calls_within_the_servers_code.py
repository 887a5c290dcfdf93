"""Signal handlers, finalizers and forks that come while a thread runs the server's code."""

import gc
import os
import signal
from typing import Any

import pytest
import redis
from support.background import aside

import rillet.testing
from rillet.testing import memory_transport
from rillet.testing.memory_transport import Channel


@pytest.fixture(scope="module")
def running():
    with rillet.testing.Server(transport="memory") as server:
        yield server


@pytest.fixture
def server(running):
    running.reset()
    return running


@pytest.fixture
def client(server):
    with server.client() as client:
        client.ping()
        yield client


@pytest.fixture
def within(monkeypatch):
    """A function that has another one run once, in the middle of the server's code, and returns a list for its result."""
    deliver = Channel.deliver

    def run(act: Any) -> list[Any]:
        results: list[Any] = []

        def deliver_and_act(channel: Channel) -> None:
            monkeypatch.setattr(Channel, "deliver", deliver)
            results.append(act())
            deliver(channel)

        monkeypatch.setattr(Channel, "deliver", deliver_and_act)
        return results

    return run


def test_no_finalizer_runs_in_the_servers_code(client, within):
    """A pipeline that still watches sends UNWATCH when it is collected, and would wait for its own thread."""
    results = within(gc.isenabled)
    client.set("k", "v")
    assert results == [False]
    assert gc.isenabled()


def test_a_collector_that_the_program_has_disabled_stays_so(client):
    gc.disable()
    try:
        client.set("k", "v")
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_call_within_the_servers_code_fails_instead_of_waiting_for_its_own_thread(server, client, within):
    def call() -> str:
        with server.client(socket_timeout=60) as other, pytest.raises(redis.ConnectionError) as failure:
            other.ping()
        return str(failure.value)

    results = []
    for words in (["SET", "k", "v"], ["CONFIG", "GET", "port"]):  # the second runs in the thread of the loop
        results.append(within(call))
        client.execute_command(*words)
    assert [len(each) for each in results] == [1, 1]
    assert all("in the middle of the server's code" in each for [each] in results)
    with server.client() as other:
        assert other.get("k") == b"v"


def test_a_handler_may_call_the_server_whenever_its_signal_comes(server, client, monkeypatch):
    hold = memory_transport._hold_signals
    signals = [signal.SIGTERM]

    def hold_late() -> Any:
        if signals:
            signal.raise_signal(signals.pop())
        return hold()

    with server.client(socket_timeout=5) as other:
        other.ping()
        before = signal.signal(signal.SIGTERM, lambda *_: other.incr("n"))
        try:
            monkeypatch.setattr(memory_transport, "_hold_signals", hold_late)
            client.set("k", "v")
        finally:
            signal.signal(signal.SIGTERM, before)
    assert client.get("n") == b"1"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_by_another_thread_has_the_signal_handlers_and_the_collector(client, within):
    def fork() -> int:
        child = os.fork()
        if not child:
            os._exit(2 * (signal.getsignal(signal.SIGTERM) is not handle) + (not gc.isenabled()))
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def handle(*_: object) -> None:
        pass

    before = signal.signal(signal.SIGTERM, handle)
    try:
        results = within(lambda: aside(fork).result(60))
        client.set("k", "v")
        assert results == [0]
        assert signal.getsignal(signal.SIGTERM) is handle
    finally:
        signal.signal(signal.SIGTERM, before)
