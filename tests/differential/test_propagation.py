"""What commands leave in the append-only file, against real servers."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import zip_longest

import pytest
from differential.judge import CASES, NEWER
from differential.pairs import PAIRS
from support.aof import AofTail, Words, aof_files, flags_for, read_commands
from support.masks import Masks
from support.script import IMPATIENCE, NO_REPLY, Case, Player, Step
from support.servers import ServerProcess, on_demand, start_server

# Times of this century, in milliseconds; what a command says itself (TIME 5) is compared as it is.
NOW = re.compile(rb"1[5-9]\d{11}")
# Scripts whose commands say something about the data.
NOT_ABOUT_DATA = {"connection", "introspection", "protocol", "pubsub"}
SCRIPTS = [case for case in CASES + NEWER if case.file not in NOT_ABOUT_DATA]


class Logged:
    """A server with an AOF, and what it has appended. Keys expire only when a command meets them."""

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        with server.wire() as wire:
            assert wire.call("DEBUG", "SET-ACTIVE-EXPIRE", "0").value == b"OK"
        self.tail = AofTail(server)

    def effects(self, masks: Masks) -> list[bytes]:
        """The commands appended since the last look, times and automatic ids masked; SELECT left out."""
        return [
            b" ".join(mask_word(word, masks) for word in words)
            for words in self.tail.take()
            if words[0] != b"SELECT"
        ]


def mask_word(word: bytes, masks: Masks) -> bytes:
    if word in masks.seen and len(word) > 10:
        return b"<id:%d>" % masks.seen[word]
    return b"<ms>" if NOW.fullmatch(word) else word


@contextmanager
def start_logged(kind: str) -> Iterator[Logged]:
    with start_server(kind, *flags_for(kind), "--enable-debug-command", "yes") as server:
        yield Logged(server)


@pytest.fixture(scope="session")
def logged():
    with on_demand(start_logged) as get:
        yield get


def play_script(logged: Logged, case: Case) -> list[tuple[Step, list[bytes]]]:
    """Each step of a case with what it appended."""
    # Replies are not compared, and what waits for a key to expire waits in vain.
    player = Player(logged.server.port, case.protocols[0], patience=IMPATIENCE)
    logged.tail.take()
    out = []
    is_stuck = False
    try:
        for step in case.steps:
            # What is waited for in vain, as where a version lacks the command, is waited for once.
            if not (is_stuck and step.verb in {"wait", "<"}):
                answers = list(player.play([step]))
                is_stuck = is_stuck or any(answer.reply == NO_REPLY for answer in answers)
            out.append((step, logged.effects(player.masks)))
    finally:
        player.close()
    return out


def compare(steps: list[tuple[str, list[bytes], list[bytes]]], kind: str) -> None:
    """Fails at the first effect that differs, and names the steps that led to it.

    Effects are compared in one row: an expired key may be deleted between two steps or by the second one.
    """
    mine = [(text, effect) for text, effects, _ in steps for effect in effects]
    real = [(text, effect) for text, _, effects in steps for effect in effects]
    for got, wanted in zip_longest(mine, real, fillvalue=("the end", b"nothing")):
        if got[1] != wanted[1]:
            texts = [text for text, *_ in steps]
            until = max((texts.index(text) for text in (got[0], wanted[0]) if text in texts), default=0)
            lines = [f"    {text}" for text in texts[: until + 1]]
            lines += [f"  {kind:7} {wanted[1]!r} ({wanted[0]})", f"  rillet  {got[1]!r} ({got[0]})"]
            pytest.fail("after\n" + "\n".join(lines), pytrace=False)


@pytest.mark.parametrize(("mine", "real"), PAIRS)
@pytest.mark.parametrize("words", [("SCAN", "0", "COUNT", "100"), ("RANDOMKEY",)])
def test_keys_that_had_expired_are_deleted_one_by_one_by_what_looks_at_any_key(logged, words, mine, real):
    appended = []
    for kind in (mine, real):
        with logged(kind).server.wire() as wire:
            wire.call("FLUSHALL")
            for key in ("a", "b", "c"):
                wire.call("SET", key, "v", "PX", "1")
            wire.call("DEBUG", "SLEEP", "0.02")
            logged(kind).tail.take()
            wire.call(*words)
            alone = sorted(logged(kind).effects(Masks()))
            for key in ("a", "b", "c"):
                wire.call("SET", key, "v", "PX", "1")
            wire.call("DEBUG", "SLEEP", "0.02")
            logged(kind).tail.take()
            wire.call("MULTI")
            wire.call(*words)
            wire.call("EXEC")
            appended.append((alone, sorted(logged(kind).effects(Masks()))))
    assert appended[0] == appended[1]
    assert appended[0][0] == [b"DEL a", b"DEL b", b"DEL c"]


@pytest.mark.parametrize(("mine", "real"), PAIRS)
@pytest.mark.parametrize("options", ["TYPE list", "TYPE nosuch", "MATCH a", "MATCH a TYPE list", "MATCH x"])
def test_scan_deletes_expired_keys_that_it_does_not_return(logged, options, mine, real):
    appended = []
    for kind in (mine, real):
        with logged(kind).server.wire() as wire:
            wire.call("FLUSHALL")
            for key in ("a", "b"):
                wire.call("SET", key, "v", "PX", "1")
            wire.call("DEBUG", "SLEEP", "0.02")
            logged(kind).tail.take()
            wire.call("SCAN", "0", *options.split())
            appended.append(sorted(logged(kind).effects(Masks())))
    assert appended[0] == appended[1]


@pytest.mark.parametrize(("mine", "real"), PAIRS)
@pytest.mark.parametrize("case", [pytest.param(case, id=f"{case.file}-{case.title}") for case in SCRIPTS])
def test_a_script_is_propagated_as_by_the_real_server(logged, case, mine, real):
    wanted, got = (play_script(logged(kind), case) for kind in (real, mine))
    compare(
        [
            (f"line {step.line}: {step.text}", effects, written)
            for (step, effects), (_, written) in zip(got, wanted, strict=True)
        ],
        real,
    )


def test_a_rewritten_file_holds_what_a_real_server_writes(logged):
    # The commands that a rewrite makes of streams, group by group, byte by byte.
    run = [
        *"XADD s 1-0 f v|XADD s 2-0 f v|XADD s 3-0 f v|XDEL s 2-0|XGROUP CREATE s g 0".split("|"),
        *"XGROUP CREATE s h $ ENTRIESREAD 3|XGROUP CREATECONSUMER s g idle".split("|"),
        *"XREADGROUP GROUP g a COUNT 1 STREAMS s >|XCLAIM s g b 0 3-0 FORCE TIME 5 JUSTID".split("|"),
        *"XGROUP CREATE empty g $ MKSTREAM|SET k v|PEXPIREAT s 33177117420123".split("|"),
    ]
    bases = {}
    for kind in ("redis7", "redis810", "rillet"):
        one = logged(kind)
        with one.server.wire() as wire:
            wire.call("FUNCTION", "FLUSH")  # other tests share the server
            wire.call("FLUSHALL")
            for line in run:
                wire.call(*line.split())
            wire.call("BGREWRITEAOF")
            while (
                b"aof_rewrite_in_progress:1" in wire.call("INFO", "persistence").value
                or b"aof_rewrite_scheduled:1" in wire.call("INFO", "persistence").value
            ):
                pass
            bases[kind] = sorted(by_key(read_commands(aof_files(one.tail.folder)[0].read_bytes())))
            one.tail.offset = 0
            wire.call("FLUSHALL")
            one.tail.take()
    assert bases["redis7"] == bases["redis810"]
    assert bases["rillet"] == bases["redis7"]


def by_key(commands: list[Words]) -> list[list[bytes]]:
    """The commands of each key in their order (the order of keys is a server's own)."""
    keys: dict[bytes, list[bytes]] = {}
    for words in commands:
        key = words[2] if words[0] == b"XGROUP" else words[1]
        keys.setdefault(key, []).append(b" ".join(mask_word(word, Masks()) for word in words))
    return list(keys.values())
