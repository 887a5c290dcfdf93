"""Generated runs of commands for sets, sorted sets and HyperLogLogs, the same to every server."""

import shutil

import pytest
from differential.pairs import PAIRS
from differential.strategies.commands import fuzz_settings
from differential.strategies.set_commands import ENCODINGS, KEYS, LAST_LOOKS, SCANS, UNORDERED, set_runs
from hypothesis import given
from support.aof import FOLDER, AofTail, flags_for, rewrite
from support.masks import sort_elements
from support.servers import start_server, ticking_fast

MACHINES = [*PAIRS, ("rillet-7.2", "valkey")]
SMALL = {
    "set-max-intset-entries": 3,
    "set-max-listpack-entries": 4,
    "zset-max-listpack-entries": 4,
    "zset-max-listpack-value": 5,
}
DEFAULTS = {
    "set-max-intset-entries": 512,
    "set-max-listpack-entries": 128,
    "zset-max-listpack-entries": 128,
    "zset-max-listpack-value": 64,
}


def compare(run, mine, real):
    for at, (got, wanted) in enumerate(zip(mine, real, strict=True)):
        if got != wanted:
            played = "\n".join(f"    {' '.join(words)}" for words in run[: at + 1])
            pytest.fail(f"after\n{played}\n  real   {wanted}\n  rillet {got}", pytrace=False)


def configure(wire, settings):
    for name, value in settings.items():
        wire.call("CONFIG", "SET", name, value)  # 7.0 has not all of them


def play(wire, run):
    wire.call("FLUSHALL")
    return [comparable(command, wire.call(*command)) for command in run]


def comparable(command, reply):
    """The reply with what has no order in order."""
    if command[0] in UNORDERED:
        return sort_elements(reply)
    if command[0] in SCANS and reply.children is not None:
        words = [child.value for child in reply.children[1].children]
        step = 2 if command[0] == "ZSCAN" else 1
        return sorted(words[at : at + step] for at in range(0, len(words), step))
    return reply


@pytest.mark.parametrize(("rillet", "real"), MACHINES)
@pytest.mark.parametrize("protocol", [2, 3])
def test_a_run_of_set_commands_is_answered_alike(running, real, rillet, protocol):
    looks = LAST_LOOKS if real == "redis7" else LAST_LOOKS + ENCODINGS
    with running(real).wire(protocol) as theirs, running(rillet).wire(protocol) as ours, ticking_fast(theirs):
        configure(theirs, SMALL)
        configure(ours, SMALL)

        @fuzz_settings(40)
        @given(set_runs(40))
        def check(run):
            everything = run + looks
            compare(everything, play(ours, everything), play(theirs, everything))

        try:
            check()
        finally:
            configure(theirs, DEFAULTS)
            configure(ours, DEFAULTS)


@pytest.fixture(scope="module")
def logged():
    """By kind: a server with a readable AOF, and what it appends."""
    started = {
        kind: start_server(kind, *flags_for(kind)) for kind in ("rillet", "rillet-7.0", "redis7", "redis810")
    }
    for kind, server in started.items():
        if kind == "valkey":
            with server.wire() as wire:
                wire.call("CONFIG", "SET", "lazyfree-lazy-server-del", "no")
    yield {kind: AofTail(server) for kind, server in started.items()}
    for server in started.values():
        server.discard()


@pytest.mark.parametrize(("rillet", "real"), [("rillet", "redis810"), ("rillet-7.0", "redis7")])
def test_a_run_is_propagated_alike(logged, rillet, real):
    @fuzz_settings(40)
    @given(set_runs(30))
    def check(run):
        compare(run, logged[rillet].of_each(run), logged[real].of_each(run))

    check()


def looks(wire):
    sets = [sorted(wire.call("SMEMBERS", key).plain()) for key in ("s", "t")]
    scores = [wire.call("ZRANGE", key, 0, -1, "WITHSCORES").plain() for key in ("y", "z")]
    others = [wire.call(command, key).plain() for key in KEYS for command in ("TYPE", "PEXPIRETIME")]
    return [
        sets,
        [list(map(comparable_score, words)) for words in scores],
        others,
        wire.call("GET", "h").plain(),
    ]


def comparable_score(word):
    """7.0 spells scores with more digits."""
    try:
        return float(word)
    except ValueError:
        return word


@pytest.mark.parametrize("rewritten", [False, True], ids=["appended", "rewritten"])
@pytest.mark.parametrize("peer", ["redis7", "redis810", "valkey", "rillet"])
def test_files_of_rillet_are_loaded(tmp_path, peer, rewritten):
    with start_server("rillet", *flags_for("rillet")) as writer:
        with writer.wire() as wire:
            wire.call("SADD", "s", *range(100), "a", "", "\x00\r\n")
            wire.call("SPOP", "s", 3)
            wire.call("SPOP", "s")
            wire.call("SADD", "t", *(f"member {number}" for number in range(200)))
            wire.call("ZADD", "z", *(word for number in range(200) for word in (number / 7, f"m{number}")))
            wire.call("ZPOPMIN", "z", 5)
            wire.call("ZADD", "z", "INCR", "0.1", "m100")
            wire.call("ZADD", "y", "inf", "a", "-inf", "", "1e300", "c")
            wire.call("PEXPIREAT", "y", 33_177_117_420_123)
            wire.call("PFADD", "h", "a", "b")
            if rewritten:
                rewrite(wire)
            expected = looks(wire)
            digest = wire.call("DEBUG", "DIGEST").plain()
        writer.stop()
        shutil.copytree(writer.dir / FOLDER, tmp_path / FOLDER)
    with start_server(peer, *flags_for(peer), folder=tmp_path) as reader, reader.wire() as wire:
        assert looks(wire) == expected
        if peer == "rillet":
            assert wire.call("DEBUG", "DIGEST").plain() == digest
