r"""Scripts: commands for a server, one a line, as `tests/differential/scripts/*.script` hold them.

    --- a sentence that names the case [resp2]   a case begins on an empty server; [resp2] or [resp3]
                                                 where it makes sense in one protocol only
    XADD s 1-0 f "a b\x00"                       a command of connection A and its reply; quoted as in redis-cli
    B: XLEN s                                    a command of connection B and its reply
    B> XREAD BLOCK 0 STREAMS s $                 a command whose reply is awaited later
    B<                                           that reply (or a push); `B< 3` reads three
    B raw "*1\r\n$4\r\nPING\r\n"                 bytes as they are; the reply is read by `B<`
    B closed                                     the server closes the connection now
    P: HELLO 3                                   connections P to Z send no HELLO of their own
    B silent                                     nothing has been sent to B
    wait blocked 2                               until two clients are blocked
    wait expired k                               until key k is gone
    wait busy                                    until a script keeps the server from other commands
    XADD s * f v   ## id                         after ##: masks (support/masks.py)
    HELLO          ## purpose:modules            ... where Rillet differs on purpose (docs/differences.md)
    HELLO          ## valkey:hello               ... where Valkey is no judge of 7.2 (differential/on_purpose.py)
    HELLO          ## between:hello              ... where Rillet is not as one of 8.2 to 8.8 (the same file)
    # a comment

A mask without a path names the whole reply; TTL and HTTL always have the mask `sec`. Every case runs in RESP2 and in RESP3.
"""

import codecs
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from support.masks import Masks
from support.wire import ConnectionClosedError, Node, Wire, encode_command

NO_REPLY = "no reply"
PATIENCE = 5.0  # seconds
IMPATIENCE = 0.5
UNKNOWN = re.compile(rb"ERR unknown (sub)?command|.*Invalid event class")
TIMERS = ("clients", "keyspace")
EXPIRES = re.compile(rb"expir(?:es|y)=[1-9]")
NONE_BLOCKED = b"blocked_clients:0\r\n"
STEP = re.compile(r"(?P<name>[A-Z])(?P<verb>:|>|<| raw| closed| silent)(?: (?P<rest>.*))?$")
WORD = re.compile(r'"((?:[^"\\]|\\.)*)"(?=\s|$)|(\S+)')

# What a case may have changed besides the data; set back before the next one.
CONFIG_DEFAULTS = {
    "notify-keyspace-events": "", "stream-node-max-entries": "100", "stream-node-max-bytes": "4096", "requirepass": "",
    "maxmemory": "0", "timeout": "0",
}  # fmt: skip


@dataclass(frozen=True)
class Step:
    """One line: which connection does what, and how its reply is masked and judged."""

    line: int
    text: str
    connection: str
    verb: str
    rest: str
    masks: tuple[str, ...] = ()
    purpose: str | None = None
    valkey: str | None = None
    between: str | None = None


@dataclass
class Case:
    """A named run of steps."""

    file: str
    title: str
    line: int
    protocols: tuple[int, ...]
    steps: list[Step] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"{self.file}: {self.title}"


def change_text(text: str, protocol: int) -> Callable[[Node], Node]:
    """Replaces a value by one in the notation of `str(Node)`: `:3`, `$"text"`, `null`."""
    if text == "null":
        return lambda _: Node("_", b"") if protocol == 3 else Node("$", b"-1")
    if text[0] == "$":
        value = unescape(text[2:-1])
        return lambda _: Node("$", b"%d" % len(value), value)
    return lambda _: Node(text[0], text[1:].encode())


@dataclass(frozen=True)
class Answer:
    """What a server answered to a step: the masked reply, or a word such as `closed`."""

    step: Step
    reply: Node | str

    @property
    def raw(self) -> bytes:
        return self.reply.encode()

    def __str__(self) -> str:
        return str(self.reply)


def split_words(text: str) -> list[bytes]:
    """The words of a line, double-quoted ones with C escapes."""
    words = []
    for quoted, bare in WORD.findall(text):
        words.append(unescape(quoted) if not bare else bare.encode())
    return words


def unescape(text: str) -> bytes:
    return codecs.escape_decode(text.encode())[0]


def parse_step(number: int, text: str) -> Step:
    """One line of a case."""
    command, _, notes = text.partition(" ## ")
    command = command.strip()
    masks, purpose, valkey, between = [], None, None, None
    for note in notes.split():
        if note.startswith("purpose:"):
            purpose = note.removeprefix("purpose:")
        elif note.startswith("valkey:"):
            valkey = note.removeprefix("valkey:")
        elif note.startswith("between:"):
            between = note.removeprefix("between:")
        else:
            masks.append(note if ":" in note else note + ":.")
    if command.startswith("wait "):
        connection, verb, rest = "", "wait", command.removeprefix("wait ")
    elif match := STEP.match(command):
        connection, verb, rest = match["name"], match["verb"].strip(), match["rest"] or ""
    else:
        connection, verb, rest = "A", ":", command
    if rest.partition(" ")[0] in {"TTL", "HTTL"}:
        masks.append("sec:.")
    return Step(number, command, connection, verb, rest, tuple(masks), purpose, valkey, between)


def parse_script(path: Path) -> list[Case]:
    """All cases of one file."""
    cases: list[Case] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        if text.startswith("--- "):
            title = text.removeprefix("--- ")
            protocols: tuple[int, ...] = (2, 3)
            if match := re.search(r" \[resp([23])\]$", title):
                protocols, title = (int(match[1]),), title[: match.start()]
            cases.append(Case(path.stem, title, number, protocols))
        else:
            cases[-1].steps.append(parse_step(number, text))
    return cases


# Thousands of cases begin and end with this: one round trip, and one command for all settings.
EMPTYING = (
    ("CONFIG", "SET", "requirepass", ""),
    ("FLUSHALL",),
    ("CONFIG", "SET", *(word for setting in CONFIG_DEFAULTS.items() for word in setting)),
    ("ACL", "USERS"),
)
EMPTYING_SENT = b"".join(encode_command(*words) for words in EMPTYING)


def empty(wire: Wire) -> None:
    """Make a server as new: no data, no users, the configuration of its start."""
    wire.send_raw(EMPTYING_SENT)
    *_, settings, users = [wire.read() for _ in EMPTYING]
    assert settings.value == b"OK", settings
    for user in users.children or ():
        if user.value != b"default":
            wire.call("ACL", "DELUSER", user.value)


class Player:
    """Plays cases on one server, each on fresh connections.

    Args:
        port: of the server.
        protocol: of connections A to O.
        ports: of connections to other servers.
        patience: the seconds after which a reply does not come.
    """

    def __init__(
        self, port: int, protocol: int, ports: Mapping[str, int] | None = None, patience: float = PATIENCE
    ) -> None:
        self.port = port
        self.patience = patience
        self.ports = ports or {}
        self.protocol = protocol
        self.wires: dict[str, Wire] = {}
        self.masks = Masks()
        self.control = Wire(port)
        empty(self.control)

    def close(self) -> None:
        """Hang up and make the server as new (by a connection no password or ACL of the case touched)."""
        for wire in self.wires.values():
            wire.close()
        empty(self.control)
        self.control.close()

    def wire(self, name: str) -> Wire:
        if name not in self.wires:
            port = self.ports.get(name, self.port)
            self.wires[name] = Wire(port, self.protocol if name < "P" else 2)
        return self.wires[name]

    def play(self, steps: list[Step]) -> Iterator[Answer]:
        """The answer to every step that has one, in order. A closed connection is an answer,
        too, and so is a reply that never comes: the case ends there."""
        for step in steps:
            if step.verb == "wait":
                if not self.wait(step.rest):
                    yield Answer(step, NO_REPLY)
                    return
                continue
            for reply in self.take(step):
                yield Answer(step, reply)
                if reply == NO_REPLY:
                    return

    def take(self, step: Step) -> Iterator[Node | str]:
        wire = self.wire(step.connection)
        wire.wait_at_most(self.patience)
        try:
            if step.verb == "raw":
                wire.send_raw(unescape(self.masks.fill_in(step.rest.strip('"'))))
            elif step.verb == "closed":
                yield "closed" if wire.is_closed_by_server() else f"not closed: {wire.pending()!r}"
            elif step.verb == "silent":
                self.control.call("PING")
                yield f"silent {wire.pending(0.02)!r}"
            elif step.verb == "<":
                for _ in range(int(step.rest or 1)):
                    yield self.masks.apply(self.awaited(wire), list(step.masks))
            else:
                wire.send(*split_words(self.masks.fill_in(step.rest)))
                if step.verb == ":":
                    reply = self.reply(wire)
                    if UNKNOWN.match(reply.value):
                        # What the case waits for is mostly what this command would have sent.
                        self.patience = min(self.patience, IMPATIENCE)
                    yield self.masks.apply(reply, list(step.masks))
        except TimeoutError:
            yield NO_REPLY
        except (ConnectionClosedError, ConnectionError):
            yield "closed"

    def awaited(self, wire: Wire) -> Node:
        """Read what another command brings. An impatient player gives up at once where no timer can bring it, either."""
        if self.patience < PATIENCE and not wire.pending():
            # What was sent before the first question is done by the answer to the second.
            *_, figures = (self.control.call("INFO", *TIMERS).value for _ in range(2))
            has_timers = NONE_BLOCKED not in figures or EXPIRES.search(figures)
            if not has_timers and not wire.pending(0.02) and not wire.is_over():
                raise TimeoutError
        return wire.read()

    def reply(self, wire: Wire) -> Node:
        """Read a reply. An impatient player gives up where a client is blocked, not where the server is late."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                return wire.read()
            except TimeoutError:
                text = self.control.call("INFO", "clients").value
                if NONE_BLOCKED not in text or time.monotonic() > until:
                    raise

    def wait(self, what: str) -> bool:
        """Wait for a condition that no reply shows."""
        kind, _, argument = what.partition(" ")
        until = time.monotonic() + self.patience
        while time.monotonic() < until:
            if kind == "blocked":
                text = self.control.call("INFO", "clients").value
                if b"blocked_clients:%d\r\n" % int(argument) in text:
                    return True
                if any(wire.pending().startswith(b"-") for wire in self.wires.values()):
                    # A version that refuses the command does not block.
                    self.patience = min(self.patience, IMPATIENCE)
                    until = min(until, time.monotonic() + self.patience)
            elif kind == "expired":
                if self.control.call("EXISTS", *argument.split()).value == b"0":
                    return True
            elif kind == "busy":
                if self.control.call("PING").value.startswith(b"BUSY"):
                    return True
            else:
                raise ValueError(f"cannot wait for {what!r}")
            time.sleep(0.002)
        return False


def play_case(port: int, protocol: int, case: Case) -> list[Answer]:
    """Return all replies of an empty server to a case; leaves it empty."""
    player = Player(port, protocol)
    try:
        return list(player.play(case.steps))
    finally:
        player.close()
