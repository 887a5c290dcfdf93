"""Plays random runs on servers, compares what is seen of each, and shrinks what differs."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from functools import reduce
from itertools import groupby, zip_longest
from operator import and_, or_
from typing import TYPE_CHECKING, Any

from differential.anything import BLOCKING, CONNECTIONS, LATER_MS, LATER_S, UNORDERED
from differential.as_redis_8 import without_tree
from support.aof import AofTail, flags_for
from support.masks import sort_elements
from support.servers import start_server
from support.wire import encode_command

if TYPE_CHECKING:
    from collections.abc import Iterator

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
IS_BLOCKED = re.compile(rb" flags=\w*b")
FLAGS = (
    *("--stream-node-max-entries", "4", "--enable-debug-command", "yes"),
    *("--auto-aof-rewrite-percentage", "0"),  # a rewrite in a long run would leave our place in the file
)


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
    if name == "object":
        return _hide_numbers(node, at_least=1) if words[1].upper() == "REFCOUNT" else node  # refcounts
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


@dataclass
class Seen:
    """What a server showed of a run: replies by step, what it appended, events, invalidated keys."""

    replies: list[Node]
    effects: list[bytes]
    events: list[str]
    invalidated: list[str]


def batches(run: Run) -> Iterator[tuple[int, list[int]]]:
    """A connection and the steps that it sends at once: all up to one that may block, which goes alone."""

    def key(at: int) -> tuple[int, int]:
        number, words = run[at]
        return number, at if words[0].lower() in BLOCKING else -1

    for (number, _), steps in groupby(range(len(run)), key):
        yield number, list(steps)


def waits_forever(words: Words) -> bool:
    """Whether a client that this command blocks waits until it is served or unblocked."""
    upper = [word.upper() for word in words]
    at = -1
    if "BLOCK" in upper[:-1]:
        at = len(upper) - upper[::-1].index("BLOCK")
    elif upper[0] in {"BLMPOP", "BZMPOP"}:
        at = 1
    elif upper[0] == "BLMOVEM":
        at = 5
    return not words[at].strip("0.")


class Played:
    """A server of one kind with an AOF, and the connections that play runs on it."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.server = start_server(kind, *flags_for(kind), *FLAGS)
        self.tail = AofTail(self.server)
        self.control = self.server.wire()
        self.control.call("DEBUG", "SET-ACTIVE-EXPIRE", "0")  # what is past its time goes when it is met
        self.listener = self.server.wire(3)
        self.listener.call("CLIENT", "TRACKING", "ON", "BCAST")
        self.listener.send("PSUBSCRIBE", "__key*")
        self._pushes()
        self.wires: list[Wire] = []
        self.ids: list[bytes] = []

    def close(self) -> None:
        for wire in (self.control, self.listener, *self.wires):
            wire.close()
        self.server.discard()

    def play(self, run: Run) -> Seen:
        """Play a run on an emptied server."""
        self._begin()
        replies: dict[int, Node] = {}
        blocked: dict[int, int] = {}  # connections that wait, and the step that each waits in
        for number, steps in batches(run):
            self._unblock(number, blocked, replies)
            self.wires[number].send_raw(b"".join(encode_command(*_raw(run[at][1])) for at in steps))
            if run[steps[0]][1][0].lower() in BLOCKING and self._is_blocked(number):
                blocked[number] = steps[0]
                if not waits_forever(run[steps[0]][1]):
                    self._unblock(number, blocked, replies)
            else:
                replies |= {at: self.wires[number].read() for at in steps}
                self._collect(blocked, replies)
        for number in list(blocked):
            self._unblock(number, blocked, replies)
        events, invalidated = self._pushes()
        effects = [
            b" ".join(b"<time>" if TIME.fullmatch(word) and word not in STANDING else word for word in words)
            for words in self.tail.take()
            if words[0] != b"SELECT"
        ]
        return Seen(_masked(run, replies), effects, events, sorted(invalidated))

    def _begin(self) -> None:
        for wire in self.wires:
            wire.close()
        self.control.call("CONFIG", "SET", "notify-keyspace-events", "")
        self.control.call("FLUSHALL")
        self.control.call("SCRIPT", "FLUSH")
        self.tail.take()
        self.control.call("CONFIG", "SET", "notify-keyspace-events", EVENTS)
        self._pushes()
        self.wires = [self.server.wire(2 + number % 2) for number in range(CONNECTIONS)]
        self.ids = [wire.call("CLIENT", "ID").value for wire in self.wires]

    def _is_blocked(self, number: int) -> bool:
        """Whether the command that a connection has just sent blocks; False as soon as there is a reply."""
        while not self.wires[number].pending(0.002):
            if IS_BLOCKED.search(self.control.call("CLIENT", "LIST", "ID", self.ids[number]).value):
                return True
        return False

    def _unblock(self, number: int, blocked: dict[int, int], replies: dict[int, Node]) -> None:
        if number in blocked:
            self.control.call("CLIENT", "UNBLOCK", self.ids[number])
            replies[blocked.pop(number)] = self.wires[number].read()

    def _collect(self, blocked: dict[int, int], replies: dict[int, Node]) -> None:
        """Read the replies to clients that the last commands woke."""
        if blocked:
            self.control.call("PING")  # their replies are written before this one
        for number in list(blocked):
            if self.wires[number].pending():
                replies[blocked.pop(number)] = self.wires[number].read()

    def _pushes(self) -> tuple[list[str], set[str]]:
        """What the listener has got: the events in their order, the invalidated keys, however they were grouped."""
        self.listener.send("PING")
        events: list[str] = []
        invalidated: set[str] = set()
        while (node := self.listener.read()).kind == ">":
            if "invalidate" in str(node):
                invalidated.update(map(str, node.children[1].children or ["everything"]))
            else:
                events.append(str(node))
        return events, invalidated


def _raw(words: Words) -> list[bytes]:
    return [word.encode().decode("unicode_escape").encode("latin-1") for word in words]


def _masked(run: Run, replies: dict[int, Node]) -> list[Node]:
    """The replies in the order of the run, each without what `hide` hides of its command, or of those at EXEC."""
    out = []
    queued: list[list[Words] | None] = [None] * CONNECTIONS
    for at, (number, words) in enumerate(run):
        reply, name, inside = replies[at], words[0].upper(), queued[number]
        if name == "EXEC" and inside is not None and reply.children is not None:
            parts = zip(reply.children, inside, strict=True)
            reply = replace(reply, children=tuple(hide(part, command) for part, command in parts))
        else:
            reply = hide(reply, words)
        if reply.value == b"QUEUED" and inside is not None:
            inside.append(words)
        elif name == "MULTI" and reply.value == b"OK":
            queued[number] = []
        elif name in {"EXEC", "DISCARD"}:
            queued[number] = None
        out.append(reply)
    return out


class Comparison:
    """Rillet beside the real server of its version, or beside several where there is none.

    The first two of several are the Redis before and the Redis after that version: where they agree they are right,
    where they differ each of the real servers may be right.

    Attributes:
        followed: where the real servers differ: the command and the first of them that Rillet follows.
    """

    def __init__(self, mine: str, *reals: str) -> None:
        self.mine, self.reals = Played(mine), [Played(real) for real in reals]
        self.followed: Counter[tuple[str, str]] = Counter()

    def close(self) -> None:
        for each in (self.mine, *self.reals):
            each.close()

    def ended(self) -> list[str]:
        """The servers that no longer run."""
        return [each.kind for each in (self.mine, *self.reals) if not each.server.is_running()]

    def first_difference(self, run: Run) -> Difference | None:
        """Play a run on all; None where nothing differs."""
        got, wanted = self.mine.play(run), [real.play(run) for real in self.reals]
        for at, (number, words) in enumerate(run):
            mine, reals = got.replies[at], _right([each.replies[at] for each in wanted])
            if not _is_one_of(mine, reals):
                real = " or ".join(dict.fromkeys(map(str, reals)))
                return Difference(f"reply to {number}: {' '.join(words)}", str(mine), real)
            if mine in reals and any(real != reals[0] for real in reals):
                self.followed[words[0].upper(), self.reals[reals.index(mine)].kind] += 1
        for what in ("effects", "events", "invalidated"):
            parts = _unlike(getattr(got, what), _right([getattr(each, what) for each in wanted]))
            if parts is not None:
                return Difference(what, *parts)
        return None

    def shrink(self, run: Run, found: Difference, tries: int = 150) -> tuple[Run, Difference]:
        """A short run that still differs in the same way, by leaving out ever smaller pieces."""
        size = max(1, len(run) // 2)
        while size:
            at = 0
            while at < len(run) and tries > 0:
                shorter = run[:at] + run[at + size :]
                tries -= 1
                again = self.first_difference(shorter)
                if again is not None and again.what.split(":")[0] == found.what.split(":")[0]:
                    run, found = shorter, again
                else:
                    at += size
            size //= 2
        return run, found


def _is_one_of(mine: Node, reals: list[Node]) -> bool:
    """Whether a reply is that of a real server: EXEC may follow one in its first element and another in its second."""
    if mine in reals or mine.children is None:
        return mine in reals
    alike = [real.children for real in reals if (real.kind, real.header) == (mine.kind, mine.header)]
    parts = enumerate(mine.children)
    return bool(alike) and all(_is_one_of(part, [each[at] for each in alike]) for at, part in parts)


def _right(reals: list[Any]) -> list[Any]:
    """What is right: what the first two servers show where they agree, else what any shows."""
    return reals[:1] if reals[:2] == reals[:1] * 2 else reals


def _unlike(mine: list[object], reals: list[list[object]]) -> tuple[str, str] | None:
    """What Rillet showed and what was wanted, where they part.

    Where real servers differ, Rillet shows what all of them show and nothing that none of them shows.
    """
    if mine in reals:
        return None
    if all(real == reals[0] for real in reals):
        pairs = zip_longest(mine, reals[0])
        return next((str(one), str(other)) for one, other in pairs if one != other)
    counted, wanted = Counter(mine), [Counter(real) for real in reals]
    more, less = counted - reduce(or_, wanted), reduce(and_, wanted) - counted
    return (f"more {list(more)}", f"more {list(less)}") if more or less else None


def describe(run: Run, found: Difference) -> str:
    """The steps and where they part."""
    return "\n".join([*(f"  {number}: {' '.join(words)}" for number, words in run), str(found)])
