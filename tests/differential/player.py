"""Plays random runs on two servers, compares what is seen of each, and shrinks what differs."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING

from differential.anything import CONNECTIONS, LATER_MS, LATER_S, UNORDERED
from differential.as_redis_8 import without_tree
from support.aof import AofTail, flags_for
from support.masks import sort_elements
from support.servers import start_server

if TYPE_CHECKING:
    from differential.anything import Run, Words
    from support.wire import Node, Wire

# Times of this century in seconds or milliseconds, and automatic ids of streams.
NOW = re.compile(rb"1[5-9]\d{8}(\d{3}(-\d+)?)?")
# A time in an effect: 13 digits, an automatic id also with its sequence.
TIME = re.compile(rb"\d{13}(-\d+)?|1[5-9]\d{8}")
AGES = {b"idle", b"inactive", b"seen-time", b"active-time"}
# What is left of a time: two servers are asked one after the other.
REMAINING = {"pttl", "ttl", "hpttl", "httl"}
EXPIRING = {"pexpiretime", "expiretime", "hpexpiretime", "hexpiretime"}
# Absolute times that commands name are compared as they are.
STANDING = {LATER_MS.encode(), LATER_S.encode()}
EVENTS = "KEA"


@dataclass(frozen=True)
class Difference:
    """Where two servers part: a line that says what, and what each showed."""

    what: str
    mine: str
    real: str

    def __str__(self) -> str:
        return f"{self.what}\n    real   {self.real}\n    rillet {self.mine}"


def hide(node: Node, words: Words) -> Node:
    """A reply without what no two servers share: times, ages, the order of hash tables."""
    name = words[0].lower() if words else ""
    if name in REMAINING:
        return _hide_numbers(node, at_least=0)
    if name in EXPIRING:
        return _hide_numbers(node, at_least=10**9)
    if name in {"sort", "sort_ro"} and "BY" in {word.upper() for word in words}:
        return _sorted_deep(node)  # elements of equal weight
    if name in UNORDERED:
        has_pairs = name in {"hgetall", "hscan", "zscan"} and "NOVALUES" not in {
            word.upper() for word in words
        }
        node = _sorted_pairs(node) if has_pairs else _sorted_deep(node)
    if name in {"xpending", "xreadgroup"}:
        node = _hide_idle(node, name)
    return _hide_now(without_tree(node) if name == "xinfo" else node)


def _hide_now(node: Node) -> Node:
    if node.children is None:
        return node.with_value(b"<now>") if node.kind in ":$" and NOW.fullmatch(node.value) else node
    children = list(map(_hide_now, node.children))
    for at, child in enumerate(children[:-1]):
        if child.children is None and child.value in AGES and children[at + 1].kind == ":":
            value = children[at + 1]
            children[at + 1] = value if value.value == b"-1" else value.with_value(b"<age>")
    return replace(node, children=tuple(children))


def _hide_numbers(node: Node, at_least: int) -> Node:
    if node.children is not None:
        return replace(node, children=tuple(_hide_numbers(child, at_least) for child in node.children))
    if node.kind != ":" or node.value in STANDING or int(node.value) < at_least:
        return node
    return node.with_value(b"<time>")


def _sorted_deep(node: Node) -> Node:
    if node.children is None:
        return node
    inner = replace(node, children=tuple(map(_sorted_deep, node.children)))
    return sort_elements(inner)


def _sorted_pairs(node: Node) -> Node:
    """Names with their values: pairs in a flat array, or in the second element of a scan's reply."""
    children = node.children or ()
    if len(children) == 2 and children[1].children is not None:
        return replace(node, children=(children[0], _sorted_pairs(children[1])))
    if len(children) % 2:
        return node
    pairs = sorted(zip(children[::2], children[1::2], strict=True), key=lambda pair: pair[0].encode())
    return replace(node, children=tuple(part for pair in pairs for part in pair))


def _hide_idle(node: Node, name: str) -> Node:
    """XPENDING's third column, and the one of XREADGROUP CLAIM: [id, fields, idle, deliveries]."""
    if node.children is None:
        return node
    children = tuple(_hide_idle(child, name) for child in node.children)
    kinds = [child.kind for child in children]
    if len(children) == 4 and kinds[2:] == [":", ":"]:
        children = (*children[:2], children[2].with_value(b"<age>"), children[3])
    return replace(node, children=children)


class Played:
    """A server of one kind with an AOF, and the connections that play runs on it."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        flags = ("--stream-node-max-entries", "4", "--enable-debug-command", "yes")
        self.server = start_server(kind, *flags_for(kind), *flags)
        self.tail = AofTail(self.server)
        self.control = self.server.wire()
        self.control.call("DEBUG", "SET-ACTIVE-EXPIRE", "0")  # what is past its time goes when it is met
        self.listener = self.server.wire(3)
        self.listener.call("CLIENT", "TRACKING", "ON", "BCAST")
        self.listener.send("PSUBSCRIBE", "__key*")
        self._pushes()
        self.wires: list[Wire] = []

    def close(self) -> None:
        for wire in (self.control, self.listener, *self.wires):
            wire.close()
        self.server.discard()

    def play(self, run: Run) -> tuple[list[Node | str], list[bytes], list[str], Counter[str]]:
        """The replies, what was appended, the events, the invalidated keys."""
        for wire in self.wires:
            wire.close()
        self.control.call("CONFIG", "SET", "notify-keyspace-events", "")
        self.control.call("FLUSHALL")
        self.control.call("SCRIPT", "FLUSH")
        self.tail.take()
        self.control.call("CONFIG", "SET", "notify-keyspace-events", EVENTS)
        self._pushes()
        self.wires = [self.server.wire(2 + number % 2) for number in range(CONNECTIONS)]
        ids = [wire.call("CLIENT", "ID").value for wire in self.wires]
        replies: list[Node | str] = []
        queued: list[list[Words] | None] = [None] * CONNECTIONS
        for number, words in run:
            reply = self._call(self.wires[number], ids[number], words)
            replies.append(self._masked(reply, words, number, queued))
        events, invalidated = self._pushes()
        effects = [
            b" ".join(b"<time>" if TIME.fullmatch(word) and word not in STANDING else word for word in words)
            for words in self.tail.take()
            if words[0] != b"SELECT"
        ]
        return replies, effects, events, invalidated

    def _call(self, wire: Wire, client: bytes, words: Words) -> Node:
        """The reply; a client that waits is unblocked."""
        wire.send(*(word.encode().decode("unicode_escape").encode("latin-1") for word in words))
        for _ in range(200):
            if wire.pending(0.03):
                break
            self.control.call("CLIENT", "UNBLOCK", client)
        return wire.read()

    @staticmethod
    def _masked(reply: Node, words: Words, number: int, queued: list[list[Words] | None]) -> Node:
        name = words[0].upper()
        inside = queued[number]
        if name == "EXEC" and inside is not None and reply.children is not None:
            queued[number] = None
            parts = zip(reply.children, inside, strict=True)
            return replace(reply, children=tuple(hide(part, command) for part, command in parts))
        if reply.value == b"QUEUED" and inside is not None:
            inside.append(words)
        elif name == "MULTI" and reply.value == b"OK":
            queued[number] = []
        elif name in {"EXEC", "DISCARD"}:
            queued[number] = None
        return hide(reply, words)

    def _pushes(self) -> tuple[list[str], Counter[str]]:
        """What the listener has got: the events in their order, the invalidated keys in any."""
        self.listener.send("PING")
        events: list[str] = []
        invalidated: Counter[str] = Counter()
        while (node := self.listener.read()).kind == ">":
            if "invalidate" in str(node):
                invalidated[str(node)] = 1
            else:
                events.append(str(node))
        return events, invalidated


def first_difference(run: Run, mine: Played, real: Played) -> Difference | None:
    """Play a run on both; None where nothing differs."""
    got, wanted = mine.play(run), real.play(run)
    for (number, words), one, other in zip(run, got[0], wanted[0], strict=True):
        if one != other:
            return Difference(f"reply to {number}: {' '.join(words)}", str(one), str(other))
    for what, ones, others in (("AOF", got[1], wanted[1]), ("event", got[2], wanted[2])):
        for one, other in zip_longest(ones, others):
            if one != other:
                return Difference(f"{what}", str(one), str(other))
    if got[3] != wanted[3]:
        return Difference("invalidated", str(got[3] - wanted[3]), str(wanted[3] - got[3]))
    return None


def shrink(run: Run, mine: Played, real: Played, tries: int = 150) -> tuple[Run, Difference]:
    """A short run that still differs, by leaving out ever smaller pieces."""
    found = first_difference(run, mine, real)
    assert found is not None, "a difference that does not come again"
    size = max(1, len(run) // 2)
    while size:
        at = 0
        while at < len(run) and tries > 0:
            shorter = run[:at] + run[at + size :]
            tries -= 1
            again = first_difference(shorter, mine, real)
            if again is not None and again.what.split(":")[0] == found.what.split(":")[0]:
                run, found = shorter, again
            else:
                at += size
        size //= 2
    return run, found


def describe(run: Run, found: Difference) -> str:
    """The steps and where they part."""
    return "\n".join([*(f"  {number}: {' '.join(words)}" for number, words in run), str(found)])
