"""What commands leave in the append-only file and move besides: keyspace events, changes, hits and misses."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import zip_longest

import pytest
from differential.judge import FILES
from differential.pairs import PAIRS
from support.aof import AofTail, Words, aof_files, flags_for, read_commands, rewrite
from support.masks import Masks
from support.script import IMPATIENCE, NO_REPLY, Player
from support.servers import BETWEEN, ServerProcess, on_demand, start_server
from support.wire import Wire, encode_command

# Times of this century, in milliseconds; what a command says itself (TIME 5) is compared as it is.
NOW = re.compile(rb"1[5-9]\d{11}")
# Every event, also those of new, missing, overwritten and changed keys, of which 7.0 does not know the last two.
EVENTS, EVENTS_OF_7_0 = "KEAmnoc", "KEAmn"
COUNTED = re.compile(rb"^(rdb_changes_since_last_save|keyspace_hits|keyspace_misses):(\d+)", re.MULTILINE)
# What these lines move is seen after a later line.
ASYNCHRONOUS = {">", "raw"}
# When 7.0 refuses a directive it sets the old text again, in which A hides n.
FORGETS_NEW_KEYS = "events of a restored key that was of another type"
CLASSES_OF_8_8 = "field_events"  # a file of scripts
LOOK = encode_command("INFO", "stats", "persistence")
# Scripts whose commands say nothing about the data.
NOT_ABOUT_DATA = {"client_list", "connection", "introspection", "protocol", "pubsub", "requests"}


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


class Watcher(Player):
    """Plays cases with a listener to all events of the keyspace. Replies are not compared: what never comes is given up early."""

    def __init__(self, logged, protocol):
        super().__init__(logged.server.port, protocol, patience=IMPATIENCE)
        self.logged = logged
        if self.control.call("CONFIG", "SET", "notify-keyspace-events", EVENTS).kind == "-":
            self.control.call("CONFIG", "SET", "notify-keyspace-events", EVENTS_OF_7_0)
        self.listener = Wire(self.port, 3)
        self.listener.call("PSUBSCRIBE", "__keyevent@*")
        self.counters = {}
        self.look()
        logged.tail.take()

    def close(self):
        self.listener.close()
        super().close()

    def look(self):
        """The events since the last look, and how far the counters moved."""
        self.control.send_raw(LOOK)
        self.listener.send("PING")
        counters = {name: int(value) for name, value in COUNTED.findall(self.control.read().value)}
        before = self.counters  # greater before CONFIG RESETSTAT and SAVE
        moved = {
            name: value - before[name] if value >= before.get(name, value + 1) else value
            for name, value in counters.items()
        }
        self.counters = counters
        events = []
        while (node := self.listener.read()).kind == ">":
            events.append(b" ".join(child.value for child in node.children[2:]))
        return events, moved

    def watched(self, steps):
        """Each step, what it moved, or None where that is seen later, and what it appended."""
        is_stuck = False
        for step in steps:
            # What is waited for in vain, as where a version lacks the command, is waited for once.
            if not (is_stuck and step.verb in {"wait", "<"}):
                is_stuck = any(answer.reply == NO_REPLY for answer in self.play([step])) or is_stuck
            moved = None
            if step.verb not in ASYNCHRONOUS:
                moved = self.look()
            yield step, None if step.verb == "wait" else moved, self.logged.effects(self.masks)


def watch(logged, case):
    player = Watcher(logged, case.protocols[0])
    try:
        return list(player.watched(case.steps))
    finally:
        player.close()


def first_effect_apart(got, wanted):
    """A line about the first effect that differs. They are compared in one row: an expired key may be deleted by either of two steps."""
    rows = [[(step, effect) for step, _, effects in each for effect in effects] for each in (got, wanted)]
    for mine, real in zip_longest(*rows, fillvalue=(None, b"nothing")):
        if mine[1] != real[1]:
            step = mine[0] or real[0]
            return [f"line {step.line}: {step.text}\n  real   {real[1]!r}\n  rillet {mine[1]!r}"]
    return []


@pytest.mark.parametrize(("mine", "real"), PAIRS)
@pytest.mark.parametrize("name", FILES)
def test_a_line_moves_and_appends_what_it_does_on_the_real_server(name, mine, real, logged):
    wrong = []
    for case in FILES[name]:
        got, wanted = (watch(logged(kind), case) for kind in (mine, real))
        found = []
        # Where a key expires while the case runs, the looks take the time that it has.
        is_timeless = not any(step.rest.startswith("expired ") for step in case.steps)
        forgets = (real == "redis7" and case.title == FORGETS_NEW_KEYS) or (
            real != "redis810" and name == CLASSES_OF_8_8
        )
        if is_timeless and not forgets:
            found = [
                f"line {step.line}: {step.text}\n  real   {there}\n  rillet {here}"
                for (step, here, _), (_, there, _) in zip(got, wanted, strict=True)
                if here != there and not (step.between and real in BETWEEN)
            ]
        if name not in NOT_ABOUT_DATA:
            found += first_effect_apart(got, wanted)
        wrong += [f"{name}, {case.title}, {each}" for each in found]
    assert not wrong, "\n".join(wrong)


def appended_by(one: Logged, keys: str, *commands: str) -> list[bytes]:
    """What commands append, in any order, that find these keys past their time."""
    with one.server.wire() as wire:
        wire.call("FLUSHALL")
        for key in keys:
            wire.call("SET", key, "v", "PX", "1")
        wire.call("DEBUG", "SLEEP", "0.02")
        one.tail.take()
        for line in commands:
            wire.call(*line.split())
        return sorted(one.effects(Masks()))


@pytest.mark.parametrize(("mine", "real"), PAIRS)
@pytest.mark.parametrize("line", ["SCAN 0 COUNT 100", "RANDOMKEY"])
def test_keys_that_had_expired_are_deleted_one_by_one_by_what_looks_at_any_key(logged, line, mine, real):
    for commands in ([line], ["MULTI", line, "EXEC"]):
        appended, wanted = (appended_by(logged(kind), "abc", *commands) for kind in (mine, real))
        assert appended == wanted
        assert [each for each in appended if each.startswith(b"DEL")] == [b"DEL a", b"DEL b", b"DEL c"]


@pytest.mark.parametrize(("mine", "real"), PAIRS)
@pytest.mark.parametrize("options", ["TYPE list", "TYPE nosuch", "MATCH a", "MATCH a TYPE list", "MATCH x"])
def test_scan_deletes_expired_keys_that_it_does_not_return(logged, options, mine, real):
    appended, wanted = (appended_by(logged(kind), "ab", f"SCAN 0 {options}") for kind in (mine, real))
    assert appended == wanted


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
            rewrite(wire)
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
