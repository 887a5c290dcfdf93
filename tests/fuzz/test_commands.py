"""Command lines over the whole table: no bug in the replies or the log, and the files hold what the memory holds."""

from collections.abc import Iterator, Sequence
from random import Random

import pytest
from fuzz.engine import Fuzzer, parse_lines, show_line
from fuzz.grammar import PREPARE, Maker
from fuzz.victim import HARMFUL, Victim
from support.wire import Wire

from rillet.commands.spec.command import REGISTRY

fuzzer = Fuzzer("commands", by_line=True)

_NOT = HARMFUL | {"migrate"}  # which waits for another server
COMMANDS = [name for name, command in REGISTRY.items() if command.is_served and name not in _NOT]
# Most of what has handlers of its own is data.
_DATA = [
    name
    for name in COMMANDS
    if {"write", "readonly"} & REGISTRY[name].flags and name not in {"flushall", "flushdb"}
]


@pytest.fixture(scope="module")
def victim() -> Iterator[Victim]:
    # The limit keeps a SETBIT at the last bit of 512 MB from filling all the time.
    flags = ("--appendonly", "yes", "--appendfsync", "no", "--rdb-version", 14, "--proto-max-bulk-len", "1mb")
    with Victim(*flags) as victim:
        yield victim


def check(victim: Victim, text: bytes) -> None:
    commands = parse_lines(text)
    with victim.ready() as wire:
        # Time stands still: what expires during a case would make the digests differ.
        for words in ("DEBUG CLOCK FREEZE", "FLUSHALL", "FUNCTION FLUSH", "SCRIPT FLUSH", "CONFIG RESETSTAT"):
            wire.call(*words.split())
        for reply in victim.session(commands):
            assert b"internal error" not in reply.encode(), reply
        victim.assert_well()
        delete_unpropagated_consumers(wire)
        before = wire.call("DEBUG", "DIGEST")
        assert wire.call("DEBUG", "LOADAOF").value == b"OK"
        assert wire.call("DEBUG", "DIGEST") == before, "the AOF holds something else"
        assert wire.call("DEBUG", "RELOAD").value == b"OK"
        assert wire.call("DEBUG", "DIGEST") == before, "the dump file holds something else"
    victim.assert_well()


def delete_unpropagated_consumers(wire: Wire) -> None:
    """XCLAIM and XAUTOCLAIM that claim nothing make a consumer which is in no file, as Redis' do."""
    for line in wire.call("INFO", "keyspace").value.splitlines()[1:]:
        wire.call("SELECT", line.partition(b":")[0][2:])
        for key in wire.call("KEYS", "*").plain():
            if wire.call("TYPE", key).value != b"stream":
                continue
            for group in wire.call("XINFO", "GROUPS", key).plain():
                for consumer in wire.call("XINFO", "CONSUMERS", key, group[1]).plain():
                    if consumer[3] == 0 and consumer[-1] == -1:
                        wire.call("XGROUP", "DELCONSUMER", key, group[1], consumer[1])
    wire.call("SELECT", 0)


def generate(chance: Random, corpus: Sequence[bytes]) -> bytes:
    """Write a session: values of all types, then what comes to it; now and then a transaction."""
    data = Maker(chance, _DATA, oddness=chance.choice((0.0, 0.03, 0.1)))
    other = Maker(chance, COMMANDS, oddness=chance.choice((0.0, 0.05, 0.2)))
    lines = []
    for _ in range(chance.choice((15, 40, 80))):
        lines.append((data if chance.random() < 0.8 else other).line())
        if chance.random() < 0.02:
            lines += [[b"MULTI"], *(data.line() for _ in range(chance.randint(1, 4))), [b"EXEC"]]
    text = b"".join(show_line(words) + b"\n" for words in PREPARE + lines)
    return text + (chance.choice(corpus) if corpus and chance.random() < 0.05 else b"")


@fuzzer.seeds
def test_a_known_session_shows_no_bug(victim, seed):
    fuzzer.check_once(lambda text: check(victim, text), seed)


def test_generated_sessions_show_no_bug(victim):
    fuzzer.run(lambda text: check(victim, text), generate)
