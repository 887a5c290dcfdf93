"""Generated runs over all types: what is left survives a restart, a rewrite in the middle, a reload, DUMP and RESTORE."""

import pytest
from differential.strategies.all_types import contents, runs_of_all_types
from differential.strategies.commands import fuzz_settings
from hypothesis import given
from hypothesis import strategies as st
from support.deployments.replication import play
from support.live import LiveServer, eventually
from support.servers import start_server


@pytest.fixture(scope="module")
def logged():
    with LiveServer(appendonly=True) as server:
        yield server


def rewrites_are_over(wire) -> bool:
    return b"aof_rewrite_in_progress:0" in wire.call("INFO", "persistence").value


@fuzz_settings(30)
@given(run=runs_of_all_types(60, fields=True), rewrite_after=st.integers(0, 60))
def test_what_was_written_around_a_rewrite_is_there_after_a_restart(logged, run, rewrite_after):
    with logged.wire() as wire:
        wire.call("FLUSHALL")
        for number, command in enumerate(run):
            if number == rewrite_after:
                with logged.wire() as other:
                    other.call("BGREWRITEAOF")
            wire.call(*command)
        wire.call("DISCARD")
        before = contents(wire, fields=True)
        eventually(lambda: rewrites_are_over(wire))
    logged.restart()
    with logged.wire() as wire:
        assert contents(wire, fields=True) == before


@fuzz_settings(30)
@given(run=runs_of_all_types(60, fields=True))
def test_a_reload_changes_nothing(logged, run):
    with logged.wire() as wire:
        wire.call("FLUSHALL")
        play(wire, run)
        wire.call("DISCARD")
        before = contents(wire, fields=True)
        assert wire.call("DEBUG", "RELOAD").value == b"OK"
        assert contents(wire, fields=True) == before


@pytest.fixture(scope="module", params=[("redis7", 10), ("valkey", 11)], ids=["redis7", "valkey"])
def pair(request):
    peer, version = request.param
    with LiveServer(rdb_version=version) as mine, start_server(peer) as other:
        yield mine, other


@fuzz_settings(30)
@given(run=runs_of_all_types(60))
def test_every_value_is_taken_over_by_a_real_server_and_taken_back(pair, run):
    with pair[0].wire() as wire, pair[1].wire() as other:
        wire.call("FLUSHALL")
        other.call("FLUSHALL")
        play(wire, run)
        wire.call("DISCARD")
        before = contents(wire)
        copy(wire, other, before)
        assert contents(other) == before
        wire.call("FLUSHALL")
        copy(other, wire, before)
        assert contents(wire) == before


def copy(source, target, keys) -> None:
    for (database, key), (_, _, when) in keys.items():
        source.call("SELECT", database)
        target.call("SELECT", database)
        dump = source.call("DUMP", key).value
        reply = target.call("RESTORE", key, max(when, 0), dump, "ABSTTL")
        assert reply.value == b"OK", (key, reply)
