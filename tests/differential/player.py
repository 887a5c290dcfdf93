"""Plays random runs on servers, compares what is seen of each, and shrinks what differs."""

import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from itertools import groupby, zip_longest
from operator import and_, or_
from typing import Any, Self

from differential.about_servers import changed_settings, filled, payloads, reset
from differential.anything import BLOCKING, CONNECTIONS, SUBSCRIBING, Run, Words
from differential.hiding import STANDING, TIME, hide, hide_of_message
from support.aof import AofTail, flags_for
from support.servers import ServerProcess, start_server
from support.wire import ConnectionClosedError, Node, Wire, encode_command

# The most classes that a server knows; but for misses (m), whose order SORT BY takes from a hash table.
# What takes a key past its time: the player waits as long behind each command that names it.
SOON = "{soon}"
LINE_END, SHOWN_END = "\n", "\\n"
EVENTS = ("KEAnoc", "KEAn")
IS_BLOCKED = re.compile(rb" flags=\w*b")
FLAGS = (
    *("--slowlog-log-slower-than", "-1"),  # how long a command takes is chance
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


@dataclass
class Seen:
    """What a server showed of a run.

    Attributes:
        replies: by step; to one that subscribes or unsubscribes all that it sends.
        effects: what it appended to its file.
        events: keyspace events in their order.
        invalidated: keys, by the tracking of all keys and by that of each connection.
        messages: what each connection got besides replies, and that it was closed.
    """

    replies: list[Node]
    effects: list[bytes]
    events: list[str]
    invalidated: list[str]
    messages: list[str]


# Commands that go alone: after them a connection may be closed, or speak otherwise.
ALONE = {"client", "hello", "reset", "quit", "auth", "acl", "exec", "debug"} | SUBSCRIBING
NO_ENTRY = re.compile(r"\*\[:-1( :-1)*\]")  # XDELEX of ids that no entry has
CLOSED = Node("-", b"<closed>")
MESSAGES = {
    b"message", b"pmessage", b"smessage", b"subscribe", b"unsubscribe", b"punsubscribe", b"sunsubscribe",
}  # fmt: skip


def batches(run: Run, alone: Collection[str] = ALONE | BLOCKING) -> Iterator[tuple[int, list[int]]]:
    """A connection and the steps that it sends at once: all up to one that goes alone, as it may block or close."""

    def key(at: int) -> tuple[int, int]:
        number, words = run[at]
        return number, at if words[0].lower() in alone or SOON in words else -1

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


class OnServer:
    """A server of one kind with an AOF, in which nothing expires before it is met, and connections that play on it."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.server = self._start()
        self.tail = AofTail(self.server)
        self.control = self.server.wire()
        self.control.call("DEBUG", "SET-ACTIVE-EXPIRE", "0")
        self.settings = changed_settings(self.control)
        self.wires: list[Wire] = []
        self.payloads: dict[str, bytes] = {}

    def _start(self) -> ServerProcess:
        return start_server(self.kind, *flags_for(self.kind), *FLAGS)

    def close(self) -> None:
        for wire in (self.control, *self.wires):
            wire.close()
        self.server.discard()


class Played(OnServer):
    """A server, and connections whose replies, events and effects are seen after a run."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.listener = self.server.wire(3)
        self.listener.call("CLIENT", "TRACKING", "ON", "BCAST")
        self.listener.send("PSUBSCRIBE", "__key*")
        self._pushes()
        self.events = next(each for each in EVENTS if self._knows_events(each))

    def _knows_events(self, classes: str) -> bool:
        return self.control.call("CONFIG", "SET", "notify-keyspace-events", classes).kind == "+"

    def close(self) -> None:
        self.listener.close()
        super().close()

    def play(self, run: Run) -> Seen:
        """Play a run on an emptied server."""
        self._begin()
        replies: dict[int, Node] = {}
        blocked: dict[int, int] = {}  # connections that wait, and the step that each waits in
        for number, steps in batches(run):
            self._unblock(number, blocked, replies)
            first = run[steps[0]][1][0].lower()
            self._send(number, b"".join(encode_command(*self._filled(run[at][1])) for at in steps))
            if first in BLOCKING and self._is_blocked(number):
                blocked[number] = steps[0]
                if not waits_forever(run[steps[0]][1]):
                    self._unblock(number, blocked, replies)
            elif first in SUBSCRIBING:
                replies[steps[0]] = self._read_all(number)
            else:
                for at in steps:
                    try:
                        replies[at] = self._read(number)
                    except TimeoutError as no_reply:
                        no_reply.add_note(f"{self.kind} to {number}: {' '.join(run[at][1])}")
                        raise
            self._collect(blocked, replies)
        for number in list(blocked):
            self._unblock(number, blocked, replies)
        events, invalidated = self._pushes()
        effects = [
            b" ".join(b"<time>" if TIME.fullmatch(word) and word not in STANDING else word for word in words)
            for words in self.tail.take()
        ]
        messages = [
            f"{number}: {message}"
            for number, got in enumerate(self.messages)
            for message in _in_any_order(got)
        ]
        return Seen(_masked(run, replies), effects, events, sorted(invalidated | self.invalidated), messages)

    def _begin(self) -> None:
        for wire in self.wires:
            wire.close()
        self.control.call("CONFIG", "SET", "notify-keyspace-events", "")
        self.control.call("FLUSHALL")
        reset(self.control)
        self.control.calls(self.settings)
        self.tail.take()
        self.control.call("CONFIG", "SET", "notify-keyspace-events", self.events)
        self._pushes()
        self.invalidated: set[str] = set()
        self.messages: list[list[str]] = [[] for _ in range(CONNECTIONS + 1)]
        self.wires = []
        self.known = dict(self.payloads)
        for number in range(CONNECTIONS + 1):
            self.wires.append(self._connect(number))

    def _connect(self, number: int) -> Wire:
        """A new connection: every second one speaks RESP3. The last one is for looks alone."""
        wire = self.server.wire(2 + number % 2 * (number < CONNECTIONS))
        self.known[f"id{number}"] = wire.call("CLIENT", "ID").value
        return wire

    def _filled(self, words: Words) -> list[bytes]:
        return [filled(word, self.known) for word in words]

    def _send(self, number: int, data: bytes) -> None:
        self.wires[number].send_raw(data)

    def _reconnect(self, number: int) -> None:
        """Note that the server closed a connection, and open it again."""
        self.messages[number].append("closed")
        self.wires[number].close()
        try:
            self.wires[number] = self._connect(number)
        except OSError as error:
            if self.server.is_running():
                raise
            raise ConnectionClosedError(f"{self.kind} ended") from error

    def _read(self, number: int) -> Node:
        """The next reply; messages that come before it are kept."""
        try:
            while self._is_message(node := self.wires[number].read()):
                self._keep(number, node)
        except (ConnectionClosedError, ConnectionError):
            self._reconnect(number)
            return CLOSED
        return node

    def _read_all(self, number: int) -> Node:
        """All that a command sends that may send several messages and no reply."""
        try:
            nodes = [self.wires[number].read()]
            self.control.call("PING")  # what was written before is here
            while self.wires[number].pending():
                nodes.append(self.wires[number].read())
        except (ConnectionClosedError, ConnectionError):
            self._reconnect(number)
            return CLOSED
        return Node("*", b"%d" % len(nodes), None, tuple(nodes))

    def _is_message(self, node: Node) -> bool:
        return node.kind == ">" or (
            node.kind == "*" and len(node.children or ()) in {3, 4} and node.children[0].value in MESSAGES
        )

    def _keep(self, number: int, node: Node) -> None:
        if node.children and node.children[0].value == b"invalidate":
            keys = node.children[1].children or ["everything"]
            self.invalidated.update(f"{number}: {key}" for key in keys)
        else:
            self.messages[number].append(str(hide_of_message(node)))

    def _is_blocked(self, number: int) -> bool:
        """Whether the command that a connection has just sent blocks; False as soon as there is a reply."""
        while not self._has_reply(number, 0.002):
            if IS_BLOCKED.search(self.control.call("CLIENT", "LIST", "ID", self.known[f"id{number}"]).value):
                return True
        return False

    def _has_reply(self, number: int, wait: float = 0.0) -> bool:
        """Whether a reply, or the end, can be read without waiting; messages before it are kept."""
        wire = self.wires[number]
        while wire.pending(wait):
            if not self._is_message(node := wire.read()):
                wire.put_back(node)
                return True
            self._keep(number, node)
        return wire.is_over()

    def _unblock(self, number: int, blocked: dict[int, int], replies: dict[int, Node]) -> None:
        if number in blocked:
            self.control.call("CLIENT", "UNBLOCK", self.known[f"id{number}"])
            replies[blocked.pop(number)] = self._read(number)

    def _collect(self, blocked: dict[int, int], replies: dict[int, Node]) -> None:
        """Read the replies to clients that the last commands woke, and messages to any."""
        self.control.call("PING")  # what is meant for them was written before this reply
        for number in range(len(self.wires)):
            if self._has_reply(number):
                if number in blocked:
                    replies[blocked.pop(number)] = self._read(number)
                elif self.wires[number].is_over():
                    self._reconnect(number)
                else:
                    self.messages[number].append(str(self.wires[number].read()))

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


def _in_any_order(messages: list[str]) -> list[str]:
    """Messages where those by several patterns, which come in the order of a hash table, are sorted."""
    grouped = groupby(messages, key=lambda message: '$"pmessage"' in message)
    return [message for by_pattern, part in grouped for message in (sorted(part) if by_pattern else part)]


def _is_queued(reply: Node) -> bool:
    """Whether a command waits for EXEC; what one that subscribes gets is read as a list."""
    return reply.value == b"QUEUED" or [part.value for part in reply.children or ()] == [b"QUEUED"]


def _masked(run: Run, replies: dict[int, Node]) -> list[Node]:
    """The replies in the order of the run, each without what `hide` hides of its command, or of those at EXEC."""
    out = []
    queued: list[list[Words] | None] = [None] * (CONNECTIONS + 1)
    for at, (number, words) in enumerate(run):
        reply, name, inside = replies[at], words[0].upper(), queued[number]
        if name == "EXEC" and inside is not None and reply.children is not None:
            parts = zip(reply.children, inside, strict=True)
            reply = replace(reply, children=tuple(hide(part, command) for part, command in parts))
        else:
            reply = hide(reply, words)
        if inside is not None and _is_queued(reply):
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
        self._compare(Played(mine), [Played(real) for real in reals])
        shared = min((each.events for each in (self.mine, *self.reals)), key=len)  # what all know
        for each in (self.mine, *self.reals):
            each.events = shared

    def _compare(self, mine: Any, reals: list[Any]) -> None:
        """Take the players, and let all know the payloads of all."""
        self.mine, self.reals = mine, reals
        known = [payloads(each.control) for each in (self.reals[0], self.mine)]
        for each in (self.mine, *self.reals):
            each.payloads = {
                f"{name}{at}": value
                for name in known[0]
                for at, value in enumerate(known[0][name] + known[1][name])
            }
        self.followed: Counter[tuple[str, str]] = Counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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
        for what in ("effects", "events", "invalidated", "messages"):
            parts = _unlike(getattr(got, what), _right([getattr(each, what) for each in wanted]))
            if parts is not None and what == "effects":
                rest = _without_references(got.effects, run, got.replies)
                parts = _unlike(rest, _right([each.effects for each in wanted]))
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


def _answered(run: Run, replies: list[Node]) -> Iterator[tuple[Words, Node]]:
    """Each command that ran and its reply: of one that waited for EXEC the element of that reply."""
    queued: dict[int, list[Words]] = {}
    for (number, words), node in zip(run, replies, strict=True):
        if _is_queued(node):
            queued.setdefault(number, []).append(words)
            continue
        yield words, node
        if words[0].upper() in {"EXEC", "MULTI", "DISCARD", "RESET"}:
            yield from zip(queued.pop(number, ()), node.children or (), strict=False)


def _without_references(effects: list[bytes], run: Run, replies: list[Node]) -> list[bytes]:
    """The effects without XDELEX where it removed references and no entry (references-without-entries)."""
    left = list(effects)
    for words, node in _answered(run, replies):
        if words[0].upper() != "XDELEX" or "DELREF" not in map(str.upper, words):
            continue
        effect = " ".join(words).encode()
        if effect in left and NO_ENTRY.fullmatch(str(node)):
            at = left.index(effect)
            del left[at]
            if left[at - 1 : at + 1] == [b"MULTI", b"EXEC"]:
                del left[at - 1 : at + 1]
            elif left[at - 2 : at - 1] + left[at : at + 1] == [b"MULTI", b"EXEC"]:
                del left[at], left[at - 2]
            elif left[at - 1 : at] + left[at + 1 : at + 2] == [b"MULTI", b"EXEC"]:
                del left[at + 1], left[at - 1]
    return left


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
    steps = (
        f"  {number}: {shlex.join(word.replace(LINE_END, SHOWN_END) for word in words)}"
        for number, words in run
    )
    return "\n".join([*steps, str(found)])


def read_story(text: str) -> Run:
    """The steps that `describe` showed."""
    steps = re.findall(r"^  (\d): (.*)", text, re.MULTILINE)
    return [
        (int(number), [word.replace(SHOWN_END, LINE_END) for word in shlex.split(line)])
        for number, line in steps
    ]
