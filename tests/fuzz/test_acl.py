"""Rules of a user against command lines: every way to run a command says the same, and what is denied does nothing.

An input is a text: its first line holds the rules, the others are command lines. RILLET_PEER_REDIS8 names a
redis-server of 8.x, whose ACL DRYRUN is compared then.
"""

import os
from collections.abc import Iterator, Sequence
from random import Random

import pytest
from fuzz.engine import Fuzzer, parse_lines, show_line
from fuzz.grammar import PREPARE, Maker
from fuzz.victim import HARMFUL, Victim
from support.servers import ServerProcess, start_server
from support.wire import Node, Wire

from rillet.commands.spec.command import CATEGORIES, REGISTRY

fuzzer = Fuzzer("acl", by_line=True)

ALL = [name for name, command in REGISTRY.items() if command.is_served and not command.ours]
# Changes the connection, the data of all or what a script sends: only asked about, as what is harmful.
_ASKED_ONLY = HARMFUL.union(
    (
        "reset module|unload bgrewriteaof save hello select multi exec discard watch client|tracking swapdb flushall "
        "flushdb eval eval_ro evalsha evalsha_ro fcall fcall_ro unsubscribe punsubscribe sunsubscribe wait waitaof"
    ).split()
)
# Redis finds other keys in a command line that the command itself refuses.
_OTHERWISE_IN_REDIS = {"xreadgroup", "xread"}
_DENIED = (b"NOPERM", b"ACL failure in script")


@pytest.fixture(scope="module")
def victim() -> Iterator[Victim]:
    with Victim() as victim:
        yield victim


@pytest.fixture(scope="module")
def peer() -> Iterator[ServerProcess | None]:
    if not os.environ.get("RILLET_PEER_REDIS8"):
        yield None
        return
    with start_server("redis8") as server:
        yield server


def name_of(words: list[bytes]) -> str:
    """The name of the command in the table; "" for an unknown one."""
    first = words[0].decode("latin-1").lower()
    full = f"{first}|{words[1].decode('latin-1').lower()}" if len(words) > 1 else first
    return full if full in REGISTRY else first if first in REGISTRY else ""


def login(victim: Victim, user: str) -> Wire:
    wire = victim.wire()
    assert wire.call("AUTH", user, "x").value == b"OK"
    return wire


def is_denied(text: bytes) -> bool:
    return text.startswith(b"-") and any(word in text for word in _DENIED)


def check(victim: Victim, peer: ServerProcess | None, text: bytes) -> None:
    rules, *lines = parse_lines(text)
    if rules[0] != b"RULES":
        return
    with victim.ready() as admin:
        admin.call("ACL", "DELUSER", "one", "two")
        made = admin.call("ACL", "SETUSER", "one", "reset", "on", "nopass", *rules[1:])
        if peer is not None:
            with peer.wire() as wire:
                theirs = wire.call("ACL", "SETUSER", "one", "reset", "on", "nopass", *rules[1:])
                assert made == theirs, "the rules"
                if made.kind != "-":
                    assert admin.call("ACL", "GETUSER", "one") == wire.call("ACL", "GETUSER", "one")
                    compare(admin, wire, lines)
                wire.call("ACL", "DELUSER", "one")
        if made.kind == "-":
            return
        extra = ("+multi", "+discard", "+eval")
        assert admin.call("ACL", "SETUSER", "two", "reset", "on", "nopass", *rules[1:], *extra).value == b"OK"
        for words in PREPARE:
            admin.send(*words)
        for _ in PREPARE:
            admin.read()
        with login(victim, "one") as one, login(victim, "two") as two:
            for line in lines:
                check_line(admin, one, two, line)
    victim.assert_well()


def compare(ours: Wire, theirs: Wire, lines: list[list[bytes]]) -> None:
    """Both servers say the same of each line, word for word."""
    for line in lines:
        if name_of(line) not in _OTHERWISE_IN_REDIS:
            mine, other = ours.call("ACL", "DRYRUN", "one", *line), theirs.call("ACL", "DRYRUN", "one", *line)
            assert mine == other, show_line(line)


def check_line(admin: Wire, one: Wire, two: Wire, line: list[bytes]) -> None:
    name = name_of(line)
    verdict = admin.call("ACL", "DRYRUN", "one", *line)
    if not name or name in _ASKED_ONLY or verdict.kind == "-":
        return
    denied = verdict.value != b"OK"
    if denied:
        # No key expires between two looks at the data; what is denied waits for nothing.
        admin.call("DEBUG", "CLOCK", "FREEZE")
    try:
        check_ways(admin, one, two, line, verdict, denied=denied)
    finally:
        if denied:
            admin.call("DEBUG", "CLOCK", "RESUME")


def check_ways(admin: Wire, one: Wire, two: Wire, line: list[bytes], verdict: Node, *, denied: bool) -> None:
    before = admin.call("DEBUG", "DIGEST")
    # A transaction that is not run, first: it has no effect either way.
    two.call("MULTI")
    queued = two.call(*line)
    two.call("DISCARD")
    if queued.value == b"QUEUED" or is_denied(queued.encode()):
        assert is_denied(queued.encode()) == denied, ("MULTI", line, verdict, queued)
    scripted = two.call("EVAL", "return redis.pcall(unpack(ARGV))", 0, *line).encode()
    if denied:
        assert scripted.startswith(b"-"), ("EVAL", line, verdict, scripted)
        assert admin.call("DEBUG", "DIGEST") == before, ("EVAL", line, "has an effect")
    else:
        assert not is_denied(scripted), ("EVAL", line, scripted)
    real = one.call(*line).encode()
    assert is_denied(real) == denied, (line, verdict, real)
    if denied:
        assert admin.call("DEBUG", "DIGEST") == before, (line, "has an effect")


_PATTERNS = (b"*", b"k", b"s*", b"?2", b"[a-m]*", b"l", b"h?", b"", b"nokey", b"n*")


def rules(chance: Random, *, depth: int = 0) -> list[bytes]:
    """Rules as an administrator may write them, a few of them wrong."""
    found = []
    for _ in range(chance.randint(1, 7)):
        sign = chance.choice((b"+", b"+", b"-"))
        kind = chance.randrange(12)
        if kind <= 1:
            found.append(sign + b"@" + chance.choice((*CATEGORIES, "all", "all", "nosuch")).encode())
        elif kind <= 4:
            name = chance.choice(list(REGISTRY)).encode()
            found.append(sign + (name.upper() if chance.random() < 0.1 else name))
        elif kind == 5:
            # The first argument of a command that has no subcommands.
            found.append(
                b"+"
                + chance.choice((b"get|k", b"select|0", b"set|k", b"xadd|s", b"object|freq", b"nosuch|x"))
            )
        elif kind <= 8:
            found.append(
                chance.choice((b"~", b"~", b"%R~", b"%W~", b"%RW~", b"%X~", b"%~", b"%R", b"%", b"%wR~"))
                + chance.choice(_PATTERNS)
            )
        elif kind == 9:
            found.append(b"&" + chance.choice((b"*", b"chan", b"c*", b"")))
        elif kind == 10 and depth == 0:
            found.append(b"(" + b" ".join(rules(chance, depth=1)) + b")")
        else:
            found.append(
                chance.choice(
                    (
                        b"allcommands", b"nocommands", b"allkeys", b"resetkeys", b"allchannels", b"resetchannels",
                    )
                    if depth or chance.random() < 0.7
                    else (b"clearselectors", b"nopass", b"sanitize-payload", b"nosuch")
                )
            )  # fmt: skip
    if chance.random() < 0.5:
        found.insert(0, chance.choice((b"+@all", b"allkeys", b"+@read", b"+@write", b"~s*")))
    return found


def generate(chance: Random, corpus: Sequence[bytes]) -> bytes:
    maker = Maker(chance, ALL, oddness=0.0)
    lines = [[b"RULES", *rules(chance)], *(maker.line() for _ in range(25))]
    return b"".join(show_line(words) + b"\n" for words in lines)


@fuzzer.seeds
def test_known_rules_hold_on_every_way(victim, peer, seed):
    fuzzer.check_once(lambda text: check(victim, peer, text), seed)


def test_generated_rules_hold_on_every_way(victim, peer):
    fuzzer.run(lambda text: check(victim, peer, text), generate)
