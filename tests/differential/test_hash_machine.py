"""Generated runs of commands for hashes and bits, the same to every server: replies, effects, and files."""

import shutil

import pytest
from differential.pairs import PAIRS
from differential.strategies.commands import fuzz_settings
from differential.strategies.hash_commands import KEYS, LAST_LOOKS, hash_runs
from hypothesis import given
from support.aof import FOLDER, AofTail, flags_for, rewrite
from support.servers import start_server

MACHINES = [*PAIRS, ("rillet-7.2", "valkey")]


def compare(run, mine, real):
    for at, (got, wanted) in enumerate(zip(mine, real, strict=True)):
        if got != wanted:
            played = "\n".join(f"    {' '.join(words)}" for words in run[: at + 1])
            pytest.fail(f"after\n{played}\n  real   {wanted}\n  rillet {got}", pytrace=False)


def play(wire, run):
    wire.call("FLUSHALL")
    return [wire.call(*command) for command in run]


@pytest.mark.parametrize(("rillet", "real"), MACHINES)
@pytest.mark.parametrize("protocol", [2, 3])
def test_a_run_of_hash_and_bit_commands_is_answered_alike(running, real, rillet, protocol):
    with running(real).wire(protocol) as theirs, running(rillet).wire(protocol) as ours:

        @fuzz_settings(25)
        @given(hash_runs(40))
        def check(run):
            everything = run + LAST_LOOKS
            compare(everything, play(ours, everything), play(theirs, everything))

        check()


@pytest.fixture(scope="module")
def logged():
    """By kind: a server with a readable AOF, and what it appends."""
    started = {
        kind: start_server(kind, *flags_for(kind)) for kind in ("rillet", "rillet-7.0", "redis7", "redis810")
    }
    yield {kind: AofTail(server) for kind, server in started.items()}
    for server in started.values():
        server.discard()


@pytest.mark.parametrize(("rillet", "real"), [("rillet", "redis810"), ("rillet-7.0", "redis7")])
def test_a_run_is_propagated_alike(logged, rillet, real):
    @fuzz_settings(25)
    @given(hash_runs(30))
    def check(run):
        compare(run, logged[rillet].of_each(run), logged[real].of_each(run))

    check()


def looks(wire):
    return [sorted(wire.call("HGETALL", key).plain() or []) for key in KEYS if key != "b"] + [
        wire.call(command, key).plain() for key in KEYS for command in ("TYPE", "PEXPIRETIME")
    ]


@pytest.mark.parametrize("rewritten", [False, True], ids=["appended", "rewritten"])
@pytest.mark.parametrize("peer", ["redis7", "redis810", "valkey", "rillet"])
def test_files_of_rillet_are_loaded(tmp_path, peer, rewritten):
    # What a server of 7.0 is to read is written as 7.0 writes it.
    with start_server("rillet-7.0" if peer == "redis7" else "rillet", *flags_for("rillet")) as writer:
        with writer.wire() as wire:
            wire.call("HSET", "h", *(word for number in range(200) for word in (f"f{number}", f"v{number}")))
            wire.call("HINCRBYFLOAT", "h", "n", "1.5")
            wire.call("HDEL", "h", "f7", "f8")
            wire.call("HSET", "g", "a", "x" * 100, "", "1")
            wire.call("PEXPIREAT", "g", 33_177_117_420_123)
            wire.call("SETBIT", "b", 77, 1)
            if rewritten:
                rewrite(wire)
            expected = looks(wire)
        writer.stop()
        shutil.copytree(writer.dir / FOLDER, tmp_path / FOLDER)
    with start_server(peer, *flags_for(peer), folder=tmp_path) as reader, reader.wire() as wire:
        assert looks(wire) == expected


@pytest.mark.parametrize("preamble", ["yes", "no"])
@pytest.mark.parametrize("rewritten", [False, True], ids=["appended", "rewritten"])
def test_times_of_fields_survive_a_restart(tmp_path, preamble, rewritten):
    flags = (*flags_for("rillet"), "--aof-use-rdb-preamble", preamble)
    with start_server("rillet", *flags) as writer:
        with writer.wire() as wire:
            wire.call("HSET", "h", "a", 1, "b", 2, "c", 3)
            wire.call("HPEXPIREAT", "h", 33_177_117_420_123, "FIELDS", 1, "a")
            wire.call("HGETEX", "h", "PXAT", 33_177_117_420_124, "FIELDS", 1, "b")
            wire.call("HSETEX", "h", "PX", 1, "FIELDS", 1, "c", "gone soon")
            wire.call("HINCRBYFLOAT", "h", "a", "0.5")
            if rewritten:
                rewrite(wire)
        writer.stop()
        shutil.copytree(writer.dir / FOLDER, tmp_path / FOLDER)
    with start_server("rillet", *flags, folder=tmp_path) as reader, reader.wire() as wire:
        times = wire.call("HPEXPIRETIME", "h", "FIELDS", 3, "a", "b", "c").plain()
        assert times == [33_177_117_420_123, 33_177_117_420_124, -2]
        assert wire.call("HMGET", "h", "a", "b", "c").plain() == [b"1.5", b"2", None]
