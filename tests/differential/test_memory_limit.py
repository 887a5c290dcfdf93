"""Which commands are refused over ``maxmemory``, against real servers; with which words: scripts/memory_limit.script."""

from typing import Any

import pytest
from differential.pairs import PAIRS
from support.servers import ServerProcess

from rillet.commands.spec.command import REGISTRY
from rillet.server.families import load_all

load_all()

OOM = b"OOM command not allowed when used memory > 'maxmemory'."
SHORT, PLENTY = ("CONFIG", "SET", "maxmemory", "1"), ("CONFIG", "SET", "maxmemory", "0")


def refused(server: ServerProcess, names: list[str]) -> set[str]:
    """Which commands answer OOM when they come with as few words as they take."""
    found = set()
    with server.wire() as other:
        other.call(*SHORT)
        try:
            for name in names:
                with server.wire() as wire:
                    words = [*name.split("|"), *["1"] * (abs(REGISTRY[name].arity) - len(name.split("|")))]
                    if wire.call(*words).value == OOM:
                        found.add(name)
        finally:
            other.call(*PLENTY)
    return found


# They end the connection or the server, or wait.
NOT_ASKED = set("shutdown quit sync psync monitor debug failover replicaof slaveof config|set".split())


@pytest.mark.parametrize(("mine", "real"), PAIRS)
def test_the_same_commands_are_refused_as_by_the_real_server(running, mine, real):
    with running(real).wire() as wire:
        known = {name.decode() for name in wire.call("COMMAND", "LIST").plain()}
    names = sorted(
        name for name, command in REGISTRY.items() if command.is_served and name in known - NOT_ASKED
    )
    assert len(names) > 250
    theirs = refused(running(real), names)
    assert len(theirs) > 50
    assert refused(running(mine), names) == theirs


ROOM = 1_500_000
LONG = "x" * 5_000_000
# `LONG` stands for a word that is longer than the room that is left; MULTI goes before some.
LONG_WORDS = [
    "SET k LONG", "SET LONG v", "GET LONG", "DEL LONG", "XADD s * f LONG", "XACK s g LONG", "XDEL s LONG", "XRANGE LONG - +",
    "XREAD STREAMS LONG 0", "XREADGROUP GROUP g LONG STREAMS s >", "XGROUP CREATE s LONG 0", "XGROUP CREATECONSUMER s g LONG",
    "XCLAIM s g c 0 LONG", "XTRIM LONG MAXLEN 1", "RPUSH l LONG", "LPOP LONG", "LREM l 0 LONG", "LMOVE l LONG LEFT LEFT",
    "BLPOP LONG 0.01", "SADD s2 LONG", "HSET h f LONG", "HDEL h LONG", "ZADD z 1 LONG", "ZREM z LONG", "APPEND k LONG", "INCR LONG",
    "EXPIRE LONG 1", "RENAME LONG a", "COPY a LONG", "RESTORE k 0 LONG", "SORT LONG", "PFADD p LONG", "PFCOUNT LONG",
    "EVAL GET 0 LONG", "EVAL SET 0 LONG", "EVAL_RO GET 0 LONG", "SCRIPT LOAD LONG", "FUNCTION LOAD LONG", "FCALL LONG 0",
    "SUBSCRIBE LONG", "PSUBSCRIBE LONG", "SSUBSCRIBE LONG", "UNSUBSCRIBE LONG", "PUBLISH c LONG", "PING LONG", "ECHO LONG",
    "CLIENT SETNAME LONG", "WATCH LONG", "AUTH LONG", "NOSUCH LONG", "CONFIG GET LONG", "ACL SETUSER LONG",
    "MULTI SET k LONG", "MULTI GET LONG", "MULTI XADD s * f LONG", "MULTI EVAL GET 0 LONG",
]  # fmt: skip


def is_refused(process: ServerProcess, text: str) -> list[bool]:
    """Whether the command, and EXEC, are refused for want of memory."""
    with process.wire(3) as wire:
        wire.call("CONFIG", "SET", "maxmemory", "0")
        wire.call("FLUSHALL")
        wire.call("SET", "a", "b")
        wire.call("RPUSH", "l", "a")
        wire.call("XGROUP", "CREATE", "s", "g", "0", "MKSTREAM")
        memory = dict(
            line.split(b":")[:2] for line in wire.call("INFO", "memory").value.splitlines() if b":" in line
        )
        used = int(memory[b"used_memory"]) - int(memory[b"mem_not_counted_for_evict"])
        wire.call("CONFIG", "SET", "maxmemory", used + ROOM)
        meanings = {
            "LONG": LONG,
            "GET": "return redis.call('get','x')",
            "SET": "return redis.call('set','x','1')",
        }
        first, *rest = text.removeprefix("MULTI ").split()
        words = [first, *(meanings.get(word, word) for word in rest)]
        if not text.startswith("MULTI "):
            answers = [wire.call(*words)]
        else:
            wire.call("MULTI")
            answers = [wire.call(*words), wire.call("EXEC")]
    with process.wire() as wire:
        wire.call("CONFIG", "SET", "maxmemory", "0")
    return [answer.encode().startswith((b"-OOM", b"-EXECABORT")) for answer in answers]


@pytest.mark.parametrize("text", LONG_WORDS)
def test_the_words_of_a_command_count_before_it_runs(text: str, running: Any) -> None:
    assert is_refused(running("rillet"), text) == is_refused(running("redis810"), text)


@pytest.mark.parametrize("kind", ["rillet", "redis810"])
def test_keys_are_evicted_for_the_words_of_a_command(kind: str, running: Any) -> None:
    with running(kind).wire() as wire:
        wire.call("FLUSHALL")
        for number in range(20):
            wire.call("SET", f"k{number}", "x" * 100_000)
        memory = wire.call("INFO", "memory").value
        used = int(memory.split(b"used_memory:")[1].split()[0])
        wire.call("CONFIG", "SET", "maxmemory-policy", "allkeys-random", "maxmemory", used + 200_000)
        assert wire.call("ECHO", "x" * 1_000_000).body is not None
        assert 1 <= wire.call("DBSIZE").plain() <= 19
        wire.call("CONFIG", "SET", "maxmemory-policy", "noeviction", "maxmemory", "0")
        wire.call("FLUSHALL")
