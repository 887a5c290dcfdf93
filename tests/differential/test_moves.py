"""What each line of a script moves besides its reply: keyspace events, changes since the last save, hits and misses."""

import re
from contextlib import contextmanager
from itertools import groupby

import pytest
from differential.judge import CASES, NEWER
from differential.pairs import PAIRS
from support.script import IMPATIENCE, NO_REPLY, Player
from support.servers import on_demand, start_server
from support.wire import Wire, encode_command

# Every event, also those of new and missing keys.
EVENTS = "KEAmn"
COUNTED = re.compile(rb"^(rdb_changes_since_last_save|keyspace_hits|keyspace_misses):(\d+)", re.MULTILINE)
# What these lines move is seen after a later line.
ASYNCHRONOUS = {">", "raw"}
# When 7.0 refuses a directive it sets the old text again, in which A hides n.
FORGETS_NEW_KEYS = "events of a restored key that was of another type"
LOOK = encode_command("INFO", "stats", "persistence")
# Where a key expires while the case runs, the looks take the time that it has.
TIMELESS = [
    case for case in CASES + NEWER if not any(step.rest.startswith("expired ") for step in case.steps)
]
FILES = {name: list(cases) for name, cases in groupby(TIMELESS, key=lambda case: case.file)}


class Watcher(Player):
    """Plays cases with a listener to all events of the keyspace."""

    def __init__(self, port, protocol):
        super().__init__(port, protocol, patience=IMPATIENCE)
        self.control.call("CONFIG", "SET", "notify-keyspace-events", EVENTS)
        self.listener = Wire(port, 3)
        self.listener.call("PSUBSCRIBE", "__keyevent@*")
        self.counters = {}
        self.look()

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


def moves(port, case):
    """(line, what it moved) of each line of a case."""
    player = Watcher(port, case.protocols[0])
    out = []
    is_stuck = False
    try:
        for step in case.steps:
            # What is waited for in vain, as where a version lacks the command, is waited for once.
            if not (is_stuck and step.verb in {"wait", "<"}):
                is_stuck = any(answer.reply == NO_REPLY for answer in player.play([step])) or is_stuck
            if step.verb == "wait":  # asks again and again
                player.look()
            elif step.verb not in ASYNCHRONOUS:
                out.append((step, player.look()))
    finally:
        player.close()
    return out


@contextmanager
def start_lazy(kind):
    """A server whose keys expire only when a command meets them."""
    with start_server(kind, "--enable-debug-command", "yes") as server:
        with server.wire() as wire:
            wire.call("DEBUG", "SET-ACTIVE-EXPIRE", "0")
        yield server


@pytest.fixture(scope="module")
def lazy():
    with on_demand(start_lazy) as get:
        yield get


@pytest.mark.parametrize(("mine", "real"), PAIRS)
@pytest.mark.parametrize("name", FILES)
def test_a_line_moves_what_it_moves_in_the_real_server(name, mine, real, lazy):
    wrong = []
    for case in FILES[name]:
        if case.title == FORGETS_NEW_KEYS and real == "redis7":
            continue
        got, wanted = (moves(lazy(kind).port, case) for kind in (mine, real))
        wrong += [
            f"{name}, {case.title}, line {step.line}: {step.text}\n  real   {there}\n  rillet {here}"
            for (step, here), (_, there) in zip(got, wanted, strict=True)
            if here != there
        ]
    assert not wrong, "\n".join(wrong)
