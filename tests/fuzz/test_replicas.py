"""Replicas that send anything: the master shows no bug, forgets them, and serves a true replica afterwards.

A step is a line: a command; `raw` and its bytes; `cut N` and a command without its last N bytes; `new` and `drop` for the
connection; `write` and `read` for what the master does meanwhile. `@id` and `@offset` are the master's own.
"""

import contextlib
from collections.abc import Iterator, Sequence
from random import Random

import pytest
from fuzz.engine import Fuzzer, parse_lines, show_line
from fuzz.victim import Victim
from support.deployments.replication import FakeReplica, info
from support.until import until
from support.wire import Wire, encode_command

fuzzer = Fuzzer("replicas", by_line=True)

_NUMBERS = (*b"0 1 -1 -2 2 65536 9223372036854775807 9223372036854775808 x 1.5".split(), b"")
_OFFSETS = (b"@offset", b"@offset", b"-1", b"0", b"1", *_NUMBERS)
_HISTORIES = (b"@id", b"@id", b"?", b"a" * 40, b"a" * 39, b"", b"\xff" * 40, b"x" * 5000)
_CAPABILITIES = (b"eof", b"psync2", b"rdb-channel-repl", b"rillet-7.0", b"", b"x" * 3000)
_REPLCONF = {
    b"listening-port": _NUMBERS,
    b"ip-address": (b"10.0.0.1", b"", b"\r\n", b"x" * 300),
    b"capa": _CAPABILITIES,
    b"version": (b"7.0.15", b"8.10.2", b"99999999999.0", b"x", b"", b"7..0"),
    b"ACK": _OFFSETS,
    b"FACK": _NUMBERS,
    b"GETACK": (b"*", b"x", b""),
    b"rdb-only": _NUMBERS,
    b"rdb-filter-only": (b"functions", b"", b"x", b'"'),
    b"rdb-channel": _NUMBERS,
    b"main-ch-client-id": _NUMBERS,
    b"nosuch": (b"1",),
}
_OTHERS = tuple(
    line.split()
    for line in (
        b"PING", b"SET k v", b"GET k", b"MULTI", b"EXEC", b"DISCARD", b"SUBSCRIBE a", b"MONITOR", b"RESET", b"QUIT", b"HELLO 3",
        b"WAIT 1 1", b"BLPOP nothing 0", b"CLIENT REPLY OFF", b"CLIENT KILL TYPE replica", b"CLIENT NO-EVICT on", b"ROLE",
        b"CLIENT TRACKING on BCAST", b"XREAD BLOCK 0 STREAMS s $", b"SELECT 1", b"WATCH k", b"FAILOVER ABORT", b"EVAL x 0",
        b"DEBUG RELOAD", b"BGSAVE", b"FLUSHALL", b"SCRIPT KILL", b"CLIENT UNBLOCK 1", b"CLIENT LIST", b"INFO replication",
    )
)  # fmt: skip


@pytest.fixture(scope="module")
def victim() -> Iterator[Victim]:
    with Victim("--repl-diskless-sync-delay", 0, "--repl-backlog-size", 16384) as victim:
        yield victim


def check(victim: Victim, text: bytes) -> None:
    server = victim.server
    with victim.ready() as honest:
        own = {b"@id": info(server, "master_replid"), b"@offset": info(server, "master_repl_offset")}
        links = [victim.wire()]
        for words in parse_lines(text):
            with contextlib.suppress(OSError):  # the server may have closed it
                _take_step(victim, honest, links, [own.get(word, word) for word in words])
        for link in links:
            link.close()
        # Bytes of chance make words into lines, and these are commands as well: a failover waits for ever.
        with victim.wire() as wire:
            wire.call("FAILOVER", "ABORT")
        until(lambda: info(server, "connected_slaves") == "0")
    with contextlib.closing(FakeReplica(server, "eof", "psync2")) as replica:
        assert replica.full_sync()[2].startswith(b"REDIS")
    until(lambda: info(server, "connected_slaves") == "0")
    victim.assert_well()


def _take_step(victim: Victim, honest: Wire, links: list[Wire], words: list[bytes | str]) -> None:
    link = links[-1]
    match words:
        case [b"new"]:
            links.append(victim.wire())
        case [b"drop"]:
            link.close()
            links[-1] = victim.wire()
        case [b"write"]:
            honest.send("SET", "written", "x" * 3000)
        case [b"read"]:
            link._socket.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                link._socket.recv(1 << 16)
            link._socket.setblocking(True)
        case [b"raw", data]:
            link.send_raw(data)
        case [b"cut", count, *command]:
            link.send_raw(encode_command(*command)[: -int(count)])
        case _:
            link.send_raw(encode_command(*words))


def generate(chance: Random, corpus: Sequence[bytes]) -> bytes:
    """Write the steps of one to three replicas that introduce themselves, sync and acknowledge, in any order."""
    lines = []
    for _ in range(chance.choice((3, 6, 12, 25))):
        kind = chance.random()
        if kind < 0.4:
            option = chance.choice((b"ACK", *_REPLCONF))
            words = [b"REPLCONF", option, chance.choice(_REPLCONF[option])]
            if chance.random() < 0.2:
                words += [chance.choice((*_REPLCONF, b"")), chance.choice(_NUMBERS)][: chance.randint(1, 2)]
        elif kind < 0.6:
            words = [
                b"PSYNC",
                chance.choice(_HISTORIES),
                chance.choice(_OFFSETS),
                *chance.choice(((), (), (b"FAILOVER",), (b"x",))),
            ]
            words = chance.choice((words, words, words, [b"SYNC"], words[:2]))
        elif kind < 0.75:
            words = chance.choice(([b"new"], [b"drop"], [b"write"], [b"write"], [b"read"]))
        elif kind < 0.8:
            words = [
                b"raw",
                bytes(chance.choice(b"*$+-:\r\n\0\xff19 x") for _ in range(chance.randint(1, 20))),
            ]
        else:
            words = chance.choice(_OTHERS)
        if chance.random() < 0.05 and words[0].isupper():
            words = [b"cut", b"%d" % chance.randint(1, 6), *words]
        lines.append(show_line(words))
    return b"\n".join(lines) + b"\n" + (chance.choice(corpus) if chance.random() < 0.1 else b"")


@fuzzer.seeds
def test_a_known_replica_harms_nothing(victim, seed):
    fuzzer.check_once(lambda text: check(victim, text), seed)


def test_no_replica_harms_its_master(victim):
    fuzzer.run(lambda text: check(victim, text), generate)
