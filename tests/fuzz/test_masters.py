"""Masters that send anything: the replica shows no bug, bounds its memory, and is a server of its own afterwards.

A step is a line: `handshake` answers up to PSYNC as a master does; `answer` reads one command and sends these bytes; `send`
sends these bytes; `drop` waits for the next link. All other lines are commands of the stream.
"""

import contextlib
from collections.abc import Iterator, Sequence
from random import Random

import pytest
from fuzz.engine import CORPUS, Fuzzer, mutate, parse_lines, show_line
from fuzz.grammar import Maker
from fuzz.victim import HARMFUL, Victim
from support.deployments.replication import FakeMaster, Peer
from support.until import until
from support.wire import ConnectionClosedError, encode_command

from rillet.commands.spec.command import REGISTRY

fuzzer = Fuzzer("masters", by_line=True)

COMMANDS = [
    name for name, command in REGISTRY.items() if command.is_served and name not in HARMFUL | {"migrate"}
]
_HISTORIES = (b"a" * 40, b"b" * 40, b"a" * 39, b"", b"?", b"\xff" * 40)
_NUMBERS = (b"0", b"1", b"100", b"-1", b"9223372036854775807", b"9223372036854775808", b"x", b"", b"1.5")
_ANSWERS = (b"+OK", b"+PONG", b"-NOAUTH x", b"-NOPERM x", b"-ERR x", b"$-1", b":1", b"*0", b"", b"+", b"\0", b"-LOADING x",
            b"-MASTERDOWN x", b"-NOMASTERLINK x", b"-BUSY x", b"+" + b"x" * 3000)  # fmt: skip
_FILES = [path.read_bytes() for path in sorted((CORPUS / "rdb").iterdir())]


@pytest.fixture(scope="module")
def victim() -> Iterator[Victim]:
    with Victim("--repl-timeout", 60, "--proto-max-bulk-len", "1mb") as victim:
        yield victim


def check(victim: Victim, text: bytes) -> None:
    with FakeMaster() as master, victim.ready() as wire:
        assert wire.call("REPLICAOF", "127.0.0.1", master.port).value == b"OK"
        peer = Peer(master._listener.accept()[0])
        for words in parse_lines(text):
            if words == [b"drop"]:
                peer.close()
                peer = Peer(master._listener.accept()[0])
                continue
            with contextlib.suppress(
                OSError, ConnectionClosedError, AssertionError
            ):  # the replica closed it, or waits
                _take_step(peer, words)
        peer.close()
        until(lambda: wire.call("REPLICAOF", "NO", "ONE").value == b"OK")  # it may be loading
        assert wire.call("SET", "its", "own").value == b"OK"
    victim.assert_well()


def _take_step(peer: Peer, words: list[bytes]) -> None:
    peer._socket.settimeout(2)
    match words:
        case [b"handshake"]:
            while (asked := peer.command())[0] != b"psync" and b"ACK" not in asked:  # a link in sync goes on
                peer.send_raw(b"+PONG\r\n" if asked[0] == b"ping" else b"+OK\r\n")
        case [b"answer", data]:
            peer.command()
            peer.send_raw(data)
        case [b"send", data]:
            peer.send_raw(data)
        case _:
            peer.send_raw(encode_command(*words))


def generate(chance: Random, corpus: Sequence[bytes]) -> bytes:
    """Write the steps of one or two links: a handshake, an answer to PSYNC, a snapshot, a stream, any of them damaged."""
    lines: list[list[bytes]] = []
    for link in range(chance.choice((1, 1, 2))):
        if link:
            lines.append([b"drop"])
        if chance.random() < 0.15:
            lines += [[b"answer", chance.choice(_ANSWERS) + b"\r\n"] for _ in range(chance.randint(1, 6))]
        lines.append([b"handshake"])
        lines += [[b"send", piece] for piece in _pieces(chance, _sync(chance))]
        maker = Maker(chance, COMMANDS, oddness=chance.choice((0.0, 0.05, 0.2)))
        for _ in range(chance.choice((0, 5, 20))):
            words = maker.line()
            if chance.random() < 0.1:
                words = chance.choice(
                    ([b"MULTI"], [b"EXEC"], [b"SELECT", b"1"], [b"REPLCONF", b"GETACK", b"*"], [b"PING"])
                )
            if chance.random() < 0.03:
                words = [b"send", mutate(chance, encode_command(*words))]
            lines.append(words)
    return b"".join(show_line(words) + b"\n" for words in lines) + (
        chance.choice(corpus) if chance.random() < 0.05 else b""
    )


def _sync(chance: Random) -> bytes:
    if chance.random() < 0.2:
        other = b"+CONTINUE %b" % chance.choice(_HISTORIES)
        return chance.choice((other, other, b"+CONTINUE", *_ANSWERS)) + b"\r\n"
    answer = b"+FULLRESYNC %b %b\r\n" % (b"a" * 40, b"100")
    if chance.random() < 0.2:
        answer = b"+FULLRESYNC %b %b\r\n" % (chance.choice(_HISTORIES), chance.choice(_NUMBERS))
    file = chance.choice(_FILES)
    if chance.random() < 0.4:
        file = mutate(chance, file)
    size = b"%d" % len(file) if chance.random() < 0.8 else chance.choice(_NUMBERS)
    mark = chance.choice((b"m" * 40, b"m" * 40, b"m" * 39, b""))
    found = chance.choice((b"$%b\r\n%b" % (size, file), b"$EOF:%b\r\n%b%b" % (mark, file, mark)))
    whole = answer + b"\n" * chance.choice((0, 0, 1)) + found
    return mutate(chance, whole) if chance.random() < 0.1 else whole


def _pieces(chance: Random, data: bytes) -> list[bytes]:
    places = sorted(chance.randrange(len(data) + 1) for _ in range(chance.choice((0, 1, 3))))
    return [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]


@fuzzer.seeds
def test_a_known_master_harms_nothing(victim, seed):
    fuzzer.check_once(lambda text: check(victim, text), seed)


def test_no_master_harms_its_replica(victim):
    fuzzer.run(lambda text: check(victim, text), generate)
