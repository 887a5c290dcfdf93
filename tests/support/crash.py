"""A load of several clients, a kill -9 in the midst of it, and the check that nothing confirmed is gone.

Each worker has a connection of its own and keeps a journal: what it sent, when, and what was answered. What the
clients do at the same time has no order that they could know; but an answer that came before another command was
sent does, and that is enough: `Journal.check` says exactly which states are possible after the restart.
"""

import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from support.wire import ConnectionClosedError, Wire

KEY, GROUP = "s", "g"


@dataclass
class Step:
    """One command: its words, when it was sent, and when what was answered (None: nothing)."""

    worker: str
    words: tuple[str, ...]
    sent: float
    answered: float = float("inf")
    reply: Any = None
    error: str | None = None  # an error reply confirms nothing, and none is due


@dataclass
class State:
    """What the server holds: the payload of each entry, who owns each pending one, where the group stands."""

    entries: dict[str, str] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    last_delivered: tuple[int, int] = (0, 0)


def read_state(wire: Wire) -> State:
    """The state, having made sure that its parts agree."""
    fields = wire.call("XINFO", "STREAM", KEY, "FULL", "COUNT", "0").plain()
    stream = dict(zip(fields[::2], fields[1::2], strict=True))
    entries = {}
    for text, payload in stream[b"entries"]:
        assert payload[::2] == [b"who", b"filler"], f"torn entry {text!r}: {payload!r}"
        entries[text.decode()] = payload[1].decode()
        assert payload[3] == b"x" * (hash_of(payload[1]) % 40)
    assert stream[b"length"] == len(entries)
    (group,) = (dict(zip(each[::2], each[1::2], strict=True)) for each in stream[b"groups"])
    owners: dict[str, str] = {}
    for consumer in group[b"consumers"]:
        facts = dict(zip(consumer[::2], consumer[1::2], strict=True))
        for pending in facts[b"pending"]:
            text = pending[0].decode()
            assert text not in owners, f"{text} is owned by {owners[text]} and {facts[b'name']!r}"
            owners[text] = facts[b"name"].decode()
    assert {each[0].decode(): each[1].decode() for each in group[b"pending"]} == owners
    return State(entries, owners, order(group[b"last-delivered-id"].decode()))


def hash_of(text: bytes) -> int:
    return sum(text)


def order(text: str) -> tuple[int, int]:
    ms, seq = text.split("-")
    return int(ms), int(seq)


class Worker(threading.Thread):
    """A client that does what a consumer of a busy queue does, until the server is gone."""

    def __init__(self, name: str, port: int, seed: int, start: State) -> None:
        super().__init__(daemon=True)
        self.label = name
        self.steps: list[Step] = []
        self.known = list(start.entries)  # ids to act upon, of others too
        self._random = random.Random(seed)
        self._wire = Wire(port)
        self._number = 0

    def run(self) -> None:
        try:
            while True:
                self.send(*self.choose())
        except (OSError, ConnectionClosedError):
            self._wire.close()

    def send(self, *words: str) -> None:
        step = Step(self.label, words, time.monotonic())
        self.steps.append(step)
        node = self._wire.call(*words)
        if node.kind == "-":
            step.error = str(node)
            return
        step.reply = node.plain()
        step.answered = time.monotonic()
        self.learn(step)

    def learn(self, step: Step) -> None:
        if step.words[0] == "XADD":
            self.known.append(step.reply.decode())
        for text in delivered(step):
            self.known.append(text)
        del self.known[:-200]

    def some(self, count: int) -> list[str]:
        return list({self._random.choice(self.known) for _ in range(count)}) if self.known else ["0-1"]

    def choose(self) -> tuple[str, ...]:
        chance = self._random.random()
        me = self.label
        if chance < 0.4:
            self._number += 1
            who = f"{me}:{self._number}"
            return ("XADD", KEY, "*", "who", who, "filler", "x" * (hash_of(who.encode()) % 40))
        if chance < 0.65:
            count = str(self._random.randint(1, 4))
            return ("XREADGROUP", "GROUP", GROUP, me, "COUNT", count, "STREAMS", KEY, ">")
        if chance < 0.78:
            return ("XACK", KEY, GROUP, *self.some(3))
        if chance < 0.87:
            return ("XCLAIM", KEY, GROUP, me, "0", *self.some(3), "JUSTID")
        if chance < 0.93:
            return ("XAUTOCLAIM", KEY, GROUP, me, "0", *self.some(1), "COUNT", "3", "JUSTID")
        if chance < 0.98:
            return ("XDEL", KEY, *self.some(2))
        oldest = min(self.known, key=order, default="0-1")
        return ("XTRIM", KEY, "MINID", oldest)


def delivered(step: Step) -> list[str]:
    """The ids that a step's answer says its worker owns from then on."""
    if step.reply is None:
        return []
    match step.words[0]:
        case "XREADGROUP":
            return [entry[0].decode() for _, entries in step.reply for entry in entries]
        case "XCLAIM":
            return [text.decode() for text in step.reply]
        case "XAUTOCLAIM":
            return [text.decode() for text in step.reply[1]]
    return []


def named(step: Step) -> Iterator[str]:
    """The ids that a step's words name."""
    start = {"XACK": 3, "XCLAIM": 5, "XDEL": 2}.get(step.words[0])
    if start is not None:
        yield from (word for word in step.words[start:] if word != "JUSTID")


class Journal:
    """What all workers know of one life of the server, which began in a known state."""

    def __init__(self, before: State, steps: list[Step]) -> None:
        self.before = before
        self.steps = steps
        self.open = [step for step in steps if step.answered == float("inf")]
        self.confirmed = [step for step in steps if step.answered < float("inf")]
        for step in self.confirmed:
            assert not isinstance(step.reply, bytes) or not step.reply.startswith(b"ERR"), step

    def check(self, now: State) -> None:
        """Fail unless the state is one that the confirmed steps, and any of the open ones, lead to."""
        errors = [(step.words, step.error) for step in self.steps if step.error is not None]
        assert not errors, f"error replies: {errors[:3]}"
        self._check_entries(now)
        self._check_owners(now)
        read = [text for step in self.confirmed if step.words[0] == "XREADGROUP" for text in delivered(step)]
        assert len(read) == len(set(read)), "an entry was delivered twice as new"
        assert all(order(text) > self.before.last_delivered for text in read), (
            "delivered before the restart, too"
        )
        assert now.last_delivered >= max(map(order, read), default=self.before.last_delivered)

    def _check_entries(self, now: State) -> None:
        added = dict(self.before.entries)
        for step in self.confirmed:
            if step.words[0] == "XADD":
                added[step.reply.decode()] = step.words[4]
        perhaps = {step.words[4] for step in self.open if step.words[0] == "XADD"}
        removed = {text for step in self.confirmed if step.words[0] == "XDEL" for text in named(step)}
        maybe_removed = {text for step in self.open if step.words[0] == "XDEL" for text in named(step)}
        trimmed = max(
            (order(step.words[3]) for step in self.confirmed if step.words[0] == "XTRIM"), default=(0, 0)
        )
        maybe_trimmed = max(
            (order(step.words[3]) for step in self.open if step.words[0] == "XTRIM"), default=(0, 0)
        )
        for text, who in now.entries.items():
            assert text not in removed, f"{text} was deleted and is back"
            assert order(text) >= trimmed, f"{text} was trimmed and is back"
            if text not in added:
                assert who in perhaps, f"{text} of {who} was never sent, or its answer was another"
                perhaps.discard(who)
            else:
                assert added[text] == who
        for text in added:
            gone = text in removed or text in maybe_removed or order(text) < max(trimmed, maybe_trimmed)
            assert text in now.entries or gone, f"{text} was confirmed and is lost"

    def _check_owners(self, now: State) -> None:
        taken: dict[str, list[tuple[float, float, str]]] = {}  # by id: when it went to whom
        for text, owner in self.before.owners.items():
            taken.setdefault(text, []).append((-2.0, -1.0, owner))
        for step in self.confirmed:
            for text in delivered(step):
                taken.setdefault(text, []).append((step.sent, step.answered, step.worker))
        read = {
            text: step for step in self.confirmed if step.words[0] == "XREADGROUP" for text in delivered(step)
        }
        acks: dict[str, list[Step]] = {}
        for step in self.steps:
            if step.words[0] == "XACK":
                for text in named(step):
                    acks.setdefault(text, []).append(step)
        takers = {
            step.worker for step in self.open if step.words[0] in {"XREADGROUP", "XAUTOCLAIM", "XCLAIM"}
        }
        for text, owner in now.owners.items():
            for ack in acks.get(text, []):
                # Only one of an id that was not delivered yet leaves it pending.
                late = text in read and read[text].answered > ack.sent
                unseen = text not in read and text not in self.before.owners and takers
                assert ack in self.open or late or unseen, (
                    f"{text} was acknowledged and is pending with {owner}"
                )
            facts = taken.get(text, [])
            latest = max((sent for sent, _, _ in facts), default=-3.0)
            possible = {who for _, answered, who in facts if answered >= latest} | takers
            assert owner in possible, f"{text} belongs to {owner}, but was given to {possible}"
        for text, facts in taken.items():
            # Pending entries without a message go when they are claimed, or by a rewrite.
            if text in now.owners or text not in now.entries:
                continue
            first = min(sent for sent, _, _ in facts)
            acknowledged = any(ack.answered >= first for ack in acks.get(text, []))
            assert acknowledged, f"{text} was delivered to {facts[-1][2]} and is pending without a consumer"
